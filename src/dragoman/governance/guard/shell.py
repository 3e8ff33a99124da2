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


class _ShellFrame:
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
    """Reads one script. Each open quotation, substitution or group is a frame on a stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._frames = [_ShellFrame("")]
        self._commands: list[Command] = []
        self._operators: set[str] = set()
        #: Here-documents that begin at the next line: their end lines, and whether leading tabs are removed.
        self._documents: list[tuple[str, bool]] = []
        self._texts: list[str] = []

    def read(self) -> Script:
        """The commands of the script, its operators, and the texts of its here-documents. Called once."""
        while self._at < len(self._text):
            frame = self._frames[-1]
            if frame.in_quotes:
                self._read_quoted(frame)
            else:
                self._read_bare(frame)
        if len(self._frames) > 1 or self._frames[0].in_quotes:
            self._operators.add(UNCLOSED)
        for frame in reversed(self._frames):
            self._end_command(frame)
        return Script(tuple(self._commands), frozenset(self._operators), tuple(self._texts))

    def _read_bare(self, frame: _ShellFrame) -> None:
        text, at = self._text, self._at
        plain = _PLAIN.match(text, at)
        if plain:
            frame.add(plain[0])
            self._at = plain.end()
            return
        character = text[at]
        if character == "'":
            self._read_single_quoted(frame)
        elif character == '"':
            frame.add("")
            frame.in_quotes = True
            self._at += 1
        elif character in "\\$`":
            self._read_special(frame, character)
        elif character == "#":
            if frame.word is None:
                self._skip_to(text.find("\n", at))
            else:
                frame.add("#")
                self._at += 1
        elif operator := _OPERATOR.match(text, at):
            self._read_operator(frame, operator[0])
        else:
            self._end_word(frame)
            self._at += 1

    def _read_quoted(self, frame: _ShellFrame) -> None:
        plain = _IN_QUOTES.match(self._text, self._at)
        if plain:
            frame.add(plain[0])
            self._at = plain.end()
            return
        character = self._text[self._at]
        if character == '"':
            frame.in_quotes = False
            self._at += 1
        else:
            self._read_special(frame, character)

    def _read_special(self, frame: _ShellFrame, character: str) -> None:
        """Read an escape, a substitution, or a plain dollar sign."""
        following = self._text[self._at + 1 : self._at + 2]
        if character == "\\":
            kept = "\\" if frame.in_quotes and following not in '$`"\\\n' else ""
            if following != "\n":
                frame.add(kept + following)
            self._at += 2
        elif character == "`":
            self._at += 1
            if frame.closer == "`":
                self._pop()
            else:
                self._substitute(frame, "`")
        elif following == "(":
            self._at += 2
            self._substitute(frame, ")")
        elif following == "'" and not frame.in_quotes:
            self._operators.add(EXPANSION)
            self._at += 1
            self._read_single_quoted(frame, _ANSI_TEXT)
        else:
            if following.isalnum() or following in tuple("_{@*#?!$-"):
                self._operators.add(EXPANSION)
            frame.add("$")
            self._at += 1

    def _read_single_quoted(self, frame: _ShellFrame, body: re.Pattern[str] | None = None) -> None:
        start = self._at + 1
        found = body.match(self._text, start) if body else None
        end = found.end() if found else self._text.find("'", start)
        if end < 0 or end >= len(self._text):
            self._operators.add(UNCLOSED)
            end = len(self._text)
        frame.add(self._text[start:end])
        self._at = end + 1

    def _read_operator(self, frame: _ShellFrame, operator: str) -> None:
        self._at += len(operator)
        if operator in REDIRECTIONS:
            self._read_redirection(frame, operator)
            return
        self._end_command(frame)
        if operator == "(":
            self._push(")")
        elif operator == ")":
            if frame.closer == ")":
                self._pop()
        elif operator == "\n":
            self._skip_documents()
        else:
            self._operators.add(operator)

    def _read_redirection(self, frame: _ShellFrame, operator: str) -> None:
        if operator in ("<", ">") and self._text.startswith("(", self._at):
            self._at += 1
            self._substitute(frame, ")")
            return
        if frame.word is not None and "".join(frame.word).isdigit():
            # The number of a stream belongs to the redirection.
            frame.word = None
        self._end_word(frame)
        self._operators.add(operator)
        frame.operator = operator

    def _substitute(self, frame: _ShellFrame, closer: str) -> None:
        """Read inner commands; their output is an unknown part of the current word."""
        self._operators.add(EXPANSION)
        frame.add("")
        self._push(closer)

    def _push(self, closer: str) -> None:
        if len(self._frames) < MAX_NESTING:
            self._frames.append(_ShellFrame(closer))
        else:
            self._operators.add(UNCLOSED)

    def _pop(self) -> None:
        self._end_command(self._frames.pop())

    def _end_word(self, frame: _ShellFrame) -> None:
        if frame.word is None:
            return
        word = "".join(frame.word)
        frame.word = None
        if not frame.operator:
            frame.words.append(word)
            return
        if frame.operator in ("<<", "<<-"):
            self._documents.append((word, frame.operator == "<<-"))
        frame.redirects.append(Redirect(frame.operator, word))
        frame.operator = ""

    def _end_command(self, frame: _ShellFrame) -> None:
        self._end_word(frame)
        if frame.operator:
            frame.redirects.append(Redirect(frame.operator, ""))
            frame.operator = ""
        if frame.words or frame.redirects:
            self._commands.append(Command(tuple(frame.words), tuple(frame.redirects)))
            frame.words, frame.redirects = [], []

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
