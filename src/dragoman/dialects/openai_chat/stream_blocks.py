"""What the open blocks of a stream remember, and the frames of their chunks.

For the stream reader: `CurrentBlock` is the open text, refusal or thought.

For the stream writer: text and refusals keep only their offset. A thought keeps its text, because its seal is
written together with the text. A call keeps its number in the client's list. `ChunkFrames` encodes the fields
around a delta once per reply, and the delta each time.
"""

import msgspec

from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.openai_chat.names import NAME
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS, WRAPPED_FORMAT, write_entry
from dragoman.hub.blocks import Reasoning, ReplyBlock, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.events import DeltaRun
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from dragoman.wire.sse import Frame, FrameRun, Frames

#: Issuers whose seals on calls have a field in this API, which Google defined.
GOOGLE_ISSUERS = frozenset(("gemini", NAME))

DONE: Frames = (Frame("", b"[DONE]"),)

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


class OpenText:
    """A text or refusal. `field` is its field in deltas; `before` counts the earlier visible characters."""

    __slots__ = ("before", "field", "seal")

    def __init__(self, field: str, before: int = 0) -> None:
        self.field = field
        self.before = before
        self.seal: Seal | None = None


class OpenThought:
    """A thought, with its text by part."""

    __slots__ = ("field", "is_summary", "parts", "redacted", "seal")

    def __init__(self, block: Reasoning, *, same_dialect: bool) -> None:
        self.field = block.form if same_dialect and block.form in TEXT_FIELDS else TEXT_FIELDS[0]
        self.parts: dict[int, list[str]] = {}
        self.redacted = block.redacted
        self.is_summary = not block.raw
        self.seal = block.seal

    def write_details(self) -> list[Json]:
        """The entries with which the client sends the thought and its seal back, native or in an envelope."""
        seal = self.seal
        if seal is None:
            return []
        parts = tuple("".join(self.parts[number]) for number in sorted(self.parts))
        if seal.issuer != NAME:
            return [
                write_envelope_entry(
                    SealedItem(kind="reasoning", seal=seal, parts=parts, redacted=self.redacted)
                )
            ]
        text = "\n\n".join(parts)
        entry = write_entry(seal, text, redacted=self.redacted)
        if text and self.is_summary and entry["type"] == "reasoning.encrypted":
            return [{"type": "reasoning.summary", "summary": text}, entry]
        return [entry]


class OpenCall:
    """A call. `number` is its index in the client's list; -1 for a call that is not written."""

    __slots__ = ("_blank", "block", "has_arguments", "number")

    def __init__(self, block: ToolCall, number: int) -> None:
        self.block = block
        self.number = number
        self.has_arguments = False
        self._blank = ""

    def take_arguments(self, text: str) -> str:
        """The arguments to send now. White space waits for what follows, because alone it is not JSON."""
        if self.has_arguments:
            return text
        if self.block.kind != "custom" and not text.strip():
            self._blank += text
            return ""
        text, self._blank = self._blank + text, ""
        self.has_arguments = bool(text)
        return text

    def build_first_fragment(self, seal: Seal | None, arguments: str, *, same_dialect: bool) -> Json:
        block = self.block
        body: Json = {"name": block.name, "input" if block.kind == "custom" else "arguments": arguments}
        kind = "custom" if block.kind == "custom" else "function"
        fragment: Json = {"index": self.number, "id": block.id, "type": kind, kind: body}
        if seal is not None:
            fragment["extra_content"] = build_google_content(seal.value)
        if same_dialect:
            fragment.update(block.extras)
        return fragment


