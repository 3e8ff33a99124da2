"""Reads shell text: its simple commands, their redirections, and the operators between them.

One pass, no execution. Quoted operators are words. Commands inside `$( )` and backticks are commands of their
own. In doubt the result is the one that more rules match. `commands` adds what these commands run in turn.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

#: Without `<(` and `>(`, which begin commands of their own.
REDIRECTIONS = frozenset({"<<<", "<<-", "<<", "<>", "<&", "<", ">&", ">>", ">|", ">", "&>>", "&>"})
OPERATORS = REDIRECTIONS | {"&&", "||", ";;", ";", "|&", "|", "&", "\n", "(", ")"}
#: Reported like an operator: a quote or bracket is never closed.
UNCLOSED = "unclosed"
#: Reported like an operator: a variable or a substitution, so that the words are not known.
EXPANSION = "expansion"
SIGNS = OPERATORS | {UNCLOSED, EXPANSION}

_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})

_OPERATOR = re.compile("|".join(re.escape(each) for each in sorted(OPERATORS, key=len, reverse=True)))
_PLAIN = re.compile(r"[^\s'\"\\$`#;&|()<>]++")
_IN_QUOTES = re.compile(r'[^"\\$`]++')
_ANSI_TEXT = re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL)

MAX_NESTING = 50


class Redirect(NamedTuple):
    """A redirect of a command, such as `>` and `out.txt`."""

    operator: str
    target: str

    @property
    def is_harmless(self) -> bool:
        """Whether the redirect writes no file: it joins streams (`2>&1`) or discards one (`>/dev/null`)."""
        joins = self.operator in (">&", "<&") and (self.target.rstrip("-").isdigit() or self.target == "-")
        return joins or self.target in _HARMLESS_TARGETS


class Command(NamedTuple):
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()


class Script(NamedTuple):
    """The commands of one shell text. `documents`: the texts of here-documents."""

    commands: tuple[Command, ...]
    operators: frozenset[str] = frozenset()
    documents: tuple[str, ...] = ()

    def has_operator(self, wanted: Sequence[str]) -> bool:
        """Whether one of these operators occurs; redirections that only discard do not count."""
        if any(operator in self.operators for operator in wanted if operator not in REDIRECTIONS):
            return True
        return any(
            redirect.operator in wanted and not redirect.is_harmless
            for command in self.commands
            for redirect in command.redirects
        )


class _CommandList:
    """A list of commands up to its closing character, while it is read."""

    __slots__ = ("closer", "in_quotes", "operator", "redirects", "word", "words")

    def __init__(self, closer: str) -> None:
        self.closer = closer
        self.in_quotes = False
        self.words: list[str] = []
        self.redirects: list[Redirect] = []
        #: The redirection whose target follows.
        self.operator = ""
        #: The pieces of the current word; None between words.
        self.word: list[str] | None = None

    def add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)


class ShellReader:
    """Reads one script. Each open quotation, substitution or group is on a stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open_lists = [_CommandList("")]
        self._commands: list[Command] = []
        self._operators: set[str] = set()
        #: Here-documents that begin at the next line: their end lines, and whether leading tabs are removed.
        self._documents: list[tuple[str, bool]] = []
        self._texts: list[str] = []

    def read(self) -> Script:
        """The commands of the script, its operators, and the texts of its here-documents. Called once."""
        while self._at < len(self._text):
            commands = self._open_lists[-1]
            if commands.in_quotes:
                self._read_quoted(commands)
            else:
                self._read_bare(commands)
        if len(self._open_lists) > 1 or self._open_lists[0].in_quotes:
            self._operators.add(UNCLOSED)
        for commands in reversed(self._open_lists):
            self._end_command(commands)
        return Script(tuple(self._commands), frozenset(self._operators), tuple(self._texts))

    def _read_bare(self, commands: _CommandList) -> None:
        text, at = self._text, self._at
        plain = _PLAIN.match(text, at)
        if plain:
            commands.add(plain[0])
            self._at = plain.end()
            return
        character = text[at]
        if character == "'":
            self._read_single_quoted(commands)
        elif character == '"':
            commands.add("")
            commands.in_quotes = True
            self._at += 1
        elif character in "\\$`":
            self._read_special(commands, character)
        elif character == "#":
            if commands.word is None:
                self._skip_to(text.find("\n", at))
            else:
                commands.add("#")
                self._at += 1
        elif operator := _OPERATOR.match(text, at):
            self._read_operator(commands, operator[0])
        else:
            self._end_word(commands)
            self._at += 1

    def _read_quoted(self, commands: _CommandList) -> None:
        plain = _IN_QUOTES.match(self._text, self._at)
        if plain:
            commands.add(plain[0])
            self._at = plain.end()
            return
        character = self._text[self._at]
        if character == '"':
            commands.in_quotes = False
            self._at += 1
        else:
            self._read_special(commands, character)

    def _read_special(self, commands: _CommandList, character: str) -> None:
        """Read an escape, a substitution, or a plain dollar sign."""
        following = self._text[self._at + 1 : self._at + 2]
        if character == "\\":
            kept = "\\" if commands.in_quotes and following not in '$`"\\\n' else ""
            if following != "\n":
                commands.add(kept + following)
            self._at += 2
        elif character == "`":
            self._at += 1
            if commands.closer == "`":
                self._pop()
            else:
                self._substitute(commands, "`")
        elif following == "(":
            self._at += 2
            self._substitute(commands, ")")
        elif following == "'" and not commands.in_quotes:
            self._operators.add(EXPANSION)
            self._at += 1
            self._read_single_quoted(commands, _ANSI_TEXT)
        else:
            if following.isalnum() or following in tuple("_{@*#?!$-"):
                self._operators.add(EXPANSION)
            commands.add("$")
            self._at += 1

    def _read_single_quoted(self, commands: _CommandList, body: re.Pattern[str] | None = None) -> None:
        start = self._at + 1
        found = body.match(self._text, start) if body else None
        end = found.end() if found else self._text.find("'", start)
        if end < 0 or end >= len(self._text):
            self._operators.add(UNCLOSED)
            end = len(self._text)
        commands.add(self._text[start:end])
        self._at = end + 1

    def _read_operator(self, commands: _CommandList, operator: str) -> None:
        self._at += len(operator)
        if operator in REDIRECTIONS:
            self._read_redirection(commands, operator)
            return
        self._end_command(commands)
        if operator == "(":
            self._push(")")
        elif operator == ")":
            if commands.closer == ")":
                self._pop()
        elif operator == "\n":
            self._skip_documents()
        else:
            self._operators.add(operator)

    def _read_redirection(self, commands: _CommandList, operator: str) -> None:
        if operator in ("<", ">") and self._text.startswith("(", self._at):
            self._at += 1
            self._substitute(commands, ")")
            return
        if commands.word is not None and "".join(commands.word).isdigit():
            # The number of a stream belongs to the redirection.
            commands.word = None
        self._end_word(commands)
        self._operators.add(operator)
        commands.operator = operator

    def _substitute(self, commands: _CommandList, closer: str) -> None:
        """Read inner commands; their output is an unknown part of the current word."""
        self._operators.add(EXPANSION)
        commands.add("")
        self._push(closer)

    def _push(self, closer: str) -> None:
        if len(self._open_lists) < MAX_NESTING:
            self._open_lists.append(_CommandList(closer))
        else:
            self._operators.add(UNCLOSED)

    def _pop(self) -> None:
        self._end_command(self._open_lists.pop())

    def _end_word(self, commands: _CommandList) -> None:
        if commands.word is None:
            return
        word = "".join(commands.word)
        commands.word = None
        if not commands.operator:
            commands.words.append(word)
            return
        if commands.operator in ("<<", "<<-"):
            self._documents.append((word, commands.operator == "<<-"))
        commands.redirects.append(Redirect(commands.operator, word))
        commands.operator = ""

    def _end_command(self, commands: _CommandList) -> None:
        self._end_word(commands)
        if commands.operator:
            commands.redirects.append(Redirect(commands.operator, ""))
            commands.operator = ""
        if commands.words or commands.redirects:
            self._commands.append(Command(tuple(commands.words), tuple(commands.redirects)))
            commands.words, commands.redirects = [], []

    def _skip_documents(self) -> None:
        for ending, indented in self._documents:
            start = self._at
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                line = self._text[self._at : end if end >= 0 else len(self._text)]
                self._skip_to(end)
                self._at += 1
                if (line.lstrip("\t") if indented else line) == ending:
                    break
            self._texts.append(self._text[start : self._at])
        self._documents = []

    def _skip_to(self, position: int) -> None:
        self._at = position if position >= 0 else len(self._text)
