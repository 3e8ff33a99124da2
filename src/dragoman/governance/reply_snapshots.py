"""`snapshots`: the blocks of a reply before governance and after it, up to a limit."""

from typing import Literal, assert_never

import msgspec

from dragoman.hub.blocks import HostedCall, HostedResult, Media, Opaque, Reasoning, Refusal, Text, ToolCall
from dragoman.hub.events import (
    DELTAS,
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

#: Characters and blocks that are kept of each side.
MAX_CHARACTERS = 64 * 1024
MAX_BLOCKS = 500

_KEPT_DELTAS = frozenset({TextDelta, ReasoningDelta, ArgumentsDelta})


class SnapshotBlock(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One block. `is_cut`: its text is longer than what is kept. `is_open`: the reply ended inside it."""

    kind: Literal["text", "reasoning", "call", "other"]
    name: str = ""
    call_id: str = ""
    text: str = ""
    is_cut: bool = False
    is_open: bool = True


class ReplySnapshot(msgspec.Struct, kw_only=True):
    """The reply before or after governance: its blocks, and how it ended."""

    blocks: list[SnapshotBlock] = []
    ending: str = ""
    left_out: int = 0


class SnapshotPair:
    """The snapshots of one reply, before and after governance."""

    def __init__(self) -> None:
        self.before = ReplySnapshot()
        self.after = ReplySnapshot()


class SnapshotStage:
    """Returns every event unchanged and adds it to the snapshot, up to the limits."""

    unchanged_kinds = DELTAS - _KEPT_DELTAS

    def __init__(self, side: ReplySnapshot) -> None:
        self._side = side
        self._room = MAX_CHARACTERS
        self._open: dict[int, tuple[SnapshotBlock, list[str]]] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case TextDelta() | ReasoningDelta() | ArgumentsDelta():
                self._add(event.index, event.text)
            case BlockOpened():
                self._open_block(event)
            case BlockClosed():
                self._close_block(event.index)
            case ReplyFinished() | ReplyFailed():
                for index in list(self._open):
                    self._close_block(index, is_open=True)
                self._side.ending = event.cause if isinstance(event, ReplyFinished) else event.ending
            case ReplyStarted() | SealAttached() | CitationAdded() | UsageReported():
                pass
            case _:
                assert_never(event)
        return [event]

    def _open_block(self, event: BlockOpened) -> None:
        if len(self._side.blocks) >= MAX_BLOCKS:
            self._side.left_out += 1
            return
        match event.block:
            case Text(text=text):
                seen, begun = SnapshotBlock(kind="text"), text
            case Reasoning(parts=parts):
                seen, begun = SnapshotBlock(kind="reasoning"), "".join(parts)
            case ToolCall(name=name, id=call_id, arguments=arguments):
                seen, begun = SnapshotBlock(kind="call", name=name[:200], call_id=call_id[:200]), arguments
            case Refusal() | Media() | HostedCall() | HostedResult() | Opaque():
                seen, begun = SnapshotBlock(kind="other", name=type(event.block).__name__), ""
            case _:
                assert_never(event.block)
        self._side.blocks.append(seen)
        self._open[event.index] = (seen, [])
        self._add(event.index, begun)

    def _add(self, index: int, text: str) -> None:
        entry = self._open.get(index)
        if entry is None or not text:
            return
        seen, pieces = entry
        kept = text[: self._room]
        self._room -= len(kept)
        seen.is_cut |= len(kept) < len(text)
        if kept:
            pieces.append(kept)

    def _close_block(self, index: int, *, is_open: bool = False) -> None:
        entry = self._open.pop(index, None)
        if entry is not None:
            seen, pieces = entry
            seen.text = "".join(pieces)
            seen.is_open = is_open
