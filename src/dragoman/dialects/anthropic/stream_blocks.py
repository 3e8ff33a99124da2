"""What the open blocks of a stream remember, and the frames of each kind of block.

`StreamBlock` is a block that the stream reader reads, `BlockGrowth` takes its deltas. The others are blocks
that the stream writer writes, with their frames when they open, grow and close.

Exactly one block is open at a time. A block without content never starts, so indexes have no gaps: the owner
of the block reads `started` after its close. Frames of deltas are byte templates, because nearly the whole
stream consists of them.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from dragoman.dialects.anthropic.citations import write_citation
from dragoman.dialects.anthropic.names import NAME, restore_empty
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation, Reasoning, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.events import count_characters
from dragoman.hub.seal import Seal, SealedItem, is_envelope, write_envelope
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, FrameRun, Frames, join_frames

#: For plain strings, which can always be encoded. Nested untrusted values go through `encode`.
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines

#: Clients require a signature on every thinking block; this one means that there is none.
EMPTY_ENVELOPE = write_envelope(())

_START = b'{"type":"content_block_start","index":%d,"content_block":%b}'
_DELTA = b'{"type":"content_block_delta","index":%d,"delta":%b}'
_GROWTH = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_STOP = b'{"type":"content_block_stop","index":%d}'


def start_frame(index: int, block: Json) -> Frames:
    return (Frame("content_block_start", _START % (index, encode(block))),)


def delta_frame(data: bytes) -> Frames:
    return (Frame("content_block_delta", data),)


def delta_run(head: bytes, texts: Sequence[str]) -> FrameRun:
    """The frames of deltas that differ only in their texts."""
    return FrameRun("content_block_delta", head, _encode_lines(texts), b"}}")


def stop_frame(index: int) -> Frames:
    return (Frame("content_block_stop", _STOP % index),)


def whole_frames(index: int, block: Json) -> Frames:
    """The frames of a block that starts complete and takes no deltas."""
    return start_frame(index, block) + stop_frame(index)


def write_seal(seal: Seal, *, parts: tuple[str, ...] = (), redacted: bool = False) -> str:
    """The value of a signature field: Anthropic's own signature, or another vendor's seal in an envelope."""
    if seal.issuer == NAME or is_envelope(seal.value):
        return seal.value
    return write_envelope([SealedItem(kind="reasoning", seal=seal, parts=parts, redacted=redacted)])


class StreamBlock:
    """A block between start and stop: its type, its number in the hub (-1 while held), its held content."""

    __slots__ = ("citations", "held", "kind", "length", "number", "pieces", "start_input")

    def __init__(self, kind: str, number: int, held: Json | None = None, start_input: str = "") -> None:
        self.kind = kind
        self.number = number
        self.held = held
        #: Some servers send a call's input with its start and no deltas. Deltas, if any, replace it.
        self.start_input = start_input
        self.pieces: list[str] = []
        #: Held until the end, because they belong to the whole text and need its length.
        self.citations: list[Json] = []
        self.length = 0


class BlockGrowth:
    """Takes the texts of deltas for one block that look like the last one (`DeltaTemplate`).

    It has no reference to the stream reader, so a finished reply has no reference cycle.
    """

    __slots__ = ("_block", "_blocks", "_builder", "_index")

    def __init__(
        self, builder: ReplyBuilder, blocks: Mapping[int, StreamBlock], index: int, block: StreamBlock
    ) -> None:
        self._builder = builder
        #: The open blocks. The deltas belong to another block, or to none, if this is no longer one of them.
        self._blocks = blocks
        self._index = index
        self._block = block

    def take(self, text: str) -> bool:
        block = self._block
        if self._blocks.get(self._index) is not block:
            return False
        block.length += len(text)
        if text:
            block.start_input = ""
        self._builder.append(block.number, text)
        return True

    def take_run(self, texts: list[str]) -> bool:
        block = self._block
        if self._blocks.get(self._index) is not block:
            return False
        characters = count_characters(texts)
        block.length += characters
        if characters:
            block.start_input = ""
        self._builder.append_run(block.number, texts, characters)
        return True

    def count(self, texts: list[str], characters: int) -> None:
        self._block.length += characters
        self._builder.count_text(characters)


class OpenBlock(Protocol):
    """The block that the stream writer is writing."""

    started: bool

    def grow(self, text: str, part: int = 0) -> Frames: ...

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        """The frames of several texts, none of them empty."""
        ...

    def cite(self, citation: Citation) -> Frames: ...

    def seal(self, seal: Seal) -> None: ...

    def close(self) -> Frames:
        """The frames that end a complete block."""
        ...


class UnwrittenBlock:
    """A block that Anthropic's clients do not know: it writes nothing."""

    started = False

    def grow(self, text: str, part: int = 0) -> Frames:
        return ()

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        return ()

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        """Ignore the seal, because its block is not sent."""

    def close(self) -> Frames:
        return ()


