"""The way back: stages that turn a reply to the fitted request into one to the client's own.

Each stage takes grammatical events and gives grammatical events, whatever pieces they come in.
"""

import msgspec

from dragoman.fit.reply.arguments import ArgumentsStage
from dragoman.fit.reply.ids import IdsStage
from dragoman.fit.reply.names import NamesStage
from dragoman.fit.reply.seals import SealsStage
from dragoman.fit.reply.stops import StopsStage
from dragoman.fit.restoration import Restoration
from dragoman.hub.loss import Losses
from dragoman.hub.stage import Stage


class ClientTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What matters here about the client's dialect; see `dialects.base.Dialect`."""

    seals_on_calls: bool
    object_arguments: bool


def reply_stages(
    restoration: Restoration, *, client: ClientTraits, losses: Losses | None = None
) -> list[Stage]:
    """The stages this reply needs, in their order; none if it can stay as it is.

    Ids come first because seals that travel beside a call name it; stops come before seals because what
    is cut off must not be vouched for; arguments come last, on the calls as the client will see them.
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
