"""Stop sequences that the target does not watch for: the text ends before the first one that is complete.

Only what may be the beginning of a stop sequence is held back. After the cut nothing new begins; calls
that were under way are let finish, and usage still counts.
"""

from dragoman.fit.editing import replace
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.content import Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    SealAttached,
    TextDelta,
    UsageReported,
)

_INDEXED = (TextDelta, ArgumentsDelta, ReasoningDelta, SealAttached, CitationAdded, BlockClosed)


class StopsStage:
    #: A cut can come with any text, and changes what becomes of everything after it.
    passes: frozenset[type] = frozenset()

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._longest = max(map(len, stops))
        self._by_first: dict[str, list[str]] = {}
        for stop in stops:
            self._by_first.setdefault(stop[0], []).append(stop)
        #: What is held back of each open text.
        self._held: dict[int, str] = {}
        #: Other blocks that are open.
        self._others: set[int] = set()
        self._calls = False
        self._hit: str | None = None

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if self._hit is not None:
            return self._after_the_cut(event, self._hit)
        if type(event) is TextDelta and event.index in self._held:
            return self._watched(event.index, event.text)
        if type(event) is BlockOpened:
            return self._opened(event)
        if type(event) is BlockClosed:
            self._others.discard(event.index)
            return [*_delta(event.index, self._held.pop(event.index, "")), event]
        if type(event) is ReplyFailed:
            held = [delta for index, text in self._held.items() for delta in _delta(index, text)]
            return [*held, event]
        return [event]

    def _opened(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        if type(block) is not Text:
            self._others.add(event.index)
            self._calls |= type(block) is ToolCall
            return [event]
        self._held[event.index] = ""
        if not block.text:
            return [event]
        opened = BlockOpened(event.index, replace(block, text=""))
        return [opened, *self._watched(event.index, block.text)]

    def _watched(self, index: int, text: str) -> list[ReplyEvent]:
        text = self._held[index] + text
        found = self._first_complete(text)
        if found is None:
            safe = self._safe_length(text)
            self._held[index] = text[safe:]
            return _delta(index, text[:safe])
        start, self._hit = found
        del self._held[index]
        events = [*_delta(index, text[:start]), BlockClosed(index)]
        for other, held in self._held.items():
            events += [*_delta(other, held), BlockClosed(other)]
        return events

    def _first_complete(self, text: str) -> tuple[int, str] | None:
        """Where the stop sequence begins that ends first, and which it is; the longest, if two end there."""
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
                best = (start + len(stop), start, stop)
        return None if best is None else best[1:]

    def _safe_length(self, text: str) -> int:
        """How much of the text cannot be the beginning of a stop sequence."""
        for position in range(max(0, len(text) - self._longest + 1), len(text)):
            candidates = self._by_first.get(text[position])
            if candidates:
                tail = text[position:]
                if any(stop.startswith(tail) for stop in candidates):
                    return position
        return len(text)

    def _after_the_cut(self, event: ReplyEvent, hit: str) -> list[ReplyEvent]:
        if type(event) is UsageReported:
            return [event]
        if isinstance(event, _INDEXED):
            if event.index not in self._others:
                return []
            if type(event) is BlockClosed:
                self._others.discard(event.index)
            return [event]
        if type(event) is ReplyFinished:
            return [self._finished(hit)]
        if type(event) is ReplyFailed:
            # All that the client asked for had come, unless a call was still under way.
            whole = event.ending != "cancelled" and not self._others
            return [self._finished(hit) if whole else event]
        return []

    def _finished(self, hit: str) -> ReplyFinished:
        cause = reconcile_cause("stop_sequence", has_calls=self._calls)
        return ReplyFinished(cause=cause, stop_sequence=hit if cause == "stop_sequence" else None)


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [TextDelta(index, text)] if text else []
