"""Stop sequences: those that the target accepts are sent, the others are looked for in the reply.

The reply's text then ends before the first stop sequence that is complete. Only text that may be the
beginning of a stop sequence is held back. After the cut no new block is opened; open calls are completed, and
usage is still reported.
"""

from typing import assert_never

from dragoman.fit.editing import replace
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.builder import reconcile_cause
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
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts

#: Every piece of text is searched for each of them. No vendor accepts as many.
MAX_STOPS = 64


def fit_stops(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Keep the stop sequences that the target accepts; `find_watched_stops` covers the others."""
    accepted = _find_accepted(request, target)
    if accepted == request.stop:
        return request
    if len(request.stop) > MAX_STOPS:
        losses.add(request.path_of("stop"), f"only the first {MAX_STOPS} stop sequences are watched for")
    return replace(request, stop=accepted)


def find_watched_stops(request: Request, target: TargetFacts) -> tuple[str, ...]:
    """The stop sequences to look for in the reply.

    None if the target accepts all of them. Otherwise all, also those that the target looks for itself.
    """
    if _find_accepted(request, target) == request.stop:
        return ()
    return tuple(stop for stop in request.stop if stop)[:MAX_STOPS]


def _find_accepted(request: Request, target: TargetFacts) -> tuple[str, ...]:
    stop = request.stop
    if not target.blank_text and any(not text.strip() for text in stop):
        stop = tuple(text for text in stop if text.strip())
    return stop if len(stop) <= target.stop_limit else stop[: target.stop_limit]


class StopsStage:
    """Cuts a reply at the first complete stop sequence."""

    #: None: a cut can come with any text, and changes what becomes of all events after it.
    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._longest = max(map(len, stops))
        self._by_first: dict[str, list[str]] = {}
        for stop in stops:
            self._by_first.setdefault(stop[0], []).append(stop)
        #: The text that is held back of each open text block.
        self._held: dict[int, str] = {}
        #: The open blocks of other kinds.
        self._others: set[int] = set()
        self._has_calls = False
        self._hit: str | None = None

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if self._hit is not None:
            return self._feed_after_cut(event, self._hit)
        if type(event) is TextDelta and event.index in self._held:
            return self._search(event.index, event.text)
        if type(event) is BlockOpened:
            return self._open(event)
        if type(event) is BlockClosed:
            self._others.discard(event.index)
            return [*_delta(event.index, self._held.pop(event.index, "")), event]
        if type(event) is ReplyFailed:
            held = [delta for index, text in self._held.items() for delta in _delta(index, text)]
            return [*held, event]
        return [event]

    def _open(self, event: BlockOpened) -> list[ReplyEvent]:
        block = event.block
        if type(block) is not Text:
            self._others.add(event.index)
            self._has_calls |= type(block) is ToolCall
            return [event]
        self._held[event.index] = ""
        if not block.text:
            return [event]
        opened = BlockOpened(event.index, replace(block, text=""))
        return [opened, *self._search(event.index, block.text)]

    def _search(self, index: int, text: str) -> list[ReplyEvent]:
        text = self._held[index] + text
        found = self._find_first(text)
        if found is None:
            safe = self._find_safe_length(text)
            self._held[index] = text[safe:]
            return _delta(index, text[:safe])
        start, self._hit = found
        del self._held[index]
        events = [*_delta(index, text[:start]), BlockClosed(index)]
        for other, held in self._held.items():
            events += [*_delta(other, held), BlockClosed(other)]
        return events

    def _find_first(self, text: str) -> tuple[int, str] | None:
        """The stop sequence that ends first and where it begins; of two that end together, the longer."""
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
                best = (start + len(stop), start, stop)
        return None if best is None else best[1:]

    def _find_safe_length(self, text: str) -> int:
        """How many characters at the beginning cannot be the beginning of a stop sequence."""
        for position in range(max(0, len(text) - self._longest + 1), len(text)):
            candidates = self._by_first.get(text[position])
            if candidates:
                tail = text[position:]
                if any(stop.startswith(tail) for stop in candidates):
                    return position
        return len(text)

    def _feed_after_cut(self, event: ReplyEvent, hit: str) -> list[ReplyEvent]:
        match event:
            case UsageReported():
                return [event]
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | SealAttached() | CitationAdded():
                return [event] if event.index in self._others else []
            case BlockClosed():
                is_open = event.index in self._others
                self._others.discard(event.index)
                return [event] if is_open else []
            case ReplyFinished():
                return [self._finish(hit)]
            case ReplyFailed():
                # The client has all that it asked for, unless a call is still open.
                is_complete = event.ending != "cancelled" and not self._others
                return [self._finish(hit) if is_complete else event]
            case ReplyStarted() | BlockOpened():
                return []
            case _:
                assert_never(event)

    def _finish(self, hit: str) -> ReplyFinished:
        cause = reconcile_cause("stop_sequence", has_calls=self._has_calls)
        return ReplyFinished(cause=cause, stop_sequence=hit if cause == "stop_sequence" else None)


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [TextDelta(index, text)] if text else []
