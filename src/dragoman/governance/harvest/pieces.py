"""What becomes of a text: words, thoughts and calls, in their order."""

import msgspec

from dragoman.governance.harvest.cursor import Call


class Words(msgspec.Struct, frozen=True):
    text: str


class Thoughts(msgspec.Struct, frozen=True):
    text: str


class ThoughtsEnd(msgspec.Struct, frozen=True):
    """The stretch of reasoning is over; what thoughts follow belong to another."""


class Harvested(msgspec.Struct, frozen=True):
    """A complete call, the format it was written in, and how long it was there."""

    call: Call
    format: str
    length: int


class Unfinished(msgspec.Struct, frozen=True):
    """Something that began like calls of this format had no end, and is text."""

    format: str
    length: int


Piece = Words | Thoughts | ThoughtsEnd | Harvested | Unfinished


class Pieces:
    """Collects pieces; neighbours of the same kind become one."""

    __slots__ = ("_done", "_kind", "_texts")

    def __init__(self) -> None:
        self._done: list[Piece] = []
        self._kind: type[Words] | type[Thoughts] = Words
        self._texts: list[str] = []

    def text(self, kind: type[Words] | type[Thoughts], text: str) -> None:
        if not text:
            return
        if kind is not self._kind:
            self._flush()
            self._kind = kind
        self._texts.append(text)

    def add(self, piece: Piece) -> None:
        self._flush()
        self._done.append(piece)

    def take(self) -> list[Piece]:
        self._flush()
        done, self._done = self._done, []
        return done

    def _flush(self) -> None:
        if self._texts:
            self._done.append(self._kind("".join(self._texts)))
            self._texts = []
