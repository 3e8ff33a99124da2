"""Writes hub events as the event stream of the Responses API.

Blocks arrive one at a time. A block becomes one item; only messages of this dialect have several parts, and
such an item stays open until its last part. The item of another dialect's block stays open until the next
event: if the reply then ends because of a limit, the item is incomplete.
"""

from copy import copy
from typing import assert_never

from dragoman.dialects.base import Audience
from dragoman.dialects.openai_responses.errors import write_error, write_stream_error
from dragoman.dialects.openai_responses.hosted import (
    FOLLOWS,
    ITEM,
    PREFIXES,
    STEPS,
    add_required,
    build_search_action,
    write_hosted,
)
from dragoman.dialects.openai_responses.names import CALL_OF_KIND, DONE, ENCRYPTED_REASONING, NAME
from dragoman.dialects.openai_responses.reasoning import build_sealed_item, is_carrier
from dragoman.dialects.openai_responses.response_object import ResponseObject
from dragoman.dialects.openai_responses.stop_reasons import choose_reason, write_usage
from dragoman.dialects.openai_responses.stream_blocks import (
    COMPLETED,
    INCOMPLETE,
    CallEmitter,
    EventNumbering,
    GrowingItemEmitter,
    MessageEmitter,
    ReasoningEmitter,
    WholeItemEmitter,
)
from dragoman.hub.content import (
    AnyBlock,
    Citation,
    Extras,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
)
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.seal import Seal, SealedItem, write_envelope
from dragoman.hub.usage import Usage
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames, join_frames

#: Blocks that only their own dialect can write.
UNSHOWN: dict[type, str] = {
    HostedCall: "what another vendor's own tool was asked",
    HostedResult: "what another vendor's own tool gave back",
    Media: "media that the model made",
    Opaque: "a block that only its own dialect knows",
}


