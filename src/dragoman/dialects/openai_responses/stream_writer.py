"""Writes hub events as this dialect's event stream.

The events come one block at a time. A block becomes one item; only this dialect's own messages have
several parts, and such an item stays open until its last part is told. An item made from another dialect's
block stays open until something follows it: if that is an end for want of room, the item was cut short.
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
    sound,
    spell_hosted,
    web_search_action,
)
from dragoman.dialects.openai_responses.ladders import (
    COMPLETED,
    INCOMPLETE,
    CallLadder,
    GrowingLadder,
    Ladder,
    MessageLadder,
    ReasoningLadder,
    WholeLadder,
)
from dragoman.dialects.openai_responses.reasoning import carried_by, is_carrier
from dragoman.dialects.openai_responses.reasons import reason_of, write_usage
from dragoman.dialects.openai_responses.response_object import ResponseObject
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_KIND, DONE, ENCRYPTED_REASONING, NAME
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

#: Blocks that only their own dialect can show.
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
        self._ladder = Ladder()
        self._response: ResponseObject | None = None
        self._output: list[bytes] = []
        # A count of our own: a reader that shares the audience's ids takes some whenever bytes arrive.
        self._ids = copy(audience.ids)
        self._item_ids: set[str] = set()
        self._call_ids: set[str] = set()
        self._block: AnyBlock | None = None
        self._item: GrowingLadder | None = None
        #: The last item, while it may get another part or turn out to be cut short.
        self._held: GrowingLadder | None = None
        self._carried: list[SealedItem] = []
        self._usage: Usage | None = None
        self._refused = False

    def write(self, event: ReplyEvent) -> Frames:
        match event:
            case TextDelta() | ArgumentsDelta():
                return self._item.text(event.text) if self._item is not None and event.text else ()
            case ReasoningDelta():
                return self._thought(event)
            case BlockOpened():
                return self._opened(event.block)
            case BlockClosed():
                return self._closed(event)
            case SealAttached():
                self._sealed(event.seal)
            case CitationAdded():
                return self._cited(event.citation)
            case UsageReported():
                self._usage = self._usage.merge(event.usage) if self._usage else event.usage
            case ReplyStarted():
                return self._started(event)
            case ReplyFinished():
                return self._finished(event)
            case ReplyFailed():
                return self._failed(event)
            case _:
                assert_never(event)
        return ()

    # Lifecycle

    def _started(self, event: ReplyStarted) -> Frames:
        response = self._response = ResponseObject(self._audience, event, self._ids)
        begun = response.render("in_progress")
        return self._lifecycle("response.created", begun) + self._lifecycle("response.in_progress", begun)

    def _lifecycle(self, kind: str, response: bytes) -> Frames:
        return self._ladder.frame(kind, b'"response":%b}' % response)

    def _finished(self, event: ReplyFinished) -> Frames:
        response = self._response or ResponseObject(self._audience, ReplyStarted(), self._ids)
        raw_cause = event.raw_cause if self._own else ""
        said = () if self._own or self._refused else self._explain(event)
        reason = reason_of(event.cause, raw_cause, refused=self._refused)
        said += self._let_go(cut=bool(reason) and not self._own)
        status = "incomplete" if reason else COMPLETED
        ended = response.render(
            status,
            output=b"[%b]" % b",".join(self._output),
            usage=write_usage(self._usage, self._audience.upstream),
            reason=reason,
            extras=event.extras,
        )
        return said + self._lifecycle(f"response.{status}", ended) + (Frame("", DONE),)

    def _failed(self, event: ReplyFailed) -> Frames:
        code, message = write_stream_error(event.failure, event.ending, own=self._own)
        said: Frames = ()
        error: Extras = {"code": code, "message": message, "param": event.failure.param or None}
        response = self._response
        if response is None:
            # Nothing was promised yet: the error is all there is to say, so it also comes as clients
            # get it with an HTTP status.
            response = ResponseObject(self._audience, ReplyStarted(), self._ids)
            said = self._lifecycle("response.created", response.render("in_progress"))
            error |= write_error(event.failure)
        if not self._own:
            said += self._let_go()
        output = list(self._output)
        item = self._item or self._held
        unfinished = item.snapshot() if item else None
        if unfinished is not None:
            output.append(encode(unfinished, blame=UpstreamProtocolError))
        said += self._ladder.event("error", error)
        ended = response.render(
            "failed",
            output=b"[%b]" % b",".join(output),
            usage=write_usage(self._usage, self._audience.upstream),
            error={"code": code, "message": message},
        )
        return said + self._lifecycle("response.failed", ended) + (Frame("", DONE),)

    # Blocks

    def _opened(self, block: AnyBlock) -> Frames:
        self._block = block
        if isinstance(block, Text | Refusal) or (
            isinstance(block, Opaque) and block.form == "part" and self._own
        ):
            return self._open_message(block)
        if isinstance(block, Reasoning) and is_carrier(block):
            return self._open_carrier(block)
        said = self._let_go()
        match block:
            case Reasoning():
                return said + self._open_reasoning(block)
            case ToolCall():
                return said + self._open_call(block)
            case _:
                return said + self._whole(block)

    def _id(self, prefix: str, extras: Extras) -> str:
        """An id that no other item of this stream has; this dialect's own ids are kept."""
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
        said: Frames = ()
        if self._own and isinstance(held, MessageLadder) and held.extras.get("id") == extras.get("id"):
            message = held
        else:
            said = self._let_go()
            message = MessageLadder(self._ladder, len(self._output), self._id("msg_", extras), extras)
            said += message.open()
        self._held, self._item = None, message
        if isinstance(block, Opaque):
            return said + message.whole_part(dict(block.value))
        self._refused |= isinstance(block, Refusal)
        said += message.open_part("refusal" if isinstance(block, Refusal) else "output_text")
        return said + (message.text(block.text) if block.text else ())

    def _open_carrier(self, block: Reasoning) -> Frames:
        self._item = None
        if block.seal is not None:
            self._carry(carried_by(block, block.seal))
        return ()

    def _open_reasoning(self, block: Reasoning) -> Frames:
        extras = self._extras(block)
        raw = self._own and block.raw
        thought = ReasoningLadder(self._ladder, len(self._output), self._id("rs_", extras), extras, raw=raw)
        self._item = thought
        thought.seal, thought.redacted, thought.is_foreign = block.seal, block.redacted, not self._own
        thought.with_seal = self._with_seals
        said = [thought.open()]
        said += [thought.thought(number, text) for number, text in enumerate(block.parts) if text]
        return join_frames(said)

    def _open_call(self, block: ToolCall) -> Frames:
        call = CALL_OF_KIND[block.kind]
        extras = self._extras(block)
        item = CallLadder(self._ladder, len(self._output), self._id(call.prefix, extras), extras, call)
        item.is_foreign = not self._own
        item.named = {"call_id": self._call_id(block.id)}
        if not call.name:
            item.named["name"] = block.name
        if block.namespace:
            item.named["namespace"] = block.namespace
        self._item = item
        if block.seal is not None:
            self._carry(SealedItem(kind="call", seal=block.seal, call_id=str(item.named["call_id"])))
        return item.open() + (item.text(block.arguments) if block.arguments else ())

    def _call_id(self, call_id: str) -> str:
        """Unique in this reply: clients match results, and whole items, by it."""
        wanted = call_id or self._ids.make("call_")
        number = 2
        while wanted in self._call_ids:
            wanted = f"{call_id}_{number}"
            number += 1
        self._call_ids.add(wanted)
        return wanted

    def _whole(self, block: AnyBlock) -> Frames:
        """Blocks that come complete: this dialect's own items again; of others', web searches."""
        self._item = None
        item = spell_hosted(block) if self._own else None
        if item is None and isinstance(block, HostedCall) and block.tool == "web_search":
            item_id = self._ids.adopt("ws_", block.id)
            action = web_search_action(block.arguments)
            item = {"id": item_id, "type": "web_search_call", "status": COMPLETED, "action": action}
        if item is None:
            if not (self._own and isinstance(block, HostedResult) and block.form == FOLLOWS):
                self._audience.losses.add(block.at, f"OpenAI Responses cannot show {UNSHOWN[type(block)]}")
            return ()
        item = sound(item)
        kind = str(item.get("type"))
        item_id = self._id(PREFIXES.get(kind, ""), item)
        whole = WholeLadder(self._ladder, len(self._output), item_id, {})
        steps = STEPS.get(kind, ())
        if item.get("status") == "failed":
            steps = (*steps[:-1], "failed") if kind.startswith("mcp_") else steps[:-1]
        said = whole.climb(item, steps)
        self._output.append(whole.final)
        return said

    # Deltas

    def _thought(self, event: ReasoningDelta) -> Frames:
        item = self._item
        return item.thought(event.part, event.text) if isinstance(item, ReasoningLadder) else ()

    def _sealed(self, seal: Seal) -> None:
        item = self._item
        if isinstance(item, ReasoningLadder):
            item.seal = seal
        elif isinstance(item, CallLadder):
            self._carry(SealedItem(kind="call", seal=seal, call_id=str(item.named["call_id"])))
        elif isinstance(self._block, Reasoning):
            self._carry(carried_by(self._block, seal))
        else:
            self._carry(SealedItem(kind="text", seal=seal))

    def _carry(self, carried: SealedItem) -> None:
        if self._with_seals:
            self._carried.append(carried)

    def _cited(self, citation: Citation) -> Frames:
        item = self._item
        said = item.cite(citation, own=self._own) if isinstance(item, MessageLadder) else ()
        if said is None:
            self._audience.losses.add("", "OpenAI Responses cannot cite a source that has no address")
            return ()
        return said

    def _closed(self, event: BlockClosed) -> Frames:
        item, block = self._item, self._block
        self._item = self._block = None
        if item is None or block is None:
            return () if self._held is not None else self._deliver()
        extras: Extras = event.extras if self._own else {}
        if isinstance(item, MessageLadder):
            return self._close_message(item, block, extras)
        if isinstance(item, CallLadder) and not self._own:
            self._held = item
            return ()
        return self._end(item, extras or settled(item))

    def _close_message(self, item: MessageLadder, block: AnyBlock, extras: Extras) -> Frames:
        rest = dict(extras)
        last = rest.pop(ITEM, None)
        said = () if isinstance(block, Opaque) else item.close_part(rest)
        if not self._own or (ITEM in block.extras and last is None):
            self._held = item
            return said
        return said + self._end(item, last if isinstance(last, dict) else settled(item))

    def _end(self, item: GrowingLadder, extras: Extras) -> Frames:
        said = item.close(extras)
        self._output.append(item.final)
        return said + self._deliver()

    def _let_go(self, *, cut: bool = False) -> Frames:
        """Nothing more comes for the held item. `cut`: nor did all that should have come."""
        held, self._held = self._held, None
        if held is None:
            return ()
        if not cut or (isinstance(held, CallLadder) and self._carried):
            return self._end(held, settled(held))
        if self._carried:
            # An item that was cut short is the last one, so nothing can follow it.
            self._carried = []
            self._audience.losses.add("", "the seal of a text that was cut short")
        return self._end(held, {**settled(held), "status": INCOMPLETE})

    def _explain(self, event: ReplyFinished) -> Frames:
        """The reason for a refusal, in the place that this dialect has for it."""
        if event.cause != "refusal" or not event.explanation:
            return ()
        self._refused = True
        message = self._held
        said: Frames = ()
        if not isinstance(message, MessageLadder):
            said = self._let_go()
            message = MessageLadder(self._ladder, len(self._output), self._id("msg_", {}), {})
            said += message.open()
        self._held = message
        return said + message.open_part("refusal") + message.text(event.explanation) + message.close_part({})

    def _deliver(self) -> Frames:
        """Seals that stood on a call or a text follow it, in the only field that clients echo."""
        if not self._carried:
            return ()
        envelope = write_envelope(self._carried)
        self._carried = []
        carrier = ReasoningLadder(self._ladder, len(self._output), self._id("rs_", {}), {}, raw=False)
        said = carrier.carry(envelope)
        self._output.append(carrier.final)
        return said


def settled(item: GrowingLadder) -> Extras:
    """What was said of an item at its beginning and still holds at its end."""
    return {name: value for name, value in item.extras.items() if name != "status"}
