"""Reads the stream of a reply in Anthropic's events, from Anthropic or from a compatible server.

Blocks that the hub opens complete (server tools, results, unknown types) are held until they stop. The reply
is complete when the upstream has sent a stop reason; a stream that ends earlier is truncated.
"""

from collections.abc import Callable

from dragoman.dialects.anthropic.citations import read_citation
from dragoman.dialects.anthropic.hosted import CALLS, is_result, read_call, read_opaque, read_result
from dragoman.dialects.anthropic.names import (
    build_empty_flag,
    list_of,
    object_of,
    read_arguments,
    take_text,
    text_of,
)
from dragoman.dialects.anthropic.reply import payloads
from dragoman.dialects.anthropic.stop_reasons import read_cause
from dragoman.dialects.anthropic.stream_blocks import BlockGrowth, StreamBlock
from dragoman.dialects.anthropic.usage import UsageReader
from dragoman.dialects.delta_template import TextChange
from dragoman.dialects.errors import read_failure
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.blocks import Reasoning, ReplyBlock, Text, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import ReplyFinished, ReplyStarted
from dragoman.hub.seal import Seal


class AnthropicStreamReader(FrameReader):
    """Turns the bytes of a reply into events. Every event of the API has a handler `_on_…`."""

    def __init__(self, context: UpstreamContext) -> None:
        super().__init__(context)
        self._blocks: dict[int, StreamBlock] = {}
        self._last = 0
        self._held_index = -1
        self._held_size = 0
        self._usage = UsageReader()
        self._model = context.model
        self._saw_start = False
        self._has_stop_reason = False
        self._delta: Json = {}
        self._beside: Json = {}

    def _read(self, payload: Json, event: str) -> None:
        kind = payload.get("type")
        handler = _HANDLERS.get(kind if type(kind) is str else event)
        if handler is None:
            self.context.losses.add("", "a stream event of an unknown type was skipped")
        else:
            handler(self, payload)

    def _read_whole(self, body: Json) -> None:
        for payload in payloads(body):
            self._read(payload, "")

    def _end(self) -> None:
        if self._has_stop_reason:
            self._on_message_stop({})

    def _on_ping(self, payload: Json) -> None:
        """Ignore it: a ping only keeps the connection open."""

    def _on_message_start(self, payload: Json) -> None:
        if self._saw_start:
            self.context.losses.add("", "a second message_start was skipped")
            return
        self._saw_start = True
        message = object_of(payload.get("message"))
        usage = object_of(message.get("usage"))
        content = list_of(message.get("content"))
        model = take_text(message, "model")
        self._model = self.context.model or model
        identity = take_text(message, "id")
        for name in ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence"):
            message.pop(name, None)
        self.builder.start(ReplyStarted(id=identity, model=model, extras=message))
        if usage:
            self.builder.report_usage(self._usage.read(usage))
        for block in content:
            self._on_content_block_start({"content_block": block})
            self._on_content_block_stop({})

    def _on_content_block_start(self, payload: Json) -> None:
        block = payload.get("content_block")
        if not isinstance(block, dict):
            self.context.losses.add("", "a content block that is no object was skipped")
            return
        index = self._index(payload, default=self._last + 1 if self._blocks else self._last)
        self._on_content_block_stop({"index": index})
        # At most one block is held, so that a hostile stream cannot fill the memory.
        self._on_content_block_stop({"index": self._held_index})
        kind = text_of(block.get("type"))
        opener = _OPENERS.get(kind)
        self._last = index
        self._held_index = -1
        if not kind:
            self.context.losses.add("", "a content block without a type was skipped")
        elif kind == "tool_use" and not text_of(block.get("name")):
            # No client can run a call without a name.
            self.context.losses.add("", "a call without a name was skipped")
        elif opener is None:
            self._held_index = index
            self._blocks[index] = StreamBlock(kind, -1, held=block)
        else:
            self._blocks[index] = opener(self, block)

    def _index(self, payload: Json, default: int) -> int:
        index = payload.get("index")
        return index if type(index) is int else default

    def _open_text(self, block: Json) -> StreamBlock:
        block.pop("type")
        text = take_text(block, "text")
        block.pop("text", None)
        citations = block.get("citations")
        form = ""
        if isinstance(citations, list):
            del block["citations"]
            form = build_empty_flag("citations", [])
        opened = StreamBlock("text", self.builder.open(Text(text="", form=form, extras=block)))
        for citation in list_of(citations):
            self._cite(opened, citation)
        self.builder.append(opened.number, text)
        opened.length = len(text)
        return opened

    def _open_thinking(self, block: Json) -> StreamBlock:
        block.pop("type")
        thinking, signature = take_text(block, "thinking"), take_text(block, "signature")
        block.pop("thinking", None)
        block.pop("signature", None)
        number = self.builder.open(Reasoning(extras=block))
        self.builder.append(number, thinking)
        self._seal(number, signature)
        return StreamBlock("thinking", number)

    def _open_redacted(self, block: Json) -> StreamBlock:
        block.pop("type")
        data = take_text(block, "data")
        seal = Seal(self.context.issuer, self._model, data) if data else None
        return StreamBlock(
            "redacted_thinking", self.builder.open(Reasoning(redacted=True, seal=seal, extras=block))
        )

    def _open_call(self, block: Json) -> StreamBlock:
        block.pop("type")
        given = block.pop("input", None)
        start_input = read_arguments(given) if given else ""
        identity = take_text(block, "id") or self.context.ids.make("toolu_")
        block.pop("id", None)
        call = ToolCall(id=identity, name=take_text(block, "name"), extras=block)
        return StreamBlock("tool_use", self.builder.open(call), start_input=start_input)

    def _on_content_block_delta(self, payload: Json) -> None:
        delta = payload.get("delta")
        if type(delta) is not dict:
            return
        kind = delta.get("type")
        index = payload.get("index")
        if type(index) is not int:
            index = self._last
        block = self._blocks.get(index)
        if kind == "text_delta":
            text = delta.get("text")
            if type(text) is str:
                if block is None or block.kind != "text":
                    block = self._begin(index, "text", text)
                block.length += len(text)
                self.builder.append(block.number, text)
        elif kind == "input_json_delta":
            self._grow_input(block, delta.get("partial_json"))
        else:
            grower = _GROWERS.get(kind) if type(kind) is str else None
            if grower is not None:
                grower(self, index, block, delta)
            elif block is not None and block.held is not None:
                self._hold(block, delta)
            else:
                self.context.losses.add("", "a stream delta of an unknown type was skipped")
        if self._template.can_learn and type(payload.get("index")) is int:
            self._learn(payload, delta, index)

    def _learn(self, payload: Json, delta: Json, index: int) -> None:
        """Learn what a delta looks like that extends an open block and has nothing but a text."""
        block, kind = self._blocks.get(index), delta.get("type")
        if block is None or not isinstance(kind, str):
            return
        field = _FIELDS.get((kind, block.kind))
        if field is None or not isinstance(delta.get(field), str):
            return
        growth = BlockGrowth(self.builder, self._blocks, index, block)
        count = growth.count if block.kind in ("text", "thinking") else None
        self._template.learn(
            self._frame, payload, TextChange(delta, field, growth.take, growth.take_run, count)
        )

    def _begin(self, index: int, kind: str, text: str) -> StreamBlock:
        """Open a block for a delta whose block was never started, or has another type."""
        if not text:
            return StreamBlock(kind, -1)
        self._on_content_block_start({"index": index, "content_block": {"type": kind}})
        return self._blocks[index]

    def _grow_input(self, block: StreamBlock | None, text: object) -> None:
        if not isinstance(text, str) or not text:
            return
        if block is not None and block.kind == "tool_use":
            block.start_input = ""
            self.builder.append(block.number, text)
        elif block is not None and block.held is not None:
            self._count(len(text))
            block.pieces.append(text)
        else:
            self.context.losses.add("", "arguments for a call that was never started were skipped")

    def _grow_thinking(self, index: int, block: StreamBlock | None, delta: Json) -> None:
        text = text_of(delta.get("thinking"))
        if block is None or block.kind != "thinking":
            block = self._begin(index, "thinking", text)
        self.builder.append(block.number, text)

    def _grow_signature(self, index: int, block: StreamBlock | None, delta: Json) -> None:
        signature = text_of(delta.get("signature"))
        if block is None or block.kind != "thinking":
            block = self._begin(index, "thinking", signature)
        self._seal(block.number, signature)

    def _grow_citations(self, index: int, block: StreamBlock | None, delta: Json) -> None:
        if block is not None:
            self._cite(block, delta.get("citation"))

    def _hold(self, block: StreamBlock, delta: Json) -> None:
        """Add a delta to a held block: its fields are assigned, as in Anthropic's own client."""
        delta.pop("type", None)
        self._count(_size(delta))
        if block.held is not None:
            block.held |= delta

    def _count(self, size: int) -> None:
        self._held_size += size
        if self._held_size > ReplyBuilder.MAX_CHARACTERS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_CHARACTERS} characters in one reply")

    def _seal(self, number: int, value: str) -> None:
        if value:
            self.builder.seal(number, Seal(self.context.issuer, self._model, value))

    def _cite(self, block: StreamBlock, citation: object) -> None:
        if isinstance(citation, dict):
            self._count(_size(citation))
            block.citations.append(citation)

    def _on_content_block_stop(self, payload: Json) -> None:
        block = self._blocks.pop(self._index(payload, default=self._last), None)
        if block is None:
            return
        if block.held is not None:
            self.builder.add_block(_build_whole_block(block.kind, block.held, "".join(block.pieces)))
        else:
            if block.start_input:
                self.builder.append(block.number, block.start_input)
            for citation in block.citations:
                self.builder.cite(block.number, read_citation(citation, block.length))
            self.builder.close(block.number)

    def _on_message_delta(self, payload: Json) -> None:
        delta = object_of(payload.get("delta"))
        self._has_stop_reason = self._has_stop_reason or delta.get("stop_reason") is not None
        self._delta |= delta
        usage = object_of(payload.get("usage"))
        if usage:
            self.builder.report_usage(self._usage.read(usage))
        for name, value in payload.items():
            if name not in ("type", "delta", "usage"):
                self._beside[name] = value

    def _on_message_stop(self, payload: Json) -> None:
        for index in sorted(self._blocks):
            self._on_content_block_stop({"index": index})
        delta = self._delta
        reason = delta.pop("stop_reason", None)
        stop_sequence = delta.pop("stop_sequence", None)
        extras: Json = dict(self._beside)
        if delta:
            extras["delta"] = delta
        self.builder.finish(
            ReplyFinished(
                cause=read_cause(reason),
                raw_cause=text_of(reason),
                implied=reason is None,
                stop_sequence=stop_sequence if isinstance(stop_sequence, str) else None,
                explanation=text_of(object_of(delta.get("stop_details")).get("explanation")),
                extras=extras,
            )
        )

    def _on_error(self, payload: Json) -> None:
        self.builder.fail(read_failure(payload))


