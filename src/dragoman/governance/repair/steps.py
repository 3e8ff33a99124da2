"""The names of the liberties that a repair may take, in order of boldness.

They are what a repair reports, so they are part of its interface: rename none, and insert new ones where
they belong in the order.
"""

from collections.abc import Iterable
from typing import Final

# Around the object.
WRAPPING: Final = "wrapping"
EMPTY: Final = "empty"
DOUBLE_ENCODING: Final = "double_encoding"

# Within the object: another spelling of the same thing.
CONTROL_CHARACTERS: Final = "control_characters"
COMMAS: Final = "commas"
COMMENTS: Final = "comments"
QUOTES: Final = "quotes"
BARE_KEYS: Final = "bare_keys"
LITERALS: Final = "literals"
NUMBERS: Final = "numbers"
SEPARATORS: Final = "separators"
ESCAPES: Final = "escapes"

# Within the object: something is missing or too much.
UNFINISHED_STRING: Final = "unfinished_string"
BRACKETS: Final = "brackets"
SURPLUS_CLOSERS: Final = "surplus_closers"
BARE_VALUES: Final = "bare_values"
INNER_QUOTES: Final = "inner_quotes"
REPEATED_OBJECT: Final = "repeated_object"
LIST_OF_ONE: Final = "list_of_one"
SURROUNDING_TEXT: Final = "surrounding_text"

# By the tool's own schema.
OMITTED_VALUES: Final = "omitted_values"
LINES: Final = "lines"
LONE_STRING: Final = "lone_string"
ENVELOPE: Final = "envelope"
ALIASES: Final = "aliases"
TYPES: Final = "types"

STEPS: Final = (
    WRAPPING,
    EMPTY,
    DOUBLE_ENCODING,
    CONTROL_CHARACTERS,
    COMMAS,
    COMMENTS,
    QUOTES,
    BARE_KEYS,
    LITERALS,
    NUMBERS,
    SEPARATORS,
    ESCAPES,
    UNFINISHED_STRING,
    BRACKETS,
    SURPLUS_CLOSERS,
    BARE_VALUES,
    INNER_QUOTES,
    REPEATED_OBJECT,
    LIST_OF_ONE,
    SURROUNDING_TEXT,
    OMITTED_VALUES,
    LINES,
    LONE_STRING,
    ENVELOPE,
    ALIASES,
    TYPES,
)


def in_order(steps: Iterable[str]) -> tuple[str, ...]:
    """Each step once, the timid ones first."""
    return tuple(sorted(set(steps), key=STEPS.index))
