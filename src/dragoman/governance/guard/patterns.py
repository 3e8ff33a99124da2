"""Patterns that are looked for in time linear in the text, whatever the pattern and whoever wrote the text.

A pattern becomes a small program; its threads run side by side over the text, and the sets of threads that
occur are remembered, so that most characters cost one lookup. The memory for that is bounded.
"""

from collections.abc import Callable
from typing import NamedTuple

from dragoman.governance.guard.pattern_syntax import (
    Anchor,
    Assertion,
    Chain,
    Chars,
    Either,
    Node,
    PatternError,
    Repeat,
    is_word,
    parse,
)

MAX_STEPS = 2000
TOO_LARGE = "too large once its repetitions are written out"
#: Moves that are remembered before memory starts afresh.
MAX_MOVES = 20_000


class _Char(NamedTuple):
    accepts: Callable[[str], bool]


class _Fork(NamedTuple):
    """Goes on at all of these places."""

    places: tuple[int, ...]


class _At(NamedTuple):
    anchor: Anchor


_Step = _Char | _Fork | _At

# What stands beside a place between characters.
_EDGE, _LINE_END, _WORD, _OTHER = range(4)
_Side = int


def _side(character: str) -> _Side:
    if character == "\n":
        return _LINE_END
    return _WORD if is_word(character) else _OTHER


_HOLDS: dict[Anchor, Callable[[_Side, _Side], bool]] = {
    "text_start": lambda before, after: before == _EDGE,
    "text_end": lambda before, after: after == _EDGE,
    "line_start": lambda before, after: before in (_EDGE, _LINE_END),
    "line_end": lambda before, after: after in (_EDGE, _LINE_END),
    "boundary": lambda before, after: (before == _WORD) != (after == _WORD),
}


class _State:
    """The threads that wait for a character, what stood before it, and where each character leads."""

    __slots__ = ("before", "moves", "threads")

    def __init__(self, threads: frozenset[int], before: _Side) -> None:
        self.threads = threads
        self.before = before
        #: None: the pattern was found.
        self.moves: dict[str, _State | None] = {}


class Pattern:
    """`found_in` says whether the pattern occurs in a text."""

    def __init__(self, source: str) -> None:
        node = parse(source)
        self.source = source
        self._program = _Compiler().compiled(node)
        #: A text without this cannot match, and looking for it is cheap.
        self._needed = _needed(node)
        self._start = _State(frozenset(), _EDGE)
        self._states: dict[tuple[frozenset[int], _Side], _State] = {}
        self._remembered = 0

    def found_in(self, text: str) -> bool:
        if self._needed not in text:
            return False
        state = self._start
        for character in text:
            try:
                following = state.moves[character]
            except KeyError:
                following = self._move(state, character)
            if following is None:
                return True
            state = following
        return len(self._program) in self._closure(state, _EDGE)

    def _move(self, state: _State, character: str) -> _State | None:
        after = _side(character)
        closure = self._closure(state, after)
        following = None if len(self._program) in closure else self._advanced(closure, character, after)
        if self._remembered >= MAX_MOVES:
            self._forget()
        self._remembered += 1
        state.moves[character] = following
        return following

    def _advanced(self, closure: set[int], character: str, after: _Side) -> _State:
        threads = frozenset(
            place + 1
            for place in closure
            if isinstance(step := self._program[place], _Char) and step.accepts(character)
        )
        return self._states.setdefault((threads, after), _State(threads, after))

    def _forget(self) -> None:
        self._remembered = 0
        self._start = _State(frozenset(), _EDGE)
        self._states = {}

    def _closure(self, state: _State, after: _Side) -> set[int]:
        """Every place that can be reached without a character; a new thread may begin at each character."""
        reached: set[int] = set()
        todo = [0, *state.threads]
        while todo:
            place = todo.pop()
            if place in reached:
                continue
            reached.add(place)
            if place == len(self._program):
                continue
            step = self._program[place]
            if isinstance(step, _Fork):
                todo += step.places
            elif isinstance(step, _At) and _HOLDS[step.anchor](state.before, after):
                todo.append(place + 1)
        return reached


class _Compiler:
    def __init__(self) -> None:
        self._program: list[_Step] = []
        self._visits = 0

    def compiled(self, node: Node) -> list[_Step]:
        self._emit(node)
        return self._program

    def _add(self, step: _Step) -> int:
        if len(self._program) >= MAX_STEPS:
            raise PatternError(TOO_LARGE)
        self._program.append(step)
        return len(self._program) - 1

    def _emit(self, node: Node) -> None:
        # Counted apart from steps: repeating nothing makes no step and can still take for ever.
        self._visits += 1
        if self._visits > 4 * MAX_STEPS:
            raise PatternError(TOO_LARGE)
        match node:
            case Chars():
                self._add(_Char(node.accepts))
            case Assertion():
                self._add(_At(node.anchor))
            case Chain():
                for item in node.items:
                    self._emit(item)
            case Either():
                self._emit_either(node)
            case Repeat():
                self._emit_repeat(node)

    def _emit_either(self, node: Either) -> None:
        fork = self._add(_Fork(()))
        starts: list[int] = []
        exits: list[int] = []
        for option in node.options:
            starts.append(len(self._program))
            self._emit(option)
            exits.append(self._add(_Fork(())))
        self._program[fork] = _Fork(tuple(starts))
        for leaving in exits:
            self._program[leaving] = _Fork((len(self._program),))

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.low):
            self._emit(node.item)
        if node.high is None:
            loop = self._add(_Fork(()))
            self._emit(node.item)
            self._add(_Fork((loop,)))
            self._program[loop] = _Fork((loop + 1, len(self._program)))
            return
        skips = []
        for _ in range(node.high - node.low):
            skips.append(self._add(_Fork(())))
            self._emit(node.item)
        for skip in skips:
            self._program[skip] = _Fork((skip + 1, len(self._program)))


def _needed(node: Node) -> str:
    """The longest literal text that every match contains."""
    longest = run = ""
    for item in node.items if isinstance(node, Chain) else (node,):
        if isinstance(item, Chars) and _is_literal(item):
            run += next(iter(item.singles))
            longest = max(longest, run, key=len)
        elif not isinstance(item, Assertion):
            run = ""
    return longest


def _is_literal(node: Chars) -> bool:
    plain = not (node.ranges or node.kinds or node.negated or node.folds)
    return plain and len(node.singles) == 1


class Glob:
    """A name with `*` for anything; `matches` never goes back over what it has passed."""

    __slots__ = ("_parts",)

    def __init__(self, source: str) -> None:
        self._parts = source.split("*")

    def matches(self, text: str) -> bool:
        first, *rest = self._parts
        if not rest:
            return text == first
        *middle, last = rest
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True
