"""Calls with the names, namespaces and kinds that the client declared.

The input of a free-text tool comes wrapped in an object; it is decoded as it arrives. Models that answer
with bare text, or under another key, are taken at their word.
"""

from collections.abc import Mapping

from dragoman.fit.editing import replace
from dragoman.fit.names import Known, WireName
from dragoman.fit.tools import INPUT
from dragoman.hub.content import ToolCall
from dragoman.hub.events import DELTAS, ArgumentsDelta, BlockClosed, BlockOpened, ReplyEvent
from dragoman.wire.partial_json import StringMember


class NamesStage:
    __slots__ = ("_inputs", "_names", "_unwraps")

    passes = DELTAS - {ArgumentsDelta}

    def __init__(self, names: Mapping[WireName, Known], *, unwraps: bool) -> None:
        self._names = names
        self._unwraps = unwraps
        self._inputs: dict[int, StringMember] = {}

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if type(event) is ArgumentsDelta:
            wrapped = self._inputs.get(event.index)
            return [event] if wrapped is None else _delta(event.index, wrapped.feed(event.text))
        if type(event) is BlockOpened and type(event.block) is ToolCall:
            return self._opened(event, event.block)
        if type(event) is BlockClosed and event.index in self._inputs:
            wrapped = self._inputs.pop(event.index)
            rest = wrapped.finish()
            return [*_delta(event.index, rest if wrapped.is_found else wrapped.raw), event]
        return [event]

    def _opened(self, event: BlockOpened, call: ToolCall) -> list[ReplyEvent]:
        known = self._names.get((call.namespace, call.name))
        if known is None:
            return [event]
        restored = replace(call, name=known.name, namespace=known.namespace, kind=known.kind)
        if known.kind != "custom" or call.kind == "custom" or not self._unwraps:
            return [BlockOpened(event.index, restored)]
        wrapped = self._inputs[event.index] = StringMember(INPUT)
        opened = BlockOpened(event.index, replace(restored, arguments=""))
        return [opened, *_delta(event.index, wrapped.feed(call.arguments))]


def _delta(index: int, text: str) -> list[ReplyEvent]:
    return [ArgumentsDelta(index, text)] if text else []