def build_google_content(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def write_envelope_entry(carried: SealedItem) -> Json:
    """The entry of `reasoning_details` with a seal of another vendor in an envelope."""
    return {"type": "reasoning.encrypted", "data": write_envelope([carried]), "format": WRAPPED_FORMAT}


class CurrentBlock:
    """At most one open block. `field` is the field of deltas that continues it, empty if there is none.

    It has no reference to its users. So a finished reply has no reference cycle, and its memory is
    free at once.
    """

    __slots__ = ("_builder", "_context", "block", "field", "kind", "model")

    def __init__(self, context: UpstreamContext, builder: ReplyBuilder) -> None:
        self._context = context
        self._builder = builder
        #: The model of the reply, for seals if the context does not name the model.
        self.model = ""
        self.block = -1
        self.kind: type[ReplyBlock] | None = None
        self.field = ""

    def open(self, block: ReplyBlock, field: str) -> None:
        self.block, self.kind, self.field = self._builder.open(block), type(block), field

    def close(self) -> None:
        """Close the open block, if there is one."""
        if self.kind is not None:
            self._builder.close(self.block)
            self.block, self.kind, self.field = -1, None, ""

    def build_seal(self, value: str) -> Seal:
        """The seal of a signature of the upstream."""
        return Seal(self._context.issuer, self._context.model or self.model, value)


class ChunkFrames:
    """Builds the frames of one reply. `has_usage`: every chunk has a `usage`, null before the last."""

    def __init__(self, identity: Json, extras: Json, *, has_usage: bool) -> None:
        self._shared_fields: Json = dict(identity)
        self._has_usage = has_usage
        self._lists: dict[str, int] = {}
        self.learn(extras)

    def learn(self, extras: Json) -> None:
        """Add these fields to all following chunks."""
        self._shared_fields.update(extras)
        self._head = b'%b,"choices":[{"index":0,"delta":' % _encode(self._shared_fields)[:-1]
        usage = b',"usage":null' if self._has_usage else b""
        self._tail = b',"logprobs":null,"finish_reason":null}]%b}' % usage
        self._content_head = self._head + b'{"content":'
        self._content_tail = b"}" + self._tail
        self._fragment_head = self._head + b'{"tool_calls":[{"index":'
        self._fragment_tail = b"}}]}" + self._tail

    def content(self, text: str) -> Frames:
        return (Frame("", self._content_head + _encode(text) + self._content_tail),)

    def arguments(self, number: int, text: str, *, custom: bool) -> Frames:
        """The frame of a later fragment of a call."""
        data = self._begin_fragment(number, custom=custom) + _encode(text) + self._fragment_tail
        return (Frame("", data),)

    def run(self, opened: object, run: DeltaRun) -> FrameRun | None:
        """The frames of a run of a block's deltas, if they differ only in their texts."""
        if type(opened) is OpenText and opened.field == "content":
            return FrameRun("", self._content_head, _encode_lines(run.texts), self._content_tail)
        if isinstance(opened, OpenCall) and opened.has_arguments and opened.number >= 0:
            head = self._begin_fragment(opened.number, custom=opened.block.kind == "custom")
            return FrameRun("", head, _encode_lines(run.texts), self._fragment_tail)
        return None

    def _begin_fragment(self, number: int, *, custom: bool) -> bytes:
        place = b',"custom":{"input":' if custom else b',"function":{"arguments":'
        return self._fragment_head + b"%d" % number + place

    def delta(self, delta: Json) -> Frames:
        return (Frame("", self._head + _encode(delta) + self._tail),)

    def entries(self, field: str, entries: list[Json]) -> Frames:
        """The frame of entries of a list that grows over the reply: clients merge them by index."""
        first = self._lists.get(field, 0)
        self._lists[field] = first + len(entries)
        return self.delta({field: [{**entry, "index": first + n} for n, entry in enumerate(entries)]})

    def choice(self, choice: Json) -> Frames:
        return self._chunk([choice], None)

    def usage(self, usage: Json) -> Frames:
        return self._chunk([], usage) if self._has_usage else ()

    def _chunk(self, choices: list[Json], usage: Json | None) -> Frames:
        chunk: Json = {**self._shared_fields, "choices": choices}
        if self._has_usage:
            chunk["usage"] = usage
        return (Frame("", _encode(chunk)),)


def error_frame(body: Json) -> Frames:
    return (Frame("", _encode(body)),)
