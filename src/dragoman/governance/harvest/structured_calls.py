"""Text next to structured calls of the same reply: a call that the server made is not harvested as well.

Some servers read the calls out of a text and leave the text as it was. In a whole reply calls are harvested
only if the server made none. In a stream the text comes first and counts; a later call of the server that
equals a harvested one is dropped.
"""

from collections.abc import Callable

import msgspec

from dragoman.governance.call_queue import CallQueueStage, HeldCall
from dragoman.governance.harvest.stage import HarvestStage
from dragoman.governance.interventions import Intervention, Report
from dragoman.hub.content import ToolCall
from dragoman.hub.events import BlockOpened, ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.wire.partial_json import parse_object


class WholeHarvestStage:
    """For replies that are not streamed. `make` builds the stage: True for one that harvests calls."""

    passes: frozenset[type] = frozenset()

    def __init__(self, make: Callable[[bool], HarvestStage]) -> None:
        self._make = make
        self._events: list[ReplyEvent] = []

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Nothing until the reply ends, then all its events."""
        self._events.append(event)
        if not isinstance(event, ReplyFinished | ReplyFailed):
            return []
        events, self._events = self._events, []
        harvest = self._make(not any(map(_opens_call, events)))
        return [after for each in events for after in harvest.feed(each)]


class EchoStage(CallQueueStage):
    """Right behind the harvest of a stream. A call waits only if a call of its name was harvested."""

    def __init__(self, harvest: HarvestStage, report: Report, *, limit: int) -> None:
        super().__init__(limit)
        self._harvest = harvest
        self._report = report
        self._known = 0
        self._names: set[str] = set()
        #: The harvested calls by identity, because a server may use the same ids; and by content.
        self._own: set[int] = set()
        self._contents: set[tuple[str, bytes]] = set()

    def must_wait(self, call: ToolCall) -> bool:
        found = self._harvest.found
        for opened, arguments in found[self._known :]:
            self._own.add(id(opened))
            self._names.add(opened.name)
            self._contents.add(_content_of(opened.name, arguments))
        self._known = len(found)
        return call.name in self._names and id(call) not in self._own

    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        if is_full or not self.must_wait(held.call):
            return held.events
        if not held.is_closed:
            return None
        if _content_of(held.call.name, held.arguments) not in self._contents:
            return held.events
        self._report(Intervention(kind="dedupe", tool=held.call.name, detail=("text",), before=held.size))
        return []


def _opens_call(event: ReplyEvent) -> bool:
    return type(event) is BlockOpened and type(event.block) is ToolCall


def _content_of(name: str, arguments: str) -> tuple[str, bytes]:
    """A call's content, independent of how its JSON is written."""
    value = parse_object(arguments)
    if value is None:
        return name, arguments.encode("utf-8", "surrogatepass")
    return name, msgspec.json.encode(value, order="deterministic")
