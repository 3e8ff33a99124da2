"""Errors that a client receives because of its key or its limits, and the texts of amounts.

`InvalidKey` 401, `ModelForbidden` 403, `PriceUnknown` 403, `LimitReached` 429, `StateUnavailable` 503.
"""

import math
from datetime import UTC, datetime

from dragoman.accounts.limits import LimitRefusal, Unit
from dragoman.hub.errors import DragomanError, Failure

#: Seconds. Clients block for the whole of a longer wait, or stop without an error message.
MAX_RETRY_AFTER = 30.0
MICRO = 1_000_000
#: Characters of the client's model name, and number of patterns, in an error message.
MAX_QUOTED = 200
MAX_LISTED = 20


class InvalidKey(DragomanError):
    """The key is missing, unknown, revoked, expired or replaced."""

    kind = "authentication"
    default_status = 401
    default_code = "invalid_api_key"


class ModelForbidden(DragomanError):
    """The key does not allow the requested model."""

    kind = "permission"
    default_status = 403
    default_code = "model_not_allowed"


class PriceUnknown(DragomanError):
    """The key has a budget of money and the price of the model is unknown."""

    kind = "permission"
    default_status = 403
    default_code = "price_unknown"


class StateUnavailable(DragomanError):
    """The state file cannot be read or written."""

    kind = "overloaded"
    default_status = 503


class UncertainWrite(StateUnavailable):
    """The state did not answer whether it has written."""


class LimitReached(DragomanError):
    """A limit refuses the request."""


def build_model_error(key_name: str, model: str, patterns: tuple[str, ...]) -> ModelForbidden:
    """The error for a model that the key does not allow, with the patterns that it allows."""
    allowed = ", ".join(patterns[:MAX_LISTED])
    message = f"the key {key_name!r} may not use the model {model[:MAX_QUOTED]!r}; it may use: {allowed}"
    return ModelForbidden(
        message,
        failure=Failure(
            kind="permission", status=403, message=message, code="model_not_allowed", param="model"
        ),
    )


def build_limit_error(key_name: str, refusal: LimitRefusal, now: float) -> LimitReached:
    failure = _build_limit_failure(key_name, refusal, now)
    return LimitReached(failure.message, failure=failure)


def build_outage_error(wait: float) -> LimitReached:
    """A key with a budget is refused while the shared state does not answer: the budget cannot be checked."""
    failure = Failure(
        kind="rate_limit",
        status=429,
        message="the gateway cannot check the budget of this key at the moment; try again",
        code="budget_unknown",
        retry_after=wait,
    )
    return LimitReached(failure.message, failure=failure)


def _build_limit_failure(key_name: str, refusal: LimitRefusal, now: float) -> Failure:
    limit = f"{format_amount(refusal.unit, refusal.limit)} per {refusal.period}"
    if refusal.is_spent:
        renewal = datetime.fromtimestamp(round(now + refusal.wait), UTC)
        message = (
            f"the key {key_name!r} has used up its budget of {limit}; "
            f"the next one begins on {renewal:%Y-%m-%d at %H:%M} UTC"
        )
        return Failure(kind="quota", status=429, message=message, code="budget_spent")
    if refusal.period == "minute":
        message = f"the key {key_name!r} may use {limit}; try again in {math.ceil(refusal.wait)} s"
    else:
        message = (
            f"the rest of the budget of the key {key_name!r} ({limit}) is reserved "
            "for its open requests; try again when one of them has ended"
        )
    return Failure(
        kind="rate_limit",
        status=429,
        message=message,
        # OpenAI has one error type for requests and one for tokens. The other dialects ignore it.
        raw_type=refusal.unit,
        retry_after=min(refusal.wait, MAX_RETRY_AFTER),
    )


def format_amount(unit: Unit, amount: int) -> str:
    """Format an amount for a message: `1,000 tokens`, `$2.50`."""
    if unit == "cost":
        return format_dollars(amount)
    return f"{amount:,} {unit if amount != 1 else unit[:-1]}"


def format_dollars(micro: int) -> str:
    """Micro-dollars as dollars: at least two decimals, more only if they are not zero."""
    text = f"{micro / MICRO:,.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${whole}.{part:0<2}"
