"""What the way back must undo, computed from the client's request and the target alone."""

import msgspec

from dragoman.fit.editing import calls_of, is_foreign
from dragoman.fit.limits import watched_stops
from dragoman.fit.names import Known, WireName, name_map
from dragoman.hub.request import Request
from dragoman.providers.profile import Target


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """`names` has the tools whose calls must look different to the client than to the target."""

    foreign: bool
    names: dict[WireName, Known] = {}
    #: Free-text tools went out wrapped in an object and come back so.
    unwraps: bool = False
    #: Ids that the client already uses.
    taken_ids: frozenset[str] = frozenset()
    #: Stop sequences that the target does not watch for.
    stops: tuple[str, ...] = ()


def restoration(request: Request, target: Target) -> Restoration:
    """Takes the client's own request, not the fitted one."""
    known = name_map(request, target).known
    return Restoration(
        foreign=is_foreign(request, target),
        names={
            wire: tool
            for wire, tool in known.items()
            if wire != (tool.namespace, tool.name) or tool.kind != "function"
        },
        unwraps=not target.custom_tools,
        taken_ids=frozenset(() if target.repeated_calls else (call.id for call in calls_of(request.turns))),
        stops=watched_stops(request, target),
    )
