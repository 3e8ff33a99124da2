"""Writes a stream of the toy API."""

from typing import assert_never

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.hub.blocks import Refusal, ReplyBlock, Text, ToolCall
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
from dragoman.hub.usage import Usage
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames, join_frames
from tests.toy_dialect.errors import write_error

ENDS = {"tool_calls": "calls", "length": "limit", "context_window": "limit"}


class ToyStreamWriter:
    ping = b'data: {"ping":true}\n\n'

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._usage = Usage()

    def write_run(self, run: DeltaRun) -> Frames:
        return join_frames(map(self.write, run.expand()))

    def write(self, event: ReplyEvent) -> Frames:
        match event:
            case ReplyStarted():
                reply_id = self._context.ids.adopt("toy_", event.id)
                return _frame({"begin": {"id": reply_id, "model": self._context.model or event.model}})
            case BlockOpened():
                return self._open(event.block)
            case TextDelta():
                return _frame({"text": event.text}) if event.text else ()
            case ArgumentsDelta():
                return _frame({"input": event.text}) if event.text else ()
            case UsageReported():
                self._usage = self._usage.merge(event.usage)
                return ()
            case ReplyFinished():
                usage = {"in": self._usage.input or 0, "out": self._usage.output or 0}
                return _frame({"end": ENDS.get(event.cause, "done"), "usage": usage})
            case ReplyFailed():
                return _frame(write_error(event.failure))
            case ReasoningDelta() | SealAttached() | CitationAdded() | BlockClosed():
                return ()
            case _:
                assert_never(event)

    def _open(self, block: ReplyBlock) -> Frames:
        match block:
            case ToolCall():
                opened = _frame({"call": {"id": block.id, "tool": block.name}})
                return opened + (_frame({"input": block.arguments}) if block.arguments else ())
            case Text() | Refusal():
                return _frame({"text": block.text}) if block.text else ()
            case _:
                self._context.losses.add("", f"the toy API has no {type(block).__name__.lower()}")
                return ()


def _frame(payload: Json) -> Frames:
    return (Frame("", encode(payload)),)
