"""The rewrite `fold`: turns an argument list that needs a shell into `["bash", "-lc", text]`.

It changes only lists that cannot work as they are: with operators among the words, with a whole command line
in one word, or with the text of a shell split into words.
"""

import re
import shlex
from collections.abc import Sequence

from dragoman.governance.guard.commands import SHELLS
from dragoman.governance.guard.shell import OPERATORS

#: Operators that count as words of their own. Brackets can be arguments of `find` or `test`.
_FOLDING = (OPERATORS | {"2>", "2>>", "2>&1", "1>&2", ">&2"}) - {"(", ")", "\n"}
_SHELL_FLAGS = frozenset({"-c", "-lc", "-cl", "-ic", "-lic", "-ilc"})
#: Options of `find` whose command ends at a semicolon.
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_META = frozenset("|&;<>$`\n")
#: Words that need no quotes; wildcards and variables stay active.
_BARE = re.compile(r"[\w@%+=:,./*?~${}\[\]-]+", re.ASCII)


def fold_command(command: object, *, wants_list: bool) -> list[str] | None:
    """Build the argument list to use instead, such as `bash -lc TEXT`; None if the command can stay."""
    if isinstance(command, str):
        return _build_bash(command) if wants_list and command.strip() else None
    if not isinstance(command, list) or not command:
        return None
    words = [word for word in command if isinstance(word, str)]
    if len(words) != len(command):
        return None
    if words[0].rpartition("/")[2] in SHELLS:
        return _rejoin(words)
    if len(words) == 1:
        return _build_bash(words[0]) if len(words[0].split()) > 1 else None
    return _build_bash(_join(words)) if _find_operators(words) else None


def _build_bash(text: str) -> list[str]:
    return ["bash", "-lc", text]


def _rejoin(words: list[str]) -> list[str] | None:
    """Join the text after `-c` into one word: the shell would take further words as parameters."""
    if len(words) <= 3 or words[1] not in _SHELL_FLAGS:
        return None
    first, *rest = words[2:]
    return [*words[:2], " ".join([first, *map(_quote_text, rest)])]


def _quote_text(word: str) -> str:
    """Quote a word of a shell's text; one with shell characters in it is part of the text already."""
    return word if _META & set(word) else _quote(word)


def _quote(word: str) -> str:
    return word if _BARE.fullmatch(word) else shlex.quote(word)


def _join(words: Sequence[str]) -> str:
    operators = _find_operators(words)
    return " ".join(word if position in operators else _quote(word) for position, word in enumerate(words))


def _find_operators(words: Sequence[str]) -> set[int]:
    """The positions of words that are operators; the first word never is one."""
    found: set[int] = set()
    in_find = in_exec = False
    for position, word in enumerate(words):
        if word in _FIND_RUNS:
            in_exec = in_find
        elif in_exec and word in (";", "+"):
            in_exec = False
        elif word in _FOLDING and position:
            found.add(position)
            in_find = False
        else:
            in_find |= word == "find"
    return found
