"""The stages of a reply whose request has tools of the gateway."""

import re
from collections.abc import Mapping, Sequence

from dragoman.governance.call_queue import CallQueueStage, HeldCall, replace
from dragoman.hub.blocks import Citation, Text, ToolCall
from dragoman.hub.events import DELTAS, BlockClosed, BlockOpened, CitationAdded, ReplyEvent, TextDelta
from dragoman.hub.rounds import WithheldCall

#: Characters of arguments that may wait at a time. A longer call is cut and fails.
MAX_ARGUMENTS = 1024 * 1024

#: Characters of a quotation in a citation.
MAX_QUOTE = 150

_MARK = re.compile(r"\[(\d{1,3})\]")


class GatewayCallStage(CallQueueStage):
    """Withholds the calls of the gateway's own tools. `names`: the functions, as the model knows them."""

    def __init__(self, names: Mapping[str, object], max_rounds: int) -> None:
        super().__init__(MAX_ARGUMENTS)
        self._names = names
        self.withheld: tuple[WithheldCall, ...] = ()
        self.max_rounds = max_rounds

    def write_stop(self) -> list[str]:
        # The client knows nothing of these tools, so it does not get their names.
        return [
            "[The gateway stopped here: the limit for its own tools is reached. Another message goes on.]"
        ]

    def must_wait(self, call: ToolCall) -> bool:
        return call.name in self._names

    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        if held.call.name not in self._names:
            return held.events
        if not held.is_closed and not is_full:
            return None
        self.withheld = (*self.withheld, WithheldCall(held.whole))
        return []


class CitationStage:
    """Adds a citation to a text for each mark such as `[2]` that names a source of an earlier result."""

    unchanged_kinds: frozenset[type] = DELTAS - {TextDelta}

    def __init__(self, sources: Sequence[Citation]) -> None:
        self._sources = sources
        self._texts: dict[int, list[str]] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case BlockOpened(index, Text(text=text)):
                self._texts[index] = [text]
            case TextDelta(index, text):
                if index in self._texts:
                    self._texts[index].append(text)
            case BlockClosed(index):
                return [*self._cite(index), event]
        return [event]

    def _cite(self, index: int) -> list[ReplyEvent]:
        text = "".join(self._texts.pop(index, ()))
        found: list[ReplyEvent] = []
        start = 0
        for mark in _MARK.finditer(text):
            number = int(mark[1]) - 1
            if 0 <= number < len(self._sources):
                source = self._sources[number]
                found.append(CitationAdded(index, _place(source, start, mark.end())))
            start = mark.end()
        return found


def _place(source: Citation, start: int, end: int) -> Citation:
    return replace(source, quote=source.quote[:MAX_QUOTE], start=start, end=end)
