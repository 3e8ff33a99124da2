"""`TrialContext`: what the trials and the calls of one exchange share."""

from collections.abc import Callable
from typing import NamedTuple

from dragoman.accounts.keys import Caller
from dragoman.config.provider import TargetName
from dragoman.exchange.config_snapshot import ConfigSnapshot
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.healer import RequestHealer
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.sender import ResponseSender
from dragoman.exchange.target_requests import TargetRequestBuilder
from dragoman.exchange.tools import ExchangeTools
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import ClientProtocolError
from dragoman.pipeline.plan import RequestPlan
from dragoman.pipeline.target_request import TargetRequest
from dragoman.routing.choose import RouteChoice


class TrialContext(NamedTuple):
    """What the trials and the calls of one exchange share."""

    gateway: Gateway
    snapshot: ConfigSnapshot
    plan: RequestPlan
    caller: Caller
    choice: RouteChoice
    #: The number of the session, which a route keeps at its target.
    session: int
    sender: ResponseSender
    watchdog: Watchdog
    record: ExchangeRecord
    healer: RequestHealer
    builder: TargetRequestBuilder
    tools: ExchangeTools | None
    #: The event loop's clock, by which every time of an exchange is measured.
    timer: Callable[[], float]
    #: The request for each target, or the error that forbids to send it there.
    requests: dict[TargetName, TargetRequest | ClientProtocolError]

    async def find_request(self, target: TargetName) -> TargetRequest | ClientProtocolError:
        """The request for a target, which is built once."""
        found = self.requests.get(target)
        if found is None:
            found = self.requests[target] = await self.builder.build(target, self.choice)
        return found
