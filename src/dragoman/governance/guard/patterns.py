"""Regular expressions and globs of guard rules, on RE2: search time is linear in the text.

This is the only module that imports `re2`, which has no type stubs.
"""

import re

import re2  # type: ignore[import-untyped]  # the package has no stubs; `Pattern` is the typed seam

MAX_LENGTH = 1000
#: Bytes that one compiled pattern may use. A guard can have 500 rules.
MAX_MEMORY = 1024 * 1024

#: RE2 reads `{,3}` as plain text, so a rule with it would never apply.
_OPEN_REPEAT = re.compile(r"(?<!\\)\{,\d+\}")

_OPTIONS = re2.Options()
_OPTIONS.max_mem = MAX_MEMORY
_OPTIONS.never_capture = True
# RE2 writes errors to stderr by default, with the pattern.
_OPTIONS.log_errors = False


class PatternError(ValueError):
    """The text is not a pattern that RE2 supports; the message gives the reason."""


class Pattern:
    """A compiled regular expression; `is_in` searches a text for it."""

    __slots__ = ("_search",)

    def __init__(self, source: str) -> None:
        if len(source) > MAX_LENGTH:
            raise PatternError(f"it is longer than {MAX_LENGTH} characters")
        if _OPEN_REPEAT.search(source):
            raise PatternError("a repetition needs a lower bound: {0,n}")
        try:
            self._search = re2.compile(_to_bytes(source), _OPTIONS).search
        except re2.error as error:
            (reason,) = error.args
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise PatternError(text) from None

    def is_in(self, text: str) -> bool:
        return self._search(_to_bytes(text)) is not None


class Glob:
    """A name in which `*` stands for any text."""

    __slots__ = ("_name", "_pattern")

    def __init__(self, source: str) -> None:
        self._name = source
        self._pattern: Pattern | None = None
        if "*" in source:
            parts = (re2.escape(part) for part in source.split("*"))
            self._pattern = Pattern(r"(?s)\A" + ".*".join(parts) + r"\z")

    def matches(self, text: str) -> bool:
        return text == self._name if self._pattern is None else self._pattern.is_in(text)


def _to_bytes(text: str) -> bytes:
    """UTF-8. Half of a surrogate pair, which JSON escapes can contain, becomes a question mark."""
    return text.encode("utf-8", "replace")
