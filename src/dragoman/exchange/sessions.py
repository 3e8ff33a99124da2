"""Adds finished exchanges to the totals of their sessions, and refuses requests over a session limit.

The totals and the limits are those of `accounts.session_limits`.
"""

from functools import partial

import msgspec

from dragoman.accounts.estimates import build_amount
from dragoman.accounts.keys import Caller
from dragoman.accounts.session_limits import (
    SessionBook,
    SessionExchange,
    SessionKey,
    check_repeated_calls,
    check_session,
    collect_session_limits,
)
from dragoman.agents import ClientIdentity
from dragoman.config.agents import SessionLimits
from dragoman.config.config import Config, Route
from dragoman.exchange.large_bodies import run_by_size
from dragoman.exchange.record import ExchangeRecord
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.plan import RequestPlan


def build_session_key(caller: Caller, identity: ClientIdentity) -> SessionKey | None:
    """The key of the session; None if the client names none."""
    return SessionKey(caller.owner, identity.agent, identity.session) if identity.session else None


def count_session(book: SessionBook, record: ExchangeRecord) -> None:
    """Add an exchange that has ended to its session."""
    identity, used, cost = record.identity, record.used, record.cost
    if not identity.session or record.target is None:
        return
    book.add(
        SessionKey(record.caller.owner, identity.agent, identity.session),
        SessionExchange(
            identity.sub_agent,
            build_amount(used, cost or 0),
            cost is not None,
            used.input or 0,
            used.cache_read or 0,
            record.kind.target,
        ),
    )


def find_session_limits(config: Config, route: Route) -> SessionLimits:
    """The limits of the sessions that use this route."""
    limits = config.session_limits
    return msgspec.structs.replace(limits, **route.session_limits) if route.session_limits else limits


async def check_session_limits(
    limits: SessionLimits, book: SessionBook, plan: RequestPlan, record: ExchangeRecord
) -> None:
    """Raise `SessionStopped` if a limit of the session refuses the request."""
    identity = record.identity
    key = build_session_key(record.caller, identity)
    if key is not None:
        found = collect_session_limits(limits, record.caller)
        check_session(found, book.find(key), identity.agent, identity.sub_agent)
    if limits.repeated_calls:
        await run_by_size(plan.body, partial(_check_calls, plan, limits.repeated_calls))


def _check_calls(plan: RequestPlan, limit: int) -> None:
    try:
        request = plan.request
    except DragomanError:
        # Whether the request can be sent at all is decided for each target.
        return
    check_repeated_calls(request, limit)
