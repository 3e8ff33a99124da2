"""Whole replies: `fold` builds a reply from events, `unfold` gives events that fold to the same reply."""

from collections.abc import Iterable, Iterator
from io import StringIO
from typing import assert_never

import msgspec

from dragoman.hub.blocks import (
    Citation,
    Extras,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    TokenLogprob,
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
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as one value. `ending` is None only while events are missing."""

    started: ReplyStarted | None = None
    blocks: tuple[ReplyBlock, ...] = ()
    usage: Usage | None = None
    ending: ReplyFinished | ReplyFailed | None = None


class _OpenBlock:
    """An open block and the deltas for it so far."""

    __slots__ = ("block", "citations", "parts", "seal", "texts")

    def __init__(self, block: ReplyBlock) -> None:
        self.block = block
        self.texts = StringIO()
        self.parts: dict[int, StringIO] = {}
        self.citations: list[Citation] = []
        self.seal: Seal | None = None

    def build(self, extras: Extras, logprobs: tuple[TokenLogprob, ...] = ()) -> ReplyBlock:
        """The block with its deltas, and with the extras and tokens of its close."""
        block = self.block
        if extras:
            block = msgspec.structs.replace(block, extras={**block.extras, **extras})
        match block:
            case Text():
                return msgspec.structs.replace(
                    block,
                    text=block.text + self.texts.getvalue(),
                    citations=(*block.citations, *self.citations),
                    seal=self.seal or block.seal,
                    logprobs=(*block.logprobs, *logprobs),
                )
            case Refusal():
                return msgspec.structs.replace(block, text=block.text + self.texts.getvalue())
            case Reasoning():
                parts = tuple(self.parts[number].getvalue() for number in sorted(self.parts))
                return msgspec.structs.replace(block, parts=block.parts + parts, seal=self.seal or block.seal)
            case ToolCall():
                return msgspec.structs.replace(
                    block, arguments=block.arguments + self.texts.getvalue(), seal=self.seal or block.seal
                )
            case Media() | HostedCall() | HostedResult() | Opaque():
                return block
            case _:
                assert_never(block)


class ReplyFolder:
    """Folds events one by one; `reply()` is the reply so far, open blocks included."""

    def __init__(self) -> None:
        self._started: ReplyStarted | None = None
        self._blocks: dict[int, ReplyBlock | _OpenBlock] = {}
        self._usage: Usage | None = None
        self._ending: ReplyFinished | ReplyFailed | None = None

    def feed(self, event: ReplyEvent) -> None:
        """Add the next event of the reply."""
        match event:
            case TextDelta() | ArgumentsDelta():
                self._find_open(event.index).texts.write(event.text)
            case ReasoningDelta():
                self._find_open(event.index).parts.setdefault(event.part, StringIO()).write(event.text)
            case BlockOpened():
                self._blocks[event.index] = _OpenBlock(event.block)
            case BlockClosed():
                opened = self._find_open(event.index)
                self._blocks[event.index] = opened.build(event.extras, event.logprobs)
            case SealAttached():
                self._find_open(event.index).seal = event.seal
            case CitationAdded():
                self._find_open(event.index).citations.append(event.citation)
            case UsageReported():
                self._usage = self._usage.merge(event.usage) if self._usage else event.usage
            case ReplyStarted():
                self._started = event
            case ReplyFinished() | ReplyFailed():
                self._ending = event
            case _:
                assert_never(event)

    def _find_open(self, index: int) -> _OpenBlock:
        block = self._blocks.get(index)
        if not isinstance(block, _OpenBlock):
            raise UpstreamProtocolError(f"block {index} is not open")
        return block

    def reply(self) -> Reply:
        blocks = (self._blocks[index] for index in sorted(self._blocks))
        return Reply(
            started=self._started,
            blocks=tuple(b.build({}) if isinstance(b, _OpenBlock) else b for b in blocks),
            usage=self._usage,
            ending=self._ending,
        )


def fold(events: Iterable[ReplyEvent]) -> Reply:
    """The reply that the events describe."""
    folder = ReplyFolder()
    for event in events:
        folder.feed(event)
    return folder.reply()


def unfold(reply: Reply) -> Iterator[ReplyEvent]:
    """Events that fold to this reply: each block opens empty and gets its content in one delta."""
    if reply.started:
        yield reply.started
    for index, block in enumerate(reply.blocks):
        yield from _unfold_block(index, block)
        yield BlockClosed(index, logprobs=block.logprobs if isinstance(block, Text) else ())
    if reply.usage:
        yield UsageReported(reply.usage)
    if reply.ending:
        yield reply.ending


def _unfold_block(index: int, block: ReplyBlock) -> Iterator[ReplyEvent]:
    replace = msgspec.structs.replace
    match block:
        case Text():
            yield BlockOpened(index, replace(block, text="", citations=(), seal=None, logprobs=()))
            if block.text:
                yield TextDelta(index, block.text)
            for citation in block.citations:
                yield CitationAdded(index, citation)
        case Refusal():
            yield BlockOpened(index, replace(block, text=""))
            if block.text:
                yield TextDelta(index, block.text)
        case Reasoning():
            yield BlockOpened(index, replace(block, parts=(), seal=None))
            for part, text in enumerate(block.parts):
                yield ReasoningDelta(index, text, part)
        case ToolCall():
            yield BlockOpened(index, replace(block, arguments="", seal=None))
            if block.arguments:
                yield ArgumentsDelta(index, block.arguments)
        case Media() | HostedCall() | HostedResult() | Opaque():
            yield BlockOpened(index, block)
        case _:
            assert_never(block)
    seal = getattr(block, "seal", None)
    if isinstance(seal, Seal):
        yield SealAttached(index, seal)
