"""What each kind of block says in a stream when it opens, grows and closes.

Exactly one is open at a time. A block that turns out to have nothing to say never starts, so indexes have no
gaps: whoever owns the block asks `started` after its close. Frames of growing blocks are cut from byte
templates, because they are nearly all that a stream consists of.
"""

from typing import Protocol

import msgspec

from dragoman.dialects.anthropic.citations import write_citation
from dragoman.dialects.anthropic.spelling import NAME, restore_empty
from dragoman.dialects.base import Json
from dragoman.hub.content import Citation, Reasoning, ToolCall
from dragoman.hub.seal import Seal, SealedItem, is_envelope, write_envelope
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames

#: For plain strings, which always encode; what a stranger nested goes through `encode`.
_encode = msgspec.json.Encoder().encode

#: Clients demand a signature on every thinking block; this one says that there is none.
EMPTY_ENVELOPE = write_envelope(())

_START = b'{"type":"content_block_start","index":%d,"content_block":%b}'
_DELTA = b'{"type":"content_block_delta","index":%d,"delta":%b}'
_GROWTH = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
_STOP = b'{"type":"content_block_stop","index":%d}'


def start_frame(index: int, block: Json) -> Frames:
    return (Frame("content_block_start", _START % (index, encode(block))),)


def delta_frame(data: bytes) -> Frames:
    return (Frame("content_block_delta", data),)


def stop_frame(index: int) -> Frames:
    return (Frame("content_block_stop", _STOP % index),)


def whole_frames(index: int, block: Json) -> Frames:
    """A block that starts complete and takes no deltas."""
    return start_frame(index, block) + stop_frame(index)


def envelope_of(seal: Seal, *, parts: tuple[str, ...] = (), redacted: bool = False) -> str:
    """What stands where a signature is due: Anthropic's own, or a stranger's seal in an envelope."""
    if seal.issuer == NAME or is_envelope(seal.value):
        return seal.value
    return write_envelope([SealedItem(kind="reasoning", seal=seal, parts=parts, redacted=redacted)])


class OpenBlock(Protocol):
    """The block that is being said."""

    started: bool

    def grow(self, text: str, part: int = 0) -> Frames: ...

    def cite(self, citation: Citation) -> Frames: ...

    def seal(self, seal: Seal) -> None: ...

    def close(self) -> Frames:
        """The last words of a block that is whole."""
        ...


class SilentBlock:
    """A block that Anthropic's clients have no word for."""

    started = False

    def grow(self, text: str, part: int = 0) -> Frames:
        return ()

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        """Lost with its block."""

    def close(self) -> Frames:
        return ()


class TextBlock:
    """Starts with its first word: an empty text block is refused when the client sends it back."""

    __slots__ = ("_growth", "_index", "_own", "_start", "sealed", "started", "uncited")

    def __init__(self, index: int, extras: Json, form: str = "", *, own: bool = False) -> None:
        self._index = index
        self._own = own
        self._start: Json = {"type": "text", "text": "", **extras}
        restore_empty(form, self._start)
        self._growth = _GROWTH % (index, b"text_delta", b"text")
        self.started = False
        self.sealed: Seal | None = None
        self.uncited = 0

    def grow(self, text: str, part: int = 0) -> Frames:
        if not text:
            return ()
        piece = delta_frame(self._growth + _encode(text) + b"}}")
        return piece if self.started else self._begin() + piece

    def _begin(self) -> Frames:
        self.started = True
        return start_frame(self._index, self._start)

    def cite(self, citation: Citation) -> Frames:
        written = write_citation(citation, own=self._own)
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
    """Thought, signed before it stops. A seal without a word of thought travels as redacted thinking."""

    __slots__ = ("_block", "_growth", "_index", "_own", "_part", "_parts", "_seal", "started")

    def __init__(self, index: int, block: Reasoning, *, own: bool) -> None:
        self._index = index
        self._block = block
        self._own = own
        self._growth = _GROWTH % (index, b"thinking_delta", b"thinking")
        self._part = 0
        #: The text of each part so far; only an envelope for several parts needs it.
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

    def _begin(self) -> Frames:
        self.started = True
        extras = self._block.extras if self._own else {}
        return start_frame(self._index, {"type": "thinking", "thinking": "", "signature": "", **extras})

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        self._seal = seal

    def close(self) -> Frames:
        seal = self._seal
        if self.started:
            return self._signed(self._signature())
        if seal is None:
            return ()
        if seal.issuer == NAME and not self._block.redacted:
            return self._begin() + self._signed(seal.value)
        self.started = True
        extras = self._block.extras if self._own else {}
        data = envelope_of(seal, redacted=self._block.redacted)
        return whole_frames(self._index, {"type": "redacted_thinking", "data": data, **extras})

    def _signature(self) -> str:
        if self._seal is None:
            return EMPTY_ENVELOPE
        # A single part comes back as the block's own text; several would come back as one.
        several = len(self._parts) > 1
        parts = tuple("".join(pieces) for pieces in self._parts) if several else ()
        return envelope_of(self._seal, parts=parts, redacted=self._block.redacted)

    def _signed(self, signature: str) -> Frames:
        delta = _encode({"type": "signature_delta", "signature": signature})
        return delta_frame(_DELTA % (self._index, delta)) + stop_frame(self._index)


class CallBlock:
    """A call of a client's tool; its first delta is empty, so that calls without arguments have one too."""

    __slots__ = ("_growth", "_index", "call_id", "sealed", "started")

    def __init__(self, index: int, call: ToolCall) -> None:
        self._index = index
        self._growth = _GROWTH % (index, b"input_json_delta", b"partial_json")
        self.call_id = call.id
        self.started = True
        self.sealed: Seal | None = None

    def open(self, call: ToolCall, *, own: bool) -> Frames:
        start: Json = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        if own:
            start |= call.extras
        return start_frame(self._index, start) + delta_frame(self._growth + b'""}}')

    def grow(self, text: str, part: int = 0) -> Frames:
        return delta_frame(self._growth + _encode(text) + b"}}") if text else ()

    def cite(self, citation: Citation) -> Frames:
        return ()

    def seal(self, seal: Seal) -> None:
        self.sealed = seal

    def close(self) -> Frames:
        return stop_frame(self._index)


class FreeTextCallBlock(CallBlock):
    """A call whose arguments are free text: wrapped into an object while they stream."""

    __slots__ = ()

    def open(self, call: ToolCall, *, own: bool) -> Frames:
        return super().open(call, own=own) + super().grow('{"input":"')

    def grow(self, text: str, part: int = 0) -> Frames:
        return super().grow(_encode(text)[1:-1].decode())

    def close(self) -> Frames:
        return super().grow('"}') + super().close()
