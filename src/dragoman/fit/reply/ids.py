"""Call ids that the client can carry on, new to the conversation, and that lead back to the upstream's."""

from dragoman.fit.editing import replace
from dragoman.fit.ids import ClientIds
from dragoman.hub.content import ToolCall
from dragoman.hub.events import DELTAS, BlockOpened, ReplyEvent


class IdsStage:
    __slots__ = ("_ids",)

    passes = DELTAS

    def __init__(self, taken: frozenset[str]) -> None:
        self._ids = ClientIds(taken)

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            call_id = self._ids.client_id(event.block.id)
            if call_id != event.block.id:
                return [BlockOpened(event.index, replace(event.block, id=call_id))]
        return [event]
