"""Writes a reply as Anthropic's events.

The order of events is fixed by construction: one `message_start`, blocks one after another with indexes
without gaps, then `message_delta` and `message_stop`, or one `error` and nothing after it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.dialects.anthropic.errors import write_error
from dragoman.dialects.anthropic.hosted import (
    FETCH,
    write_call,
    write_fetch,
    write_fetched,
    write_pages,
    write_result,
    write_search,
)
from dragoman.dialects.anthropic.names import NAME, object_of
from dragoman.dialects.anthropic.reply import block_frames, frame
from dragoman.dialects.anthropic.stop_reasons import choose_reason
from dragoman.dialects.anthropic.stream_blocks import (
    CallBlock,
    FreeTextCallBlock,
    OpenBlock,
    TextBlock,
    ThinkingBlock,
    UnwrittenBlock,
    whole_frames,
)
from dragoman.dialects.anthropic.usage import write_usage
from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.pings import ANTHROPIC_PING
from dragoman.dialects.search_options import find_queries
from dragoman.hub.blocks import HostedCall, HostedResult, Media, Opaque, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    DeltaRun,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import CALL_CARRIER, TEXT_CARRIER, Seal, SealedItem, is_envelope, write_envelope
from dragoman.hub.usage import Usage
from dragoman.wire.sse import Frame, FrameRun, Frames, join_frames

#: For upstreams that report no usage: text and code have about four characters per token.
CHARACTERS_PER_TOKEN = 4

_SILENT = UnwrittenBlock()
_STOP: Frames = (Frame("message_stop", b'{"type":"message_stop"}'),)


class AnthropicStreamWriter:
    """Turns the events of one reply into frames."""

    ping = ANTHROPIC_PING

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._same_dialect = context.upstream == NAME
        self._block: OpenBlock = _SILENT
        self._next = 0
        self._has_calls = False
        self._characters = 0
        self._usage: Usage | None = None
        self._start_usage: Json = {}
        #: The seal of a text, which is written as a block of its own when another block follows.
        self._waiting: str = ""
        #: The id of another vendor's search whose result is not written yet.
        self._search = ""
        #: The arguments of a fetch that has no result yet.
        self._fetched = ""

    def write(self, event: ReplyEvent) -> Frames:
        return _HANDLERS[type(event)](self, event)

    def write_run(self, run: DeltaRun) -> Sequence[Frame | FrameRun]:
        self._characters += run.characters
        return self._block.grow_by(run.texts)

    def count_text(self, characters: int) -> None:
        """Count text deltas that were written with the bytes around the last one."""
        self._characters += characters

    def _on_reply_started(self, event: ReplyStarted) -> Frames:
        context = self._context
        self._start_usage = {"input_tokens": context.input_estimate, "output_tokens": 0}
        message: Json = {
            "id": event.id if self._same_dialect and event.id else context.ids.adopt("msg_", event.id),
            "type": "message",
            "role": "assistant",
            "model": context.model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._start_usage,
        }
        if self._same_dialect:
            self._start_usage |= _drop_invalid_counts(object_of(event.extras.get("usage")))
            message |= event.extras
            message["usage"] = self._start_usage
        return frame({"type": "message_start", "message": message})

    def _on_text_delta(self, event: TextDelta) -> Frames:
        self._characters += len(event.text)
        return self._block.grow(event.text)

    def _on_arguments_delta(self, event: ArgumentsDelta) -> Frames:
        self._characters += len(event.text)
        return self._block.grow(event.text)

    def _on_reasoning_delta(self, event: ReasoningDelta) -> Frames:
        self._characters += len(event.text)
        return self._block.grow(event.text, event.part)

    def _on_citation_added(self, event: CitationAdded) -> Frames:
        return self._block.cite(event.citation)

    def _on_seal_attached(self, event: SealAttached) -> Frames:
        self._block.seal(event.seal)
        return ()

    def _on_usage_reported(self, event: UsageReported) -> Frames:
        self._usage = self._usage.merge(event.usage) if self._usage else event.usage
        return ()

    def _on_block_opened(self, event: BlockOpened) -> Frames:
        block = event.block
        ended = () if isinstance(block, HostedResult) else self._end_search()
        return ended + _OPENERS[type(block)](self, block)

    def _open_text(self, block: Text) -> Frames:
        before = self._write_text_seal()
        extras, form = (block.extras, block.form) if self._same_dialect else ({}, "")
        opened = TextBlock(self._next, extras, form, same_dialect=self._same_dialect)
        self._block = opened
        if block.seal is not None:
            opened.seal(block.seal)
        self._characters += len(block.text)
        return before + opened.grow(block.text) + join_frames(opened.cite(c) for c in block.citations)

    def _open_refusal(self, block: Refusal) -> Frames:
        before = self._write_text_seal()
        self._block = TextBlock(self._next, {})
        self._characters += len(block.text)
        return before + self._block.grow(block.text)

    def _open_reasoning(self, block: Reasoning) -> Frames:
        if block.seal is not None and block.form.startswith(CALL_CARRIER):
            self._block = _SILENT
            return self._write_text_seal() + self._write_carrier(
                _build_call_envelope(block.form[len(CALL_CARRIER) :], block.seal)
            )
        if block.seal is not None and block.form == TEXT_CARRIER:
            self._block = _SILENT
            self._waiting = _build_text_envelope(block.seal)
            return ()
        before = self._write_text_seal()
        self._block = opened = ThinkingBlock(self._next, block, same_dialect=self._same_dialect)
        return before + join_frames(opened.grow(text, part) for part, text in enumerate(block.parts))

    def _open_call(self, block: ToolCall) -> Frames:
        before = self._write_text_seal()
        if block.seal is not None:
            before += self._write_carrier(_build_call_envelope(block.id, block.seal))
        self._has_calls = True
        kind = FreeTextCallBlock if block.kind == "custom" else CallBlock
        self._block = opened = kind(self._next, block)
        self._characters += len(block.arguments)
        return before + opened.open(block, same_dialect=self._same_dialect) + opened.grow(block.arguments)

    def _open_hosted_call(self, block: HostedCall) -> Frames:
        # A block without a form was made by the gateway.
        if self._same_dialect and block.form:
            return self._write_whole(write_call(block))
        if block.tool == FETCH:
            self._search, self._fetched = self._context.ids.adopt("srvtoolu_", block.id), block.arguments
            return self._write_whole(write_fetch(block.arguments, self._search))
        queries = find_queries(block)
        if not queries:
            return self._lose("a call of a vendor's own tool")
        self._search = self._context.ids.adopt("srvtoolu_", block.id)
        return self._write_whole(write_search("; ".join(queries), self._search))

    def _open_hosted_result(self, block: HostedResult) -> Frames:
        if self._same_dialect and block.form:
            return self._write_whole(write_result(block))
        if block.tool == FETCH and self._search:
            search, self._search = self._search, ""
            return self._write_whole(write_fetched(block, self._fetched, search))
        return self._end_search(block) if self._search else self._lose("the result of a vendor's own tool")

    def _end_search(self, result: HostedResult | None = None) -> Frames:
        """Write the result of a search; one without pages if they are not known."""
        search, self._search = self._search, ""
        return self._write_whole(write_pages(result, search)) if search else ()

    def _open_opaque(self, block: Opaque) -> Frames:
        if self._same_dialect:
            return self._write_whole(block.value)
        lost = self._lose(f"a block of kind {block.kind!r}")
        return self._open_refusal(Refusal(text=block.text)) if block.text else lost

    def _open_media(self, block: Media) -> Frames:
        return self._lose(f"generated media of kind {block.kind!r}")

    def _lose(self, what: str) -> Frames:
        self._block = _SILENT
        self._context.losses.add("", f"{what} cannot be written in this dialect")
        return ()

    def _write_whole(self, block: Json) -> Frames:
        """Write a block that opens complete. Its close then writes nothing."""
        before = self._write_text_seal()
        self._block = _SILENT
        written = block_frames(self._next, block)
        self._next += 1
        return before + written

    def _write_carrier(self, envelope: str) -> Frames:
        """Write a block whose only purpose is that the client sends it back."""
        written = whole_frames(self._next, {"type": "redacted_thinking", "data": envelope})
        self._next += 1
        return written

    def _write_text_seal(self) -> Frames:
        envelope, self._waiting = self._waiting, ""
        return self._write_carrier(envelope) if envelope else ()

    def _on_block_closed(self, event: BlockClosed) -> Frames:
        block, self._block = self._block, _SILENT
        written = block.close()
        self._next += block.started
        if isinstance(block, CallBlock) and block.sealed is not None:
            written += self._write_carrier(_build_call_envelope(block.call_id, block.sealed))
        elif isinstance(block, TextBlock):
            self._finish_text(block)
        return written

    def _finish_text(self, block: TextBlock) -> None:
        if block.sealed is not None and block.started:
            self._waiting = _build_text_envelope(block.sealed)
        if block.uncited:
            self._context.losses.add("", "a citation that names no page cannot be written in this dialect")

    def _on_reply_finished(self, event: ReplyFinished) -> Frames:
        if self._waiting:
            # Some clients look for the answer in the last block, so a seal must not be the last one.
            self._context.losses.add("", "the seal of the last text has no place in this dialect")
        ended = self._end_search()
        reason = choose_reason(event, same_dialect=self._same_dialect, has_calls=self._has_calls)
        matched = event.stop_sequence if reason == "stop_sequence" else None
        delta: Json = {"stop_reason": reason, "stop_sequence": matched}
        ending: Json = {"type": "message_delta", "delta": delta, "usage": self._final_usage()}
        if self._same_dialect:
            delta |= object_of(event.extras.get("delta"))
            ending |= {name: value for name, value in event.extras.items() if name != "delta"}
        if reason == "refusal" and event.explanation and "stop_details" not in delta:
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": event.explanation}
        return ended + frame(ending) + _STOP

    def _final_usage(self) -> Json:
        """The final counts, without the values that `message_start` already contained unchanged."""
        context, usage = self._context, self._usage or Usage()
        if usage.input is None or usage.output is None:
            context.losses.add("usage", "the upstream did not count all tokens: some counts are estimates")
            guess = Usage(
                input=context.input_estimate if usage.input is None else usage.input,
                output=self._characters // CHARACTERS_PER_TOKEN if usage.output is None else usage.output,
            )
            usage = usage.merge(guess)
        written = write_usage(usage, same_dialect=self._same_dialect)
        sent = self._start_usage
        return {
            name: value
            for name, value in written.items()
            if name.endswith("_tokens") or name not in sent or sent[name] != value
        }

    def _on_reply_failed(self, event: ReplyFailed) -> Frames:
        # An open block stays open: Claude Code then requests the whole message again. It would keep a closed
        # half of a block as if it were complete (docs/decisions/0003).
        body = write_error(event.failure)
        if event.ending != "failed":
            # Every client retries after this error.
            object_of(body["error"])["type"] = "overloaded_error"
        return frame(body)


def _drop_invalid_counts(usage: Json) -> Json:
    """The usage of an upstream without counts that are not numbers."""
    return {
        name: value
        for name, value in usage.items()
        if name not in ("input_tokens", "output_tokens") or (type(value) is int and value >= 0)
    }


def _build_call_envelope(call_id: str, seal: Seal) -> str:
    if is_envelope(seal.value):
        return seal.value
    return write_envelope([SealedItem(kind="call", seal=seal, call_id=call_id)])


def _build_text_envelope(seal: Seal) -> str:
    return write_envelope([SealedItem(kind="text", seal=seal)])


_OPENERS: dict[type, Callable[[AnthropicStreamWriter, Any], Frames]] = {
    Text: AnthropicStreamWriter._open_text,
    Refusal: AnthropicStreamWriter._open_refusal,
    Reasoning: AnthropicStreamWriter._open_reasoning,
    ToolCall: AnthropicStreamWriter._open_call,
    HostedCall: AnthropicStreamWriter._open_hosted_call,
    HostedResult: AnthropicStreamWriter._open_hosted_result,
    Opaque: AnthropicStreamWriter._open_opaque,
    Media: AnthropicStreamWriter._open_media,
}

_HANDLERS: dict[type, Callable[[AnthropicStreamWriter, Any], Frames]] = {
    TextDelta: AnthropicStreamWriter._on_text_delta,
    ArgumentsDelta: AnthropicStreamWriter._on_arguments_delta,
    ReasoningDelta: AnthropicStreamWriter._on_reasoning_delta,
    BlockOpened: AnthropicStreamWriter._on_block_opened,
    BlockClosed: AnthropicStreamWriter._on_block_closed,
    SealAttached: AnthropicStreamWriter._on_seal_attached,
    CitationAdded: AnthropicStreamWriter._on_citation_added,
    UsageReported: AnthropicStreamWriter._on_usage_reported,
    ReplyStarted: AnthropicStreamWriter._on_reply_started,
    ReplyFinished: AnthropicStreamWriter._on_reply_finished,
    ReplyFailed: AnthropicStreamWriter._on_reply_failed,
}
