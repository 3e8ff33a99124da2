"""Commands that need a shell, in the form of argument lists that have one: `bash`, `-lc` and the whole text.

Only what an argument list cannot do is changed: operators standing among the words, a whole command line in
one word, a shell whose text fell apart into words.
"""

import re
import shlex
from collections.abc import Sequence

from dragoman.governance.guard.shell import OPERATORS, SHELLS

#: Operators that make sense as words of their own. Brackets may be arguments of `find` or `test`.
_FOLDING = (OPERATORS | {"2>", "2>>", "2>&1", "1>&2", ">&2"}) - {"(", ")", "\n"}
_SHELL_FLAGS = frozenset({"-c", "-lc", "-cl", "-ic", "-lic", "-ilc"})
#: Words of `find` behind which a semicolon ends the command that it runs.
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_META = frozenset("|&;<>$`\n")
#: Words that mean in a shell what their writer meant, be it with the names that a pattern stands for.
_BARE = re.compile(r"[\w@%+=:,./*?~${}\[\]-]+", re.ASCII)


def folded(command: object, *, wants_list: bool) -> list[str] | None:
    """The argument list to use instead, or None if the command can stay as it is."""
    if isinstance(command, str):
        return _bash(command) if wants_list and command.strip() else None
    if not isinstance(command, list) or not command:
        return None
    words = [word for word in command if isinstance(word, str)]
    if len(words) != len(command):
        return None
    if words[0].rpartition("/")[2] in SHELLS:
        return _rejoined(words)
    if len(words) == 1:
        return _bash(words[0]) if len(words[0].split()) > 1 else None
    return _bash(_joined(words)) if _operators_at(words) else None


def _bash(text: str) -> list[str]:
    return ["bash", "-lc", text]


def _rejoined(words: list[str]) -> list[str] | None:
    """A shell takes its text as one word; what follows would be parameters that nobody meant."""
    if len(words) <= 3 or words[1] not in _SHELL_FLAGS:
        return None
    first, *rest = words[2:]
    return [*words[:2], " ".join([first, *map(_word, rest)])]


def _word(word: str) -> str:
    """A word inside a shell's text; one with shell signs in it was text already."""
    return word if _META & set(word) else _quoted(word)


def _quoted(word: str) -> str:
    return word if _BARE.fullmatch(word) else shlex.quote(word)


def _joined(words: Sequence[str]) -> str:
    operators = _operators_at(words)
    return " ".join(word if position in operators else _quoted(word) for position, word in enumerate(words))


def _operators_at(words: Sequence[str]) -> set[int]:
    """The places of words that are operators; the first word never is one."""
    found: set[int] = set()
    finding = running = False
    for position, word in enumerate(words):
        if word in _FIND_RUNS:
            running = finding
        elif running and word in (";", "+"):
            running = False
        elif word in _FOLDING and position:
            found.add(position)
            finding = False
        else:
            finding |= word == "find"
    return found
