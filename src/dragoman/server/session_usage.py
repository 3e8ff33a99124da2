"""`GET /session`: what the session that the request's headers name has used. For status lines of agents."""

from dragoman.accounts.errors import MICRO
from dragoman.accounts.keys import Caller
from dragoman.accounts.limits import BudgetUse, find_deciding_budget
from dragoman.accounts.session_limits import SessionUse
from dragoman.agents import ClientIdentity
from dragoman.config.config import Config
from dragoman.dialects.interfaces import Json
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.sessions import build_session_key

_NOTHING = SessionUse()


async def build_session_body(gateway: Gateway, caller: Caller, identity: ClientIdentity) -> Json:
    """The sums of the session, the model that answers it, and the budget of the key that decides."""
    key = build_session_key(caller, identity)
    use = (gateway.sessions.find(key) if key else None) or _NOTHING
    budget = None
    if caller.limits.has_any:
        budget = find_deciding_budget((await gateway.accounts.read_standing(caller)).budgets)
    return {
        "session": identity.session,
        "requests": use.requests,
        "target": use.target,
        "context": use.context,
        "context_window": _find_window(gateway.config, use.target),
        "input": use.input,
        "cache_read": use.cache_read,
        # None: no model of the session has a known price.
        "cost_usd": None if use.unpriced and not use.used.cost else use.used.cost / MICRO,
        "key": caller.name,
        "budget": _write_budget(budget) if budget else None,
    }


def _find_window(config: Config, target: str) -> int | None:
    provider, _, model = target.partition("/")
    found = config.providers.get(provider)
    return found.build_profile(model).facts.context_tokens if found else None


def _write_budget(budget: BudgetUse) -> Json:
    in_dollars = budget.unit == "cost"
    return {
        "unit": "dollars" if in_dollars else budget.unit,
        "period": budget.period,
        "limit": budget.limit / MICRO if in_dollars else budget.limit,
        "used": budget.used / MICRO if in_dollars else budget.used,
    }
