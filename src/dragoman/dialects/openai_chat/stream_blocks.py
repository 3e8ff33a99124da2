"""What the open blocks of a stream remember, and the frames of their chunks.

For the stream reader: `CurrentBlock` is the open text, refusal or thought, `TextChange` the text that may
differ in the next chunk, `ChunkTemplate` the bytes around it.

For the stream writer: text and refusals keep only their offset. A thought keeps its text, because its seal is
written together with the text. A call keeps its number in the client's list. `ChunkFrames` encodes the fields
around a delta once per reply, and the delta each time.
"""

from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec

from dragoman.dialects.event_template import EventTemplate, count_fitting, read_texts
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

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines

#: How often a template is learned per reply. A reply whose chunks differ elsewhere gains nothing from more.
MOST_TRIES = 12

#: Replaces the text while a template is tested; no server sends it.
_PROBE = "\x00dragoman\x00"


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


class TextChange(NamedTuple):
    """The text of a decoded chunk that may differ in the next ones, and the functions that take new texts.

    The functions return False if they can take no texts any more, because the block has closed.
    """

    holder: Json
    field: str
    take: Callable[[str], bool]
    take_run: Callable[[list[str]], bool]


class ChunkTemplate:
    """The bytes around the text of the last learned chunk. The `take` methods read texts of equal chunks.

    Most chunks of a reply have the same bytes except for one JSON string. If the bytes before and after the
    string are the same, then the chunk has the same meaning with another text, and is not decoded again.
    """

    __slots__ = ("_after", "_before", "_take", "_take_run", "_tries", "event")

    def __init__(self) -> None:
        #: The bytes of the chunk before and after its text, with the quotes. Before one is learned, none fit.
        self._set(b"\n", b"\n")
        self._take: Callable[[str], bool] = _take_nothing
        self._take_run: Callable[[list[str]], bool] = _take_nothing
        self._tries = MOST_TRIES

    def take_event(self, data: bytes) -> bool:
        """Take the text of one event that fits, and is all of `data`. False if it does not fit."""
        text = self.event.read_event(data)
        return text is not None and self._take(text)

    def take_events(self, data: bytes, start: int = 0) -> int:
        """Take the texts of the events from `start` on that fit. Returns their size in bytes.

        `start` is between two events.
        """
        raws = self.event.cut_events(data, start)
        return len(self.event.join_events(raws)) if raws and self._take_texts(raws) else 0

    def take_run(self, frames: Sequence[Frame], start: int) -> int:
        """Take the texts of the frames from `start` on that fit. Returns their number."""
        if not frames[start].data.startswith(self._before):
            return 0
        chunks = [frame.data for frame in takewhile(_has_no_name, islice(frames, start, None))]
        text = slice(len(self._before), -len(self._after))
        raws = [chunk[text] for chunk in chunks[: count_fitting(chunks, self._before, self._after)]]
        if not raws or self._take_texts(raws):
            return len(raws)
        return int(len(raws) > 1 and self._take_texts(raws[:1]))

    def _take_texts(self, raws: list[bytes]) -> bool:
        """Take texts in their JSON form, without their quotes. False if one of them is no JSON text."""
        texts = read_texts(raws)
        if texts is None:
            return False
        return self._take_run(texts) if len(texts) > 1 else self._take(texts[0])

    @property
    def can_learn(self) -> bool:
        return self._tries > 0

    def learn(self, data: bytes, payload: Json, change: TextChange) -> None:
        """Learn the template of a chunk: its bytes, its decoded payload, and the text inside it."""
        self._tries -= 1
        holder, field, take, take_run = change
        text = holder[field]
        name, value = _encode(field), _encode(text)
        # A server with another way to escape characters is not recognised.
        colon = b": " if name + b": " in data else b":"
        before, found, after = data.rpartition(name + colon + value)
        if not found:
            return
        before += name + colon + b'"'
        holder[field] = _PROBE
        is_there = _decodes_to(before + _encode(_PROBE)[1:] + after, payload)
        holder[field] = text
        if is_there:
            self._take, self._take_run = take, take_run
            self._set(before, b'"' + after)

    def _set(self, before: bytes, after: bytes) -> None:
        self._before, self._after = before, after
        self.event = EventTemplate(before, after)


def _take_nothing(text: str | list[str]) -> bool:
    return False


def _has_no_name(frame: Frame) -> bool:
    return not frame.event


def _decodes_to(data: bytes, payload: Json) -> bool:
    try:
        return bool(_decode(data) == payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
