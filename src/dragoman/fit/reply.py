"""The way back: the stages that turn a reply to the fitted request into a reply to the client's own request.

Each stage takes grammatical events and gives grammatical events, however the reply is cut into pieces. A
`Restoration` is computed from the client's request and the target alone, before the reply arrives.
"""

import msgspec

from dragoman.fit.arguments import ArgumentsStage
from dragoman.fit.editing import is_foreign, iter_calls
from dragoman.fit.ids import IdsStage
from dragoman.fit.names import ClientToolName, NameMap, NamesStage, TargetToolName, build_name_map
from dragoman.fit.seals import SealsStage
from dragoman.fit.stops import StopsStage, find_watched_stops
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import TargetFacts


class ClientTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the client's dialect that the stages depend on; see `dialects.dialect.Dialect`."""

    seals_on_calls: bool
    object_arguments: bool


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages must undo. `names`: the tools that the client knows by another name or kind."""

    foreign: bool
    names: dict[TargetToolName, ClientToolName] = {}
    #: Free-text tools are sent wrapped in an object, so their calls come back wrapped.
    unwraps: bool = False
    #: Call ids that the client already uses.
    taken_ids: frozenset[str] = frozenset()
    #: Stop sequences that the target does not look for.
    stops: tuple[str, ...] = ()


def build_restoration(request: Request, target: TargetFacts, names: NameMap | None = None) -> Restoration:
    """What the reply stages must undo. `request` is the client's request before `fit`.

    `names`: the map of the request's tools, if it is known.
    """
    return Restoration(
        foreign=is_foreign(request, target),
        names=(names or build_name_map(request, target)).restored_names,
        unwraps=not target.custom_tools,
        taken_ids=frozenset(
            () if target.repeated_calls else [call.id for call in iter_calls(request.messages)]
        ),
        stops=find_watched_stops(request, target),
    )


def build_reply_stages(
    restoration: Restoration, *, client: ClientTraits, losses: Losses | None = None
) -> list[Stage]:
    """The stages that this reply needs, in their order; none if it can stay as it is.

    Ids come first: a seal that travels beside a call names the call's id. Stops come before seals: what is
    cut off must not be sealed. Arguments come last, on the calls as the client sees them.
    """
    stages: list[Stage] = []
    if restoration.foreign:
        stages.append(IdsStage(restoration.taken_ids))
    if restoration.names:
        stages.append(NamesStage(restoration.names, unwraps=restoration.unwraps))
    if restoration.stops:
        stages.append(StopsStage(restoration.stops))
    if restoration.foreign and not client.seals_on_calls:
        stages.append(SealsStage())
    if client.object_arguments:
        stages.append(ArgumentsStage(Losses() if losses is None else losses))
    return stages
