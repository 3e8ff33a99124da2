"""Texts of a reply that arrive in several events, of which each may hold more than the one before."""

import msgspec

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import count_characters

#: An id that no item has.
_NO_ITEM = object()


class ReplyContext(msgspec.Struct):
    """What all items of one reply share."""

    builder: ReplyBuilder
    upstream: UpstreamContext
    model: str = ""
    #: The number of characters of calls that have no name yet.
    held: int = 0
    has_refusal: bool = False

    def hold(self, text: str) -> None:
        """Count a text that the builder does not count yet."""
        self.held += len(text)
        if self.held > ReplyBuilder.MAX_CHARACTERS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_CHARACTERS} characters in one reply")


class StreamedText:
    """A text, a part of reasoning or the arguments of a call, as far as it is known.

    `block`: its block, -1 while that is not open. `pieces`: the text so far, which later events may continue.
    """

    __slots__ = ("_context", "block", "part", "pieces")

    def __init__(self, context: ReplyContext, block: int = -1, part: int = 0) -> None:
        self._context = context
        self.part = part
        self.block = block
        self.pieces: list[str] = []

    def open(self, block: int) -> None:
        """Report what arrived before the block could open."""
        self.block = block
        for piece in self.pieces:
            self._context.builder.append(block, piece, self.part)

    def append(self, text: str) -> None:
        self.pieces.append(text)
        if self.block < 0:
            self._context.hold(text)
        else:
            self._context.builder.append(self.block, text, self.part)

    def complete(self, whole: str) -> bool:
        """Read the text of a later event, and add what it has more. Returns False if it is another text."""
        known = "".join(self.pieces)
        # In place: the stream reader keeps the list of the last text.
        self.pieces[:] = [known] if known else []
        if whole.startswith(known):
            if len(whole) > len(known):
                self.append(whole[len(known) :])
            return True
        if whole.strip():
            self._context.upstream.losses.add("", "a finished text differs from what was streamed")
        return known.startswith(whole.rstrip())


class LastText:
    """The text that the last delta has extended, to which nearly every next delta belongs.

    It has no reference to the stream reader, so a finished reply has no reference cycle.
    """

    __slots__ = ("_builder", "current", "item", "part", "text")

    def __init__(self, builder: ReplyBuilder) -> None:
        self._builder = builder
        #: The item, the part and the text of the last delta of a message or call. No item has the first id.
        self.item: object = _NO_ITEM
        self.part: object = None
        self.text: StreamedText
        #: The text of the last event; None if it was no delta.
        self.current: StreamedText | None = None

    def take(self, text: StreamedText, delta: str) -> bool:
        """Take a delta that looks like the last one of this text. False if another event came in between."""
        if self.current is not text:
            return False
        text.append(delta)
        return True

    def take_run(self, text: StreamedText, deltas: list[str]) -> bool:
        if self.current is not text:
            return False
        if text.part:
            # A run has no part.
            for delta in deltas:
                text.append(delta)
        else:
            text.pieces += deltas
            self._builder.append_run(text.block, deltas, count_characters(deltas))
        return True

    def count(self, text: StreamedText, deltas: list[str], characters: int) -> None:
        """Keep deltas that were not read."""
        text.pieces += deltas
        self._builder.count_text(characters)
