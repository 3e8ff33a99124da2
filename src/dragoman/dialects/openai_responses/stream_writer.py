"""Writes a reply as events of the Responses API.

The hub's events come one block at a time, and a block becomes one item. Only messages of this dialect have
several parts; such an item stays open until its last part. An item from another dialect's block stays open
until something follows it: if the reply then ends at a limit, the item is incomplete.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, assert_never

from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.openai_logprobs import write_tokens
from dragoman.dialects.openai_responses.errors import write_error, write_stream_error
from dragoman.dialects.openai_responses.hosted import (
    FOLLOWS,
    ITEM,
    PREFIXES,
    add_required,
    build_search_action,
    describe_loss,
    write_hosted,
)
from dragoman.dialects.openai_responses.item_emitter import EventNumbering, GrowingItemEmitter, ItemStart
from dragoman.dialects.openai_responses.names import (
    CALL_OF_KIND,
    COMPLETED,
    DONE,
    ENCRYPTED_REASONING,
    FAILED,
    IN_PROGRESS,
    INCOMPLETE,
    NAME,
    get_object,
    get_text,
)
from dragoman.dialects.openai_responses.reasoning import build_sealed_item, is_carrier
from dragoman.dialects.openai_responses.response_object import ResponseObject
from dragoman.dialects.openai_responses.stop_reasons import choose_reason
from dragoman.dialects.openai_responses.stream_blocks import (
    CallEmitter,
    HostedItemEmitter,
    MessageEmitter,
    ReasoningEmitter,
)
from dragoman.dialects.openai_responses.usage import write_usage
from dragoman.dialects.pings import COMMENT_PING
from dragoman.hub.blocks import (
    Extras,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    ToolCall,
)
from dragoman.hub.errors import UpstreamProtocolError
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
from dragoman.hub.seal import SealedItem, write_envelope
from dragoman.hub.usage import Usage
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames, join_frames


class ResponsesStreamWriter:
    """Owns the output items of one reply, the ids that it gave, and the seals that it has not written yet."""

    ping = COMMENT_PING

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._same_dialect = context.upstream == NAME
        request = context.request
        self._with_seals = self._same_dialect or request is None or ENCRYPTED_REASONING in request.include
        self._shows_logprobs = not self._same_dialect and (request is None or bool(request.logprobs))
        self._events = EventNumbering()
        self._response: ResponseObject | None = None
        #: The finished items, encoded.
        self._output: list[bytes] = []
        # A copy, because a reader that shares these ids takes some whenever bytes arrive.
        self._ids = copy(context.ids)
        self._item_ids: set[str] = set()
        self._call_ids: set[str] = set()
        #: The open block, and the item that its deltas go to.
        self._block: ReplyBlock | None = None
        self._item: GrowingItemEmitter | None = None
        #: The last item, while it may get another part or become incomplete.
        self._held: GrowingItemEmitter | None = None
        self._carried: list[SealedItem] = []
        self._usage: Usage | None = None
        self._has_refusal = False

    def write(self, event: ReplyEvent) -> Frames:
        return _HANDLERS[type(event)](self, event)

    def write_run(self, run: DeltaRun) -> Frames:
        return self._item.write_texts(run.texts) if self._item is not None else ()

    # Lifecycle

    def _on_reply_started(self, event: ReplyStarted) -> Frames:
        response = self._build_response(event)
        self._response = response
        written = response.render(IN_PROGRESS)
        return self._write_lifecycle("created", written) + self._write_lifecycle(IN_PROGRESS, written)

    def _build_response(self, event: ReplyStarted) -> ResponseObject:
        return ResponseObject(self._context, event, self._ids)

    def _write_lifecycle(self, name: str, response: bytes) -> Frames:
        return self._events.write_encoded(f"response.{name}", b'"response":%b}' % response)

    def _on_reply_finished(self, event: ReplyFinished) -> Frames:
        response = self._response or self._build_response(ReplyStarted())
        frames = () if self._same_dialect or self._has_refusal else self._write_explanation(event)
        raw_cause = event.raw_cause if self._same_dialect else ""
        reason = choose_reason(event.cause, raw_cause, has_refusal=self._has_refusal)
        frames += self._close_held(is_cut=bool(reason) and not self._same_dialect)
        status = INCOMPLETE if reason else COMPLETED
        usage = write_usage(self._usage, same_dialect=self._same_dialect)
        written = response.render(
            status, output=self._output, usage=usage, reason=reason, extras=event.extras
        )
        return frames + self._write_lifecycle(status, written) + (Frame("", DONE),)

    def _on_reply_failed(self, event: ReplyFailed) -> Frames:
        code, message = write_stream_error(event.failure, event.ending, same_dialect=self._same_dialect)
        error: Extras = {"code": code, "message": message}
        event_members: Extras = {**error, "param": event.failure.param or None}
        frames: Frames = ()
        response = self._response
        if response is None:
            # The response has not started, so the event also holds the body of an HTTP error.
            response = self._build_response(ReplyStarted())
            frames = self._write_lifecycle("created", response.render(IN_PROGRESS))
            event_members |= write_error(event.failure)
        if not self._same_dialect:
            frames += self._close_held()
        output = list(self._output)
        item = self._item or self._held
        unfinished = item.build_unfinished() if item else None
        if unfinished is not None:
            output.append(encode(unfinished, error_class=UpstreamProtocolError))
        frames += self._events.write("error", event_members)
        usage = write_usage(self._usage, same_dialect=self._same_dialect)
        written = response.render(FAILED, output=output, usage=usage, error=error)
        return frames + self._write_lifecycle(FAILED, written) + (Frame("", DONE),)

    # Opening

    def _on_block_opened(self, event: BlockOpened) -> Frames:
        block = self._block = event.block
        match block:
            case Text() | Refusal():
                return self._open_message(block)
            case Reasoning():
                return self._open_reasoning(block)
            case ToolCall():
                return self._open_call(block)
            case HostedCall() | HostedResult() | Media() | Opaque():
                if self._same_dialect and isinstance(block, Opaque) and block.form == "part":
                    return self._open_message(block)
                return self._close_held() + self._write_hosted(block)
            case _:
                assert_never(block)

    def _start_item(self, prefix: str, extras: Extras) -> ItemStart:
        """The start of the next item. Its id is unique in the stream; ids of this dialect are kept."""
        item_id = get_text(extras, "id")
        if prefix:
            item_id = self._ids.adopt(prefix, item_id)
        if not item_id or item_id in self._item_ids:
            item_id = self._ids.make(prefix or "item_")
        self._item_ids.add(item_id)
        return ItemStart(self._events, len(self._output), item_id, extras)

    def _find_extras(self, block: ReplyBlock) -> Extras:
        return block.extras if self._same_dialect else {}

    def _open_message(self, block: Text | Refusal | Opaque) -> Frames:
        extras = get_object(self._find_extras(block), ITEM)
        is_same = self._held is not None and self._held.extras.get("id") == extras.get("id")
        message, frames = self._take_message(extras, is_same=self._same_dialect and is_same)
        self._item = message
        if isinstance(block, Opaque):
            return frames + message.write_part(dict(block.value))
        is_refusal = isinstance(block, Refusal)
        self._has_refusal |= is_refusal
        frames += message.open_part("refusal" if is_refusal else "output_text")
        return frames + (message.write_text(block.text) if block.text else ())

    def _take_message(self, extras: Extras, *, is_same: bool) -> tuple[MessageEmitter, Frames]:
        """The message that the next part belongs to, and the frames that must come before the part.

        `is_same`: the part continues the held message, so no other message is opened.
        """
        held = self._held
        if is_same and isinstance(held, MessageEmitter):
            self._held = None
            return held, ()
        frames = self._close_held()
        message = MessageEmitter(self._start_item("msg_", extras))
        return message, frames + message.open()

    def _open_reasoning(self, block: Reasoning) -> Frames:
        if is_carrier(block):
            self._item = None
            if block.seal is not None:
                self._carry(build_sealed_item(block, block.seal))
            return ()
        frames = [self._close_held()]
        start = self._start_item("rs_", self._find_extras(block))
        item = ReasoningEmitter(start, block, same_dialect=self._same_dialect, with_seal=self._with_seals)
        self._item = item
        frames.append(item.open())
        frames += [item.write_part_text(number, text) for number, text in enumerate(block.parts) if text]
        return join_frames(frames)

    def _open_call(self, block: ToolCall) -> Frames:
        frames = self._close_held()
        call = CALL_OF_KIND[block.kind]
        start = self._start_item(call.prefix, self._find_extras(block))
        item = CallEmitter(start, block, call, self._make_call_id(block.id), same_dialect=self._same_dialect)
        self._item = item
        if block.seal is not None:
            self._carry(SealedItem(kind="call", seal=block.seal, call_id=item.call_id))
        return frames + item.open() + (item.write_text(block.arguments) if block.arguments else ())

    def _make_call_id(self, call_id: str) -> str:
        """A `call_id` that is unique in this reply, because clients match results and items by it."""
        wanted = call_id or self._ids.make("call_")
        number = 2
        while wanted in self._call_ids:
            wanted = f"{call_id}_{number}"
            number += 1
        self._call_ids.add(wanted)
        return wanted

    def _write_hosted(self, block: HostedCall | HostedResult | Media | Opaque) -> Frames:
        """Write a complete block: an item of this dialect, or a web search of another."""
        self._item = None
        item = write_hosted(block) if self._same_dialect else None
        if item is None and isinstance(block, HostedCall) and block.tool in ("web_search", "web_fetch"):
            action = build_search_action(block.arguments)
            item_id = self._ids.adopt("ws_", block.id)
            item = {"id": item_id, "type": "web_search_call", "status": COMPLETED, "action": action}
        if item is None:
            if not (self._same_dialect and isinstance(block, HostedResult) and block.form == FOLLOWS):
                self._context.losses.add(block.at, f"OpenAI Responses cannot show {describe_loss(block)}")
            return ()
        item = add_required(item)
        emitter = HostedItemEmitter(self._start_item(PREFIXES.get(get_text(item, "type"), ""), item))
        frames = emitter.emit(item)
        self._output.append(emitter.final)
        return frames

    # Growing

    def _on_text_delta(self, event: TextDelta) -> Frames:
        return self._item.write_text(event.text) if self._item is not None and event.text else ()

    def _on_arguments_delta(self, event: ArgumentsDelta) -> Frames:
        return self._item.write_text(event.text) if self._item is not None and event.text else ()

    def _on_reasoning_delta(self, event: ReasoningDelta) -> Frames:
        item = self._item
        return item.write_part_text(event.part, event.text) if isinstance(item, ReasoningEmitter) else ()

    def _on_usage_reported(self, event: UsageReported) -> Frames:
        self._usage = self._usage.merge(event.usage) if self._usage else event.usage
        return ()

    def _on_seal_attached(self, event: SealAttached) -> Frames:
        item, seal = self._item, event.seal
        if isinstance(item, ReasoningEmitter):
            item.seal = seal
        elif isinstance(item, CallEmitter):
            self._carry(SealedItem(kind="call", seal=seal, call_id=item.call_id))
        elif isinstance(self._block, Reasoning):
            self._carry(build_sealed_item(self._block, seal))
        else:
            self._carry(SealedItem(kind="text", seal=seal))
        return ()

    def _carry(self, sealed: SealedItem) -> None:
        """Keep a seal until the item that it belongs to is written."""
        if self._with_seals:
            self._carried.append(sealed)

    def _on_citation_added(self, event: CitationAdded) -> Frames:
        item = self._item
        frames = (
            item.cite(event.citation, same_dialect=self._same_dialect)
            if isinstance(item, MessageEmitter)
            else ()
        )
        if frames is None:
            self._context.losses.add("", "OpenAI Responses cannot cite a source that has no address")
            return ()
        return frames

    # Closing

    def _on_block_closed(self, event: BlockClosed) -> Frames:
        item, block = self._item, self._block
        self._item = self._block = None
        if item is None or block is None:
            return () if self._held is not None else self._write_seals()
        extras = dict(event.extras) if self._same_dialect else {}
        if event.logprobs and self._shows_logprobs:
            extras["logprobs"] = write_tokens(event.logprobs)
        if isinstance(item, MessageEmitter):
            last = extras.pop(ITEM, None)
            frames = () if isinstance(block, Opaque) else item.close_part(extras)
            if not self._same_dialect or (ITEM in block.extras and last is None):
                self._held = item
                return frames
            return frames + self._end(
                item, item.close(last) if isinstance(last, dict) else item.close_unchanged()
            )
        if isinstance(item, CallEmitter) and not self._same_dialect:
            self._held = item
            return ()
        return self._end(item, item.close(extras) if extras else item.close_unchanged())

    def _end(self, item: GrowingItemEmitter, frames: Frames) -> Frames:
        """Record a closed item and write the seals that follow it."""
        self._output.append(item.final)
        return frames + self._write_seals()

    def _close_held(self, *, is_cut: bool = False) -> Frames:
        """Close the held item. `is_cut`: the reply ended at a limit, so the item is incomplete."""
        held, self._held = self._held, None
        if held is None:
            return ()
        if self._carried and is_cut:
            if isinstance(held, CallEmitter):
                # The seal must follow the call, and only a complete item can be followed by another.
                is_cut = False
            else:
                self._carried = []
                self._context.losses.add("", "the seal of a text that was cut short")
        return self._end(held, held.close_unchanged(is_cut=is_cut))

    def _write_explanation(self, event: ReplyFinished) -> Frames:
        """Write the explanation of a refusal as a refusal part."""
        if event.cause != "refusal" or not event.explanation:
            return ()
        self._has_refusal = True
        message, frames = self._take_message({}, is_same=True)
        self._held = message
        frames += message.open_part("refusal") + message.write_text(event.explanation)
        return frames + message.close_part({})

    def _write_seals(self) -> Frames:
        """Write the seals of a call or text as a reasoning item after it, which clients send back."""
        if not self._carried:
            return ()
        carrier = ReasoningEmitter(
            self._start_item("rs_", {}), Reasoning(), same_dialect=self._same_dialect, with_seal=True
        )
        frames = carrier.emit_envelope(write_envelope(self._carried))
        self._carried = []
        self._output.append(carrier.final)
        return frames


_HANDLERS: dict[type, Callable[[ResponsesStreamWriter, Any], Frames]] = {
    TextDelta: ResponsesStreamWriter._on_text_delta,
    ArgumentsDelta: ResponsesStreamWriter._on_arguments_delta,
    ReasoningDelta: ResponsesStreamWriter._on_reasoning_delta,
    BlockOpened: ResponsesStreamWriter._on_block_opened,
    BlockClosed: ResponsesStreamWriter._on_block_closed,
    SealAttached: ResponsesStreamWriter._on_seal_attached,
    CitationAdded: ResponsesStreamWriter._on_citation_added,
    UsageReported: ResponsesStreamWriter._on_usage_reported,
    ReplyStarted: ResponsesStreamWriter._on_reply_started,
    ReplyFinished: ResponsesStreamWriter._on_reply_finished,
    ReplyFailed: ResponsesStreamWriter._on_reply_failed,
}
