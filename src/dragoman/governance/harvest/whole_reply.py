"""`WholeHarvestStage`: harvests calls from the text of a reply that is not streamed.

Some servers read the calls out of a text and leave the text as it was. So calls are harvested only if the
server made none.
"""

from collections.abc import Callable

from dragoman.governance.harvest.stage import HarvestStage
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import BlockOpened, ReplyEvent, ReplyFailed, ReplyFinished


class WholeHarvestStage:
    """Harvests a reply that is not streamed.

    `make` builds the `HarvestStage`. Its argument: whether calls are harvested, not only reasoning.
    """

    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self, make: Callable[[bool], HarvestStage]) -> None:
        self._make = make
        self._events: list[ReplyEvent] = []

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        """Collect the events. Returns none before the last event, and all of them with it."""
        self._events.append(event)
        if not isinstance(event, ReplyFinished | ReplyFailed):
            return []
        events, self._events = self._events, []
        harvest = self._make(not any(map(_opens_call, events)))
        return [after for each in events for after in harvest.feed(each)]


def _opens_call(event: ReplyEvent) -> bool:
    return type(event) is BlockOpened and type(event.block) is ToolCall