def _size(values: Json) -> int:
    """The approximate size of an object, in characters."""
    return sum(len(value) for value in values.values() if isinstance(value, str)) + len(values)


def _build_whole_block(kind: str, held: Json, arguments: str) -> ReplyBlock:
    if kind in CALLS:
        return read_call(held, arguments=arguments or None)
    if is_result(kind):
        return read_result(held)
    return read_opaque(kind, held)


_HANDLERS: dict[str, Callable[[AnthropicStreamReader, Json], None]] = {
    "content_block_delta": AnthropicStreamReader._on_content_block_delta,
    "content_block_start": AnthropicStreamReader._on_content_block_start,
    "content_block_stop": AnthropicStreamReader._on_content_block_stop,
    "message_start": AnthropicStreamReader._on_message_start,
    "message_delta": AnthropicStreamReader._on_message_delta,
    "message_stop": AnthropicStreamReader._on_message_stop,
    "ping": AnthropicStreamReader._on_ping,
    "error": AnthropicStreamReader._on_error,
}

_OPENERS: dict[str, Callable[[AnthropicStreamReader, Json], StreamBlock]] = {
    "text": AnthropicStreamReader._open_text,
    "thinking": AnthropicStreamReader._open_thinking,
    "redacted_thinking": AnthropicStreamReader._open_redacted,
    "tool_use": AnthropicStreamReader._open_call,
}

#: The field with the text, by the type of a delta and that of its block.
_FIELDS: dict[tuple[str, str], str] = {
    ("text_delta", "text"): "text",
    ("thinking_delta", "thinking"): "thinking",
    ("input_json_delta", "tool_use"): "partial_json",
}

_GROWERS: dict[str, Callable[[AnthropicStreamReader, int, StreamBlock | None, Json], None]] = {
    "thinking_delta": AnthropicStreamReader._grow_thinking,
    "signature_delta": AnthropicStreamReader._grow_signature,
    "citations_delta": AnthropicStreamReader._grow_citations,
}