class TextBlock:
    """A text. It starts with its first delta, because Anthropic rejects an empty text block in a request."""

    __slots__ = ("_growth", "_index", "_same_dialect", "_start", "sealed", "started", "uncited")

    def __init__(self, index: int, extras: Json, form: str = "", *, same_dialect: bool = False) -> None:
        self._index = index
        self._same_dialect = same_dialect
        self._start: Json = {"type": "text", "text": "", **extras}
        restore_empty(form, self._start)
        self._growth = _GROWTH % (index, b"text_delta", b"text")
        self.started = False
        self.sealed: Seal | None = None
        self.uncited = 0

    def grow(self, text: str, part: int = 0) -> Frames:
        if not text:
            return ()
        # Not `delta_frame`: most frames of a stream are written here, and a call costs as much as the rest.
        piece = (Frame("content_block_delta", self._growth + _encode(text) + b"}}"),)
        return piece if self.started else self._begin() + piece

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        begun = () if self.started else self._begin()
        return *begun, delta_run(self._growth, texts)

    def _begin(self) -> Frames:
        self.started = True
        return start_frame(self._index, self._start)

    def cite(self, citation: Citation) -> Frames:
        written = write_citation(citation, same_dialect=self._same_dialect)
        if written is None:
            self.uncited += 1
            return ()
        delta = delta_frame(_DELTA % (self._index, encode({"type": "citations_delta", "citation": written})))
        return delta if self.started else self._begin() + delta

    def seal(self, seal: Seal) -> None:
        self.sealed = seal

    def close(self) -> Frames:
        return stop_frame(self._index) if self.started else ()


class ThinkingBlock:
    """Thinking, with a signature before it stops. A seal without any text is written as redacted thinking."""

    __slots__ = ("_block", "_growth", "_index", "_part", "_parts", "_same_dialect", "_seal", "started")

    def __init__(self, index: int, block: Reasoning, *, same_dialect: bool) -> None:
        self._index = index
        self._block = block
        self._same_dialect = same_dialect
        self._growth = _GROWTH % (index, b"thinking_delta", b"thinking")
        self._part = 0
        #: The text of each part so far, for the envelope of a block with several parts.
        self._parts: list[list[str]] = [[]]
        self._seal = block.seal
        self.started = False

    def grow(self, text: str, part: int = 0) -> Frames:
        if not text:
            return ()
        begun = () if self.started else self._begin()
        if part != self._part:
            self._part = part
            if self._parts[-1]:
                self._parts.append([])
                text_after_gap = "\n\n" + text
                self._parts[-1].append(text)
                return begun + delta_frame(self._growth + _encode(text_after_gap) + b"}}")
        self._parts[-1].append(text)
        return begun + delta_frame(self._growth + _encode(text) + b"}}")

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        # The first text may begin a part.
        first, rest = self.grow(texts[0]), texts[1:]
        self._parts[-1] += rest
        return (*first, delta_run(self._growth, rest)) if rest else first

    def _begin(self) -> Frames:
        self.started = True
        extras = self._block.extras if self._same_dialect else {}
        return start_frame(self._index, {"type": "thinking", "thinking": "", "signature": "", **extras})

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        self._seal = seal

    def close(self) -> Frames:
        seal = self._seal
        if self.started:
            return self._write_signature(self._signature())
        if seal is None:
            return ()
        if seal.issuer == NAME and not self._block.redacted:
            return self._begin() + self._write_signature(seal.value)
        self.started = True
        extras = self._block.extras if self._same_dialect else {}
        data = write_seal(seal, redacted=self._block.redacted)
        return whole_frames(self._index, {"type": "redacted_thinking", "data": data, **extras})

    def _signature(self) -> str:
        if self._seal is None:
            return EMPTY_ENVELOPE
        # The client sends a single part back as the block's text. Several parts would come back as one.
        several = len(self._parts) > 1
        parts = tuple("".join(pieces) for pieces in self._parts) if several else ()
        return write_seal(self._seal, parts=parts, redacted=self._block.redacted)

    def _write_signature(self, signature: str) -> Frames:
        delta = _encode({"type": "signature_delta", "signature": signature})
        return delta_frame(_DELTA % (self._index, delta)) + stop_frame(self._index)


class CallBlock:
    """A call of a client's tool. Its first delta is empty, so that a call without arguments has a delta."""

    __slots__ = ("_growth", "_index", "call_id", "sealed", "started")

    def __init__(self, index: int, call: ToolCall) -> None:
        self._index = index
        self._growth = _GROWTH % (index, b"input_json_delta", b"partial_json")
        self.call_id = call.id
        self.started = True
        self.sealed: Seal | None = None

    def open(self, call: ToolCall, *, same_dialect: bool) -> Frames:
        start: Json = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        if same_dialect:
            start |= call.extras
        return start_frame(self._index, start) + delta_frame(self._growth + b'""}}')

    def grow(self, text: str, part: int = 0) -> Frames:
        return delta_frame(self._growth + _encode(text) + b"}}") if text else ()

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        return (delta_run(self._growth, texts),)

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        self.sealed = seal

    def close(self) -> Frames:
        return stop_frame(self._index)


class FreeTextCallBlock(CallBlock):
    """A call whose arguments are free text, which is wrapped in an object while it streams."""

    __slots__ = ()

    def open(self, call: ToolCall, *, same_dialect: bool) -> Frames:
        return super().open(call, same_dialect=same_dialect) + super().grow('{"input":"')

    def grow(self, text: str, part: int = 0) -> Frames:
        return super().grow(_encode(text)[1:-1].decode())

    def grow_by(self, texts: Sequence[str]) -> Sequence[Frame | FrameRun]:
        return join_frames(map(self.grow, texts))

    def close(self) -> Frames:
        return super().grow('"}') + super().close()
