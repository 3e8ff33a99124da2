"""Shell text taken apart: its simple commands, their redirections, and the operators between them.

One pass, no execution, no expansion. Quoted operators are words; commands inside `$( )`, backticks and
`bash -c` count as commands of their own. What cannot be told for sure is told so that a rule would see it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: `<(` and `>(` are not among them: they begin commands of their own.
REDIRECTIONS = frozenset({"<<<", "<<-", "<<", "<>", "<&", "<", ">&", ">>", ">|", ">", "&>>", "&>"})
OPERATORS = REDIRECTIONS | {"&&", "||", ";;", ";", "|&", "|", "&", "\n", "(", ")"}
#: In place of an operator: a quote or bracket is never closed.
UNCLOSED = "unclosed"

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
#: Programs that run the program named behind them.
_RUNNERS = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "command",
        "exec",
        "builtin",
        "nohup",
        "time",
        "nice",
        "timeout",
        "xargs",
        "stdbuf",
    }
)
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "for", "!", "{", "function"})
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})

_OPERATOR = re.compile("|".join(re.escape(each) for each in sorted(OPERATORS, key=len, reverse=True)))
_PLAIN = re.compile(r"[^\s'\"\\$`#;&|()<>]++")
_IN_QUOTES = re.compile(r'[^"\\$`]++')
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_ANSI_TEXT = re.compile(r"(?:[^'\\]|\\.)*+", re.DOTALL)

MAX_NESTING = 50
#: How many shells inside shells are looked into.
MAX_SHELLS = 5
#: Shells can be made to read the same text again and again; this much is read beyond four times the whole.
MIN_ROOM = 10_000
#: Words behind which another program may be named.
MAX_RUNNER_WORDS = 20


class Redirect(NamedTuple):
    operator: str
    target: str

    @property
    def is_harmless(self) -> bool:
        """Whether it only joins or silences streams."""
        joins = self.operator in (">&", "<&") and (self.target.rstrip("-").isdigit() or self.target == "-")
        return joins or self.target in _HARMLESS_TARGETS


class Command(NamedTuple):
    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()


class Script(NamedTuple):
    commands: tuple[Command, ...]
    operators: frozenset[str] = frozenset()

    def holds_operator(self, wanted: Sequence[str]) -> bool:
        """Whether one of these operators does something here; redirections that only silence do not count."""
        if any(operator in self.operators for operator in wanted if operator not in REDIRECTIONS):
            return True
        return any(
            redirect.operator in wanted and not redirect.is_harmless
            for command in self.commands
            for redirect in command.redirects
        )


class _Frame:
    """A list of commands that is being read, up to its closing mark."""

    __slots__ = ("closer", "in_quotes", "operator", "redirects", "word", "words")

    def __init__(self, closer: str) -> None:
        self.closer = closer
        self.in_quotes = False
        self.words: list[str] = []
        self.redirects: list[Redirect] = []
        #: The redirection whose target comes next.
        self.operator = ""
        #: The word under way, in pieces; None between words.
        self.word: list[str] | None = None

    def add(self, text: str) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._frames = [_Frame("")]
        self._commands: list[Command] = []
        self._operators: set[str] = set()
        #: Ends of here-documents whose text begins at the next line, and whether tabs before them count.
        self._documents: list[tuple[str, bool]] = []

    def script(self) -> Script:
        while self._at < len(self._text):
            frame = self._frames[-1]
            if frame.in_quotes:
                self._quoted(frame)
            else:
                self._bare(frame)
        if len(self._frames) > 1 or self._frames[0].in_quotes:
            self._operators.add(UNCLOSED)
        for frame in reversed(self._frames):
            self._end_command(frame)
        return Script(tuple(self._commands), frozenset(self._operators))

    def _bare(self, frame: _Frame) -> None:
        text, at = self._text, self._at
        plain = _PLAIN.match(text, at)
        if plain:
            frame.add(plain[0])
            self._at = plain.end()
            return
        character = text[at]
        if character == "'":
            self._single_quoted(frame)
        elif character == '"':
            frame.add("")
            frame.in_quotes = True
            self._at += 1
        elif character in "\\$`":
            self._special(frame, character)
        elif character == "#":
            if frame.word is None:
                self._skip_to(text.find("\n", at))
            else:
                frame.add("#")
                self._at += 1
        elif operator := _OPERATOR.match(text, at):
            self._operator(frame, operator[0])
        else:
            self._end_word(frame)
            self._at += 1

    def _quoted(self, frame: _Frame) -> None:
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
            self._special(frame, character)

    def _special(self, frame: _Frame, character: str) -> None:
        """An escape, a substitution, or a dollar sign that is only that."""
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
            self._at += 1
            self._single_quoted(frame, _ANSI_TEXT)
        else:
            frame.add("$")
            self._at += 1

    def _single_quoted(self, frame: _Frame, body: re.Pattern[str] | None = None) -> None:
        start = self._at + 1
        found = body.match(self._text, start) if body else None
        end = found.end() if found else self._text.find("'", start)
        if end < 0 or end >= len(self._text):
            self._operators.add(UNCLOSED)
            end = len(self._text)
        frame.add(self._text[start:end])
        self._at = end + 1

    def _operator(self, frame: _Frame, operator: str) -> None:
        self._at += len(operator)
        if operator in REDIRECTIONS:
            self._redirection(frame, operator)
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

    def _redirection(self, frame: _Frame, operator: str) -> None:
        if operator in ("<", ">") and self._text.startswith("(", self._at):
            self._at += 1
            self._substitute(frame, ")")
            return
        if frame.word is not None and "".join(frame.word).isdigit():
            # The number of a stream, not a word.
            frame.word = None
        self._end_word(frame)
        self._operators.add(operator)
        frame.operator = operator

    def _substitute(self, frame: _Frame, closer: str) -> None:
        """What the commands within give is part of a word that nobody knows."""
        frame.add("")
        self._push(closer)

    def _push(self, closer: str) -> None:
        if len(self._frames) < MAX_NESTING:
            self._frames.append(_Frame(closer))
        else:
            self._operators.add(UNCLOSED)

    def _pop(self) -> None:
        self._end_command(self._frames.pop())

    def _end_word(self, frame: _Frame) -> None:
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

    def _end_command(self, frame: _Frame) -> None:
        self._end_word(frame)
        if frame.operator:
            frame.redirects.append(Redirect(frame.operator, ""))
            frame.operator = ""
        if frame.words or frame.redirects:
            self._commands.append(Command(tuple(frame.words), tuple(frame.redirects)))
            frame.words, frame.redirects = [], []

    def _skip_documents(self) -> None:
        for ending, indented in self._documents:
            while self._at < len(self._text):
                end = self._text.find("\n", self._at)
                line = self._text[self._at : end if end >= 0 else len(self._text)]
                self._skip_to(end)
                self._at += 1
                if (line.lstrip("\t") if indented else line) == ending:
                    break
        self._documents = []

    def _skip_to(self, position: int) -> None:
        self._at = position if position >= 0 else len(self._text)


def read_script(command: str | Sequence[str]) -> Script:
    """The commands of a shell text, or of an argument list, with those of shells that they start."""
    is_text = isinstance(command, str)
    script = _Reader(command).script() if isinstance(command, str) else Script((Command(tuple(command)),))
    commands, operators = list(script.commands), set(script.operators)
    level = script.commands
    room = MIN_ROOM + 4 * (len(command) if is_text else sum(map(len, command)))
    for _ in range(MAX_SHELLS):
        texts = [text for each in level for text in _scripts_of(each)]
        room -= sum(map(len, texts))
        if room < 0:
            operators.add(UNCLOSED)
            break
        inner = [_Reader(text).script() for text in texts]
        level = tuple(command for script in inner for command in script.commands)
        commands += level
        operators.update(*(script.operators for script in inner))
    return Script(tuple(commands), frozenset(operators))


def _scripts_of(command: Command) -> Iterator[str]:
    """The texts that this command hands to a shell."""
    for program, rest in programs_of(command.words):
        if program == "eval":
            yield " ".join(rest)
        if program not in SHELLS:
            continue
        for position, word in enumerate(rest[:-1]):
            if word.startswith("-") and not word.startswith("--") and "c" in word:
                yield rest[position + 1]
                break


def programs_of(words: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The program that is run, with its words; behind `sudo` and its kin, whatever might be one."""
    start = 0
    while start < len(words) and (words[start] in _KEYWORDS or _ASSIGNMENT.match(words[start])):
        start += 1
    if start == len(words):
        return
    program = _base(words[start])
    yield program, words[start + 1 :]
    if program in _RUNNERS:
        for position in range(start + 1, min(len(words), start + MAX_RUNNER_WORDS)):
            yield _base(words[position]), words[position + 1 :]


def _base(word: str) -> str:
    return word.rpartition("/")[2]
