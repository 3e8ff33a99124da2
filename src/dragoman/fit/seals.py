"""Seals: they go back to their issuer only, and reasoning goes only where its seal goes.

In a request, reasoning that cannot be sent is removed and never turned into text: models take such text for
their own answer. Targets that require the reasoning of earlier messages get its text without the seal.
Otherwise the removed reasoning is reported as a loss, unless it had no text and represented none. A call or a
text that loses a foreign seal lost nothing that the target could read, so that is no loss.

In a reply, a client may have no place for the seal of a call or a text. Such a seal travels in a reasoning
block of its own without text, whose form (`hub.seal`) names what it belongs to: the call that follows, or the
text before. A seal that comes after the opening of its call travels behind the call.
"""

from collections.abc import Iterator
from typing import assert_never

from dragoman.fit.editing import edit_messages, is_foreign, replace, replace_messages
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.events import (
    EVENT_KINDS,
    REPLY_KINDS,
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
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, list_blocks
from dragoman.hub.seal import CALL_CARRIER, TEXT_CARRIER, Seal
from dragoman.providers.profile import TargetFacts

#: The issuer of seals that their own vendor refused.
REFUSED = "(refused)"


def fit_seals(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Remove seals, and reasoning, that the target does not accept."""
    if not _may_have_seals(request):
        return request
    foreign = is_foreign(request, target)

    def edit(block: AnyBlock, message: Message) -> AnyBlock | tuple[AnyBlock, ...]:
        match block:
            case Reasoning():
                is_accepted = belongs(block.seal, request, target) if block.seal else not foreign
                if is_accepted:
                    return block
                if block.text and target.replay_reasoning and message.role == "assistant":
                    return block if block.seal is None else replace(block, seal=None, form="", extras={})
                if block.text or block.redacted:
                    losses.add(block.at, "reasoning cannot go to another model")
                return ()
            case Text() | ToolCall() if block.seal is not None and not belongs(block.seal, request, target):
                is_carrier = type(block) is Text and not block.text
                return () if is_carrier else replace(block, seal=None)
            case Text() | ToolCall() | Refusal() | Media() | ToolReference() | ToolDeclarations():
                return block
            case ToolResult() | HostedCall() | HostedResult() | Opaque():
                return block
            case _:
                assert_never(block)

    after = edit_messages(request, edit, inside_results=False)
    return after if after is request else _remove_emptied_messages(after, request)


def list_seals(request: Request) -> Iterator[Seal]:
    """All seals in the conversation."""
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, (Reasoning, Text, ToolCall)) and block.seal is not None:
                yield block.seal


def hash_seal(seal: Seal) -> str:
    """A short hash of a seal, under which its refusal is stored."""
    return digest(seal.value)


def mark_refused_seals(request: Request, refused: frozenset[str]) -> Request:
    """Give the seals with these hashes an issuer that no target has: `fit_seals` then removes them.

    A vendor may refuse its own seal: it was made with another account, or belongs to another conversation.
    """

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        if not isinstance(block, (Reasoning, Text, ToolCall)) or block.seal is None:
            return block
        is_refused = hash_seal(block.seal) in refused
        return replace(block, seal=replace(block.seal, issuer=REFUSED)) if is_refused else block

    return edit_messages(request, edit, inside_results=False)


def _may_have_seals(request: Request) -> bool:
    """Whether the conversation holds reasoning or a seal."""
    for block in list_blocks(request.messages):
        if type(block) is Text or type(block) is ToolCall:
            if block.seal is not None:
                return True
        elif type(block) is Reasoning:
            return True
    return False


def _remove_emptied_messages(after: Request, before: Request) -> Request:
    """Remove messages that lost all their blocks; messages that the client sent empty stay."""
    kept = [
        message
        for message, was in zip(after.messages, before.messages, strict=True)
        if message.blocks or not was.blocks
    ]
    return replace_messages(after, kept)


def belongs(seal: Seal, request: Request, target: TargetFacts) -> bool:
    """Whether the target issued this seal, for the model of this request."""
    model = target.model or request.model
    return seal.issuer == target.issuer and seal.model in ("", model)


#: What passes while no block has another number.
_NOT_SEALED: frozenset[type] = EVENT_KINDS - {SealAttached, BlockOpened, BlockClosed}


class SealsStage:
    """Moves seals of calls and texts into reasoning blocks, and renumbers the blocks that follow."""

    def __init__(self) -> None:
        self._next = 0
        self.unchanged_kinds: frozenset[type] = _NOT_SEALED
        #: The new number of each open block.
        self._numbers: dict[int, int] = {}
        #: By block: the ids of open calls, the seals of open texts.
        self._calls: dict[int, str] = {}
        self._texts: dict[int, Seal | None] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case BlockOpened():
                return self._open(event)
            case BlockClosed():
                return self._close(event)
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | CitationAdded():
                return [self._renumber(event)]
            case SealAttached():
                return self._attach(event)
            case ReplyStarted() | UsageReported() | ReplyFinished() | ReplyFailed():
                return [event]
            case _:
                assert_never(event)

    def _open(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        if type(block) is ToolCall:
            self._calls[event.index] = block.id
            if block.seal is None:
                return [self._number(event)]
            bare = BlockOpened(event.index, replace(block, seal=None))
            return [*self._write_carrier(block.seal, CALL_CARRIER + block.id), self._number(bare)]
        if type(block) is Text:
            self._texts[event.index] = block.seal
            if block.seal is not None:
                event = BlockOpened(event.index, replace(block, seal=None))
        return [self._number(event)]

    def _attach(self, event: SealAttached) -> list[ReplyEvent]:
        if event.index in self._texts:
            self._texts[event.index] = event.seal
            return []
        call_id = self._calls.get(event.index)
        if call_id is None:
            return [self._renumber(event)]
        return self._write_carrier(event.seal, CALL_CARRIER + call_id)

    def _close(self, event: BlockClosed) -> list[ReplyEvent]:
        self._calls.pop(event.index, None)
        seal = self._texts.pop(event.index, None)
        number = self._numbers.pop(event.index)
        closed = event if number == event.index else replace(event, index=number)
        return [closed, *(self._write_carrier(seal, TEXT_CARRIER) if seal else ())]

    def _number(self, event: BlockOpened) -> BlockOpened:
        number = self._numbers[event.index] = self._next
        self._next += 1
        return event if number == event.index else BlockOpened(number, event.block)

    def _write_carrier(self, seal: Seal, form: str) -> list[ReplyEvent]:
        number = self._next
        self._next += 1
        self.unchanged_kinds = REPLY_KINDS
        return [BlockOpened(number, Reasoning(seal=seal, form=form)), BlockClosed(number)]

    def _renumber(
        self, event: TextDelta | ArgumentsDelta | ReasoningDelta | CitationAdded | SealAttached
    ) -> ReplyEvent:
        number = self._numbers[event.index]
        return event if number == event.index else replace(event, index=number)
