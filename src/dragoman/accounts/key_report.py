"""The report about a client key for `dragoman keys --json` and the admin API."""

from dragoman.accounts.errors import MICRO
from dragoman.accounts.keys import ClientKey
from dragoman.accounts.limits import Account, Amount, Limits


def describe_key(key: ClientKey, held: Account, now: float) -> dict[str, object]:
    """The JSON form of a key: times in seconds since the epoch, money in dollars."""
    caller = key.caller
    return {
        "name": caller.name,
        "id": caller.id,
        "prefix": key.prefix,
        "state": find_key_state(key, now),
        "created": key.created,
        "expires": caller.expires or None,
        "revoked": key.revoked or None,
        "models": caller.models,
        "limits": {field: _read_limit(caller.limits, field) for field in Limits.__struct_fields__},
        "used": {period: _describe_amount(amount) for period, amount in held.used.items()},
        "reserved": {period: _describe_amount(amount) for period, amount in held.reserved.items()},
    }


def find_key_state(key: ClientKey, now: float) -> str:
    """`revoked`, `expired` or `valid`."""
    if key.revoked:
        return "revoked"
    return "expired" if key.caller.expires and now >= key.caller.expires else "valid"


def _read_limit(limits: Limits, field: str) -> float | None:
    """The limit in the unit of its option; None if there is none."""
    value: int = getattr(limits, field)
    return (value / MICRO if field.startswith("cost") else value) or None


def _describe_amount(amount: Amount) -> dict[str, float]:
    return {"tokens": amount.tokens, "cost_usd": amount.cost / MICRO}