class ResponsesStreamWriter:
    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._own = audience.upstream == NAME
        request = audience.request
        self._with_seals = self._own or request is None or ENCRYPTED_REASONING in request.include
        self._events = EventNumbering()
        self._response: ResponseObject | None = None
        self._output: list[bytes] = []
        # A copy, because a reader that shares these ids takes some whenever bytes arrive.
        self._ids = copy(audience.ids)
        self._item_ids: set[str] = set()
        self._call_ids: set[str] = set()
        self._block: AnyBlock | None = None
        self._item: GrowingItemEmitter | None = None
        #: The last item, while it may get another part or become incomplete.
        self._held: GrowingItemEmitter | None = None
        self._carried: list[SealedItem] = []
        self._usage: Usage | None = None
        self._refused = False

    def write(self, event: ReplyEvent) -> Frames:
        match event:
            case TextDelta() | ArgumentsDelta():
                return self._item.write_text(event.text) if self._item is not None and event.text else ()
            case ReasoningDelta():
                return self._on_reasoning(event)
            case BlockOpened():
                return self._on_open(event.block)
            case BlockClosed():
                return self._on_close(event)
            case SealAttached():
                self._on_seal(event.seal)
            case CitationAdded():
                return self._on_citation(event.citation)
            case UsageReported():
                self._usage = self._usage.merge(event.usage) if self._usage else event.usage
            case ReplyStarted():
                return self._on_start(event)
            case ReplyFinished():
                return self._on_finish(event)
            case ReplyFailed():
                return self._on_failure(event)
            case _:
                assert_never(event)
        return ()

    # Lifecycle

    def _on_start(self, event: ReplyStarted) -> Frames:
        response = self._response = ResponseObject(self._audience, event, self._ids)
        response_json = response.render("in_progress")
        return self._write_lifecycle("response.created", response_json) + self._write_lifecycle(
            "response.in_progress", response_json
        )

    def _write_lifecycle(self, kind: str, response: bytes) -> Frames:
        return self._events.build_frame(kind, b'"response":%b}' % response)

    def _on_finish(self, event: ReplyFinished) -> Frames:
        response = self._response or ResponseObject(self._audience, ReplyStarted(), self._ids)
        raw_cause = event.raw_cause if self._own else ""
        frames = () if self._own or self._refused else self._write_explanation(event)
        reason = choose_reason(event.cause, raw_cause, has_refusal=self._refused)
        frames += self._close_held(cut=bool(reason) and not self._own)
        status = "incomplete" if reason else COMPLETED
        ended = response.render(
            status,
            output=b"[%b]" % b",".join(self._output),
            usage=write_usage(self._usage, own=self._own),
            reason=reason,
            extras=event.extras,
        )
        return frames + self._write_lifecycle(f"response.{status}", ended) + (Frame("", DONE),)

    def _on_failure(self, event: ReplyFailed) -> Frames:
        code, message = write_stream_error(event.failure, event.ending, own=self._own)
        frames: Frames = ()
        error: Extras = {"code": code, "message": message, "param": event.failure.param or None}
        response = self._response
        if response is None:
            # The response has not started, so the event also holds the error body of an HTTP error.
            response = ResponseObject(self._audience, ReplyStarted(), self._ids)
            frames = self._write_lifecycle("response.created", response.render("in_progress"))
            error |= write_error(event.failure)
        if not self._own:
            frames += self._close_held()
        output = list(self._output)
        item = self._item or self._held
        unfinished = item.snapshot() if item else None
        if unfinished is not None:
            output.append(encode(unfinished, blame=UpstreamProtocolError))
        frames += self._events.build_event("error", error)
        ended = response.render(
            "failed",
            output=b"[%b]" % b",".join(output),
            usage=write_usage(self._usage, own=self._own),
            error={"code": code, "message": message},
        )
        return frames + self._write_lifecycle("response.failed", ended) + (Frame("", DONE),)

    # Blocks

    def _on_open(self, block: AnyBlock) -> Frames:
        self._block = block
        if isinstance(block, Text | Refusal) or (
            isinstance(block, Opaque) and block.form == "part" and self._own
        ):
            return self._open_message(block)
        if isinstance(block, Reasoning) and is_carrier(block):
            return self._open_carrier(block)
        frames = self._close_held()
        match block:
            case Reasoning():
                return frames + self._open_reasoning(block)
            case ToolCall():
                return frames + self._open_call(block)
            case _:
                return frames + self._write_whole(block)

    def _make_id(self, prefix: str, extras: Extras) -> str:
        """A unique id for an item of this stream; ids of this dialect are kept."""
        wanted = extras.get("id")
        item_id = wanted if isinstance(wanted, str) else ""
        if prefix:
            item_id = self._ids.adopt(prefix, item_id)
        if not item_id or item_id in self._item_ids:
            item_id = self._ids.make(prefix or "item_")
        self._item_ids.add(item_id)
        return item_id

    def _extras(self, block: AnyBlock) -> Extras:
        return block.extras if self._own else {}

    def _open_message(self, block: Text | Refusal | Opaque) -> Frames:
        head = self._extras(block).get(ITEM)
        extras: Extras = head if isinstance(head, dict) else {}
        held = self._held
        frames: Frames = ()
        if self._own and isinstance(held, MessageEmitter) and held.extras.get("id") == extras.get("id"):
            message = held
        else:
            frames = self._close_held()
            message = MessageEmitter(self._events, len(self._output), self._make_id("msg_", extras), extras)
            frames += message.open()
        self._held, self._item = None, message
        if isinstance(block, Opaque):
            return frames + message.write_part(dict(block.value))
        self._refused |= isinstance(block, Refusal)
        frames += message.open_part("refusal" if isinstance(block, Refusal) else "output_text")
        return frames + (message.write_text(block.text) if block.text else ())

    def _open_carrier(self, block: Reasoning) -> Frames:
        self._item = None
        if block.seal is not None:
            self._keep_seal(build_sealed_item(block, block.seal))
        return ()

    def _open_reasoning(self, block: Reasoning) -> Frames:
        extras = self._extras(block)
        raw = self._own and block.raw
        thought = ReasoningEmitter(
            self._events, len(self._output), self._make_id("rs_", extras), extras, raw=raw
        )
        self._item = thought
        thought.seal, thought.redacted, thought.is_foreign = block.seal, block.redacted, not self._own
        thought.with_seal = self._with_seals
        frames = [thought.open()]
        frames += [thought.write_thought(number, text) for number, text in enumerate(block.parts) if text]
        return join_frames(frames)

    def _open_call(self, block: ToolCall) -> Frames:
        call = CALL_OF_KIND[block.kind]
        extras = self._extras(block)
        item = CallEmitter(self._events, len(self._output), self._make_id(call.prefix, extras), extras, call)
        item.is_foreign = not self._own
        item.named = {"call_id": self._make_call_id(block.id)}
        if not call.name:
            item.named["name"] = block.name
        if block.namespace:
            item.named["namespace"] = block.namespace
        self._item = item
        if block.seal is not None:
            self._keep_seal(SealedItem(kind="call", seal=block.seal, call_id=str(item.named["call_id"])))
        return item.open() + (item.write_text(block.arguments) if block.arguments else ())

    def _make_call_id(self, call_id: str) -> str:
        """A unique `call_id` in this reply, because clients match results and items by it."""
        wanted = call_id or self._ids.make("call_")
        number = 2
        while wanted in self._call_ids:
            wanted = f"{call_id}_{number}"
            number += 1
        self._call_ids.add(wanted)
        return wanted

    def _write_whole(self, block: AnyBlock) -> Frames:
        """Write a complete block: an item of this dialect, or a web search of another."""
        self._item = None
        item = write_hosted(block) if self._own else None
        if item is None and isinstance(block, HostedCall) and block.tool == "web_search":
            item_id = self._ids.adopt("ws_", block.id)
            action = build_search_action(block.arguments)
            item = {"id": item_id, "type": "web_search_call", "status": COMPLETED, "action": action}
        if item is None:
            if not (self._own and isinstance(block, HostedResult) and block.form == FOLLOWS):
                self._audience.losses.add(block.at, f"OpenAI Responses cannot show {UNSHOWN[type(block)]}")
            return ()
        item = add_required(item)
        kind = str(item.get("type"))
        item_id = self._make_id(PREFIXES.get(kind, ""), item)
        whole = WholeItemEmitter(self._events, len(self._output), item_id, {})
        steps = STEPS.get(kind, ())
        if item.get("status") == "failed":
            steps = (*steps[:-1], "failed") if kind.startswith("mcp_") else steps[:-1]
        frames = whole.emit(item, steps)
        self._output.append(whole.final)
        return frames

    # Deltas

    def _on_reasoning(self, event: ReasoningDelta) -> Frames:
        item = self._item
        return item.write_thought(event.part, event.text) if isinstance(item, ReasoningEmitter) else ()

    def _on_seal(self, seal: Seal) -> None:
        item = self._item
        if isinstance(item, ReasoningEmitter):
            item.seal = seal
        elif isinstance(item, CallEmitter):
            self._keep_seal(SealedItem(kind="call", seal=seal, call_id=str(item.named["call_id"])))
        elif isinstance(self._block, Reasoning):
            self._keep_seal(build_sealed_item(self._block, seal))
        else:
            self._keep_seal(SealedItem(kind="text", seal=seal))

    def _keep_seal(self, carried: SealedItem) -> None:
        if self._with_seals:
            self._carried.append(carried)

    def _on_citation(self, citation: Citation) -> Frames:
        item = self._item
        frames = item.cite(citation, own=self._own) if isinstance(item, MessageEmitter) else ()
        if frames is None:
            self._audience.losses.add("", "OpenAI Responses cannot cite a source that has no address")
            return ()
        return frames

    def _on_close(self, event: BlockClosed) -> Frames:
        item, block = self._item, self._block
        self._item = self._block = None
        if item is None or block is None:
            return () if self._held is not None else self._write_seals()
        extras: Extras = event.extras if self._own else {}
        if isinstance(item, MessageEmitter):
            return self._close_message(item, block, extras)
        if isinstance(item, CallEmitter) and not self._own:
            self._held = item
            return ()
        return self._end(item, extras or find_start_fields(item))

    def _close_message(self, item: MessageEmitter, block: AnyBlock, extras: Extras) -> Frames:
        rest = dict(extras)
        last = rest.pop(ITEM, None)
        frames = () if isinstance(block, Opaque) else item.close_part(rest)
        if not self._own or (ITEM in block.extras and last is None):
            self._held = item
            return frames
        return frames + self._end(item, last if isinstance(last, dict) else find_start_fields(item))

    def _end(self, item: GrowingItemEmitter, extras: Extras) -> Frames:
        frames = item.close(extras)
        self._output.append(item.final)
        return frames + self._write_seals()

    def _close_held(self, *, cut: bool = False) -> Frames:
        """Close the held item. `cut`: the reply ended because of a limit, so the item is incomplete."""
        held, self._held = self._held, None
        if held is None:
            return ()
        if not cut or (isinstance(held, CallEmitter) and self._carried):
            return self._end(held, find_start_fields(held))
        if self._carried:
            # An incomplete item is the last one, so no item with its seal can follow.
            self._carried = []
            self._audience.losses.add("", "the seal of a text that was cut short")
        return self._end(held, {**find_start_fields(held), "status": INCOMPLETE})

    def _write_explanation(self, event: ReplyFinished) -> Frames:
        """Write the explanation of a refusal as a refusal part."""
        if event.cause != "refusal" or not event.explanation:
            return ()
        self._refused = True
        message = self._held
        frames: Frames = ()
        if not isinstance(message, MessageEmitter):
            frames = self._close_held()
            message = MessageEmitter(self._events, len(self._output), self._make_id("msg_", {}), {})
            frames += message.open()
        self._held = message
        return (
            frames
            + message.open_part("refusal")
            + message.write_text(event.explanation)
            + message.close_part({})
        )

    def _write_seals(self) -> Frames:
        """Write the seals of a call or text as a reasoning item after it, which clients send back."""
        if not self._carried:
            return ()
        envelope = write_envelope(self._carried)
        self._carried = []
        carrier = ReasoningEmitter(self._events, len(self._output), self._make_id("rs_", {}), {}, raw=False)
        frames = carrier.write_envelope_item(envelope)
        self._output.append(carrier.final)
        return frames


def find_start_fields(item: GrowingItemEmitter) -> Extras:
    """The fields of an added item that stay valid at its end."""
    return {name: value for name, value in item.extras.items() if name != "status"}
