"""The sending side of an exchange: heads, streams, pings, whole replies and errors, in the legal order.

Three facts decide what can still be sent. `is_committed`: the head is out, so the status is fixed.
`is_target_fixed`: content is out, so no other target can take over. `_is_ended`: nothing can follow.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from dragoman.accounts.limits import BudgetUse, RateLimitStatus, find_deciding_budget
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.pings import WAITING_PING
from dragoman.dialects.rate_limits import PARTS, BudgetStanding, RateLimitValue, write_rate_limits
from dragoman.exchange.client import Client, DirectConnection
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.tap import ExchangeTap
from dragoman.exchange.watchdog import Watchdog
from dragoman.hub.errors import Failure, FailureKind
from dragoman.pipeline.transports import JSON_HEADERS
from dragoman.routing.retry import concerns_session
from dragoman.wire.sse import Output

#: Seconds. Clients really sleep through a longer `retry-after`, or give up without an explanation.
MAX_WAIT = 30.0

_NO_RETRY = {"x-should-retry": "false"}

#: Failures that the same request meets again after any wait. Not `invalid_request`: Claude Code repeats a
#: refused request without the part that it takes for the cause.
_FINAL: frozenset[FailureKind] = frozenset(
    {
        "authentication",
        "billing",
        "permission",
        "not_found",
        "too_large",
        "quota",
        "unreachable",
        "misconfigured",
    }
)


def advise_retry(failure: Failure, dialect: Dialect, agent: str = "") -> tuple[Failure, dict[str, str]]:
    """The failure with a wait that clients accept, and the headers that control their retries.

    Some agents get it with another status, so that they show its message.
    """
    wait = failure.retry_after
    is_long = wait is not None and wait > MAX_WAIT
    if is_long:
        message = f"{failure.message} (the upstream asks to wait {wait:.0f} s)"
        failure = msgspec.structs.replace(failure, message=message, retry_after=MAX_WAIT)
    headers = dialect.error_headers(failure)
    if is_long or failure.kind in _FINAL or concerns_session(failure):
        headers |= _NO_RETRY
    return dialect.http_api.adapt_failure(failure, agent), headers


class ResponseSender:
    """Sends one response. Streams use `send` and `finish`; `respond` and `refuse` send whole responses.

    `settle` completes the record. It is called before the end of the response is sent.
    """

    is_committed = False
    is_target_fixed = False
    _is_ended = False
    #: The last of the sends that run in their own tasks: a ping, or output of `send_soon`. Nothing else may
    #: be sent before it is out.
    _sending: asyncio.Task[None] | None = None
    #: Rate-limit headers of the client's own key.
    _key_limits: Mapping[str, str] = MappingProxyType({})
    #: Headers about the budget of the client's key, for replies only. With an error of another cause Claude
    #: Code would report a spent budget.
    _budget: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        dialect: Dialect,
        client: Client,
        record: ExchangeRecord,
        watchdog: Watchdog,
        settle: Callable[[], None],
    ) -> None:
        self._dialect = dialect
        self._client = client
        self._record = record
        self._watchdog = watchdog
        self._settle = settle
        # Google's SDKs take a stream that ends well for complete, even if it contains an error.
        self._aborts_failed = dialect.http_api.must_abort_failed_stream(record.agent)

    @property
    def direct(self) -> DirectConnection | None:
        """The connection for pieces of a stream that need not be waited for; None if there is none."""
        return self._client.direct

    def set_limits(
        self, rate_limits: Sequence[RateLimitStatus], budgets: Sequence[BudgetUse], now: float
    ) -> None:
        """Report the limits of the client's key in the response headers. `now` is the date."""
        http_api = self._dialect.http_api
        values = (
            RateLimitValue(status.unit, part, getattr(status, part))
            for status in rate_limits
            for part in PARTS
        )
        self._key_limits = write_rate_limits(values, http_api.rate_limits, now)
        budget = find_deciding_budget(budgets)
        if budget is not None:
            standing = BudgetStanding(budget.period, budget.share, budget.is_spent, budget.reset)
            headers = http_api.write_budget(standing, now)
            if budget.is_spent:
                self._key_limits = {**self._key_limits, **headers}
            else:
                self._budget = headers

    def tap_client(self, tap: ExchangeTap) -> None:
        """Let the tap see what is sent. Called before anything is sent, or not at all."""
        self._client = tap.wrap_client(self._client)

    async def send(self, output: Output) -> None:
        """Send a part of a stream."""
        if self._sending is not None:
            await self._wait_for_sending(self._sending)
        self._watchdog.is_sending = True
        if not self.is_committed:
            await self._commit()
        self.is_target_fixed = True
        await self._client.send(output)
        self._watchdog.is_sending = False
        self._watchdog.has_sent = True

    async def finish(self, output: Output, *, failed: bool = False) -> None:
        """Send the end of a stream. Only the first call has an effect."""
        if self._is_ended:
            return
        if self._sending is not None:
            await self._wait_for_sending(self._sending)
        self._watchdog.is_sending = True
        if not self.is_committed:
            await self._commit()
        self._is_ended = True
        self._settle()
        if failed and self._aborts_failed:
            await self._client.send(output)
            self._client.abort()
        else:
            if self._record.tap is not None and (kept := self._record.tap.keep_turn(output)) is not None:
                await kept
            await self._client.end(output)
        self._watchdog.is_sending = False

    async def respond(self, body: bytes) -> None:
        """Send a whole reply."""
        self.is_committed = self.is_target_fixed = self._is_ended = True
        await self._respond(200, {**JSON_HEADERS, **self._limit_headers()}, body)

    async def refuse(self, failure: Failure) -> None:
        """Send an error in the client's dialect, with its true status."""
        self.is_committed = self._is_ended = True
        failure, headers = advise_retry(failure, self._dialect, self._record.agent)
        body = self._client.transport.encode_error(self._dialect.write_error(failure))
        status = self._dialect.error_status(failure)
        await self._respond(status, {**JSON_HEADERS, **self._key_limits, **headers}, body)

    def abort(self) -> None:
        """Close the connection to a client that accepts nothing any more."""
        self._is_ended = True
        self._client.abort(at_once=True)

    def close(self) -> None:
        """The exchange is over: stop a send that is still running."""
        self._is_ended = True
        # It refers to the exchange, which is freed sooner without a cycle.
        del self._settle
        if self._sending is not None:
            self._sending.cancel()

    def ping(self) -> None:
        """Start to send a ping, unless something else is being sent."""
        if self._is_ended or self._watchdog.is_sending or self._sending is not None:
            return
        self._sending = asyncio.get_running_loop().create_task(self._ping())

    def send_soon(self, output: Output) -> None:
        """Write or schedule output from code that is no coroutine. Only after the first content."""
        if self._is_ended:
            return
        self._watchdog.has_sent = True
        direct = self.direct
        if direct is not None:
            if data := direct.encode(output):
                direct.write(data)
        else:
            self._sending = asyncio.get_running_loop().create_task(self._send_after(self._sending, output))

    async def _send_after(self, before: asyncio.Task[None] | None, output: Output) -> None:
        if before is not None:
            await asyncio.wait((before,))
        await self._client.send(output)
        self._forget_send()

    def _forget_send(self) -> None:
        """Clear `_sending` at the end of the current task, unless a later send has taken its place."""
        if self._sending is asyncio.current_task():
            self._sending = None

    async def _ping(self) -> None:
        # The reply may have ended meanwhile; then even its head may be missing.
        if not self._is_ended:
            if not self.is_committed:
                await self._commit(is_waiting=True)
            await self._client.ping(
                self._dialect.stream_writer.ping if self.is_target_fixed else WAITING_PING
            )
        self._forget_send()

    @staticmethod
    async def _wait_for_sending(sending: asyncio.Task[None]) -> None:
        """Wait for a send that is running. Then `is_sending` keeps others from starting."""
        # The waiting task may be cancelled, to send something else; the send itself goes on.
        await asyncio.wait((sending,))

    async def _commit(self, *, is_waiting: bool = False) -> None:
        """Send the head of a stream. Called unless `is_committed`: most sends need no coroutine for it."""
        self.is_committed = True
        self._record.status = 200
        headers = self._record.headers(is_waiting=is_waiting)
        limits = self._limit_headers(is_waiting=is_waiting)
        await self._client.start(200, {**headers, **self._client.transport.headers, **limits})

    def _limit_headers(self, *, is_waiting: bool = False) -> Mapping[str, str]:
        """The key's rate-limit headers if it has limits, else the upstream's, once its reply has begun."""
        return {**self._key_limits, **self._budget} or ({} if is_waiting else self._record.upstream_limits)

    async def _respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        if self._sending is not None:
            await self._wait_for_sending(self._sending)
        self._watchdog.is_sending = True
        self._record.status = status
        self._settle()
        size = {"content-length": str(len(body))}
        headers = {**headers, **self._record.headers(), **size}
        if self._record.tap is not None and (kept := self._record.tap.keep_turn(body, headers)) is not None:
            await kept
        await self._client.respond(status, headers, body)
        self._watchdog.is_sending = False
