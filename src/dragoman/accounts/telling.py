"""What a caller is told when a limit stops it: which one, and when to come back."""

import math
from datetime import UTC, datetime

from dragoman.accounts.caller import Caller
from dragoman.accounts.decide import Refusal, Room, Unit
from dragoman.hub.errors import DragomanError, Failure

#: Seconds. Clients sleep through a wait that is longer, or give up on it without a word.
LONGEST_TOLD = 30.0
MICRO = 1_000_000


class LimitReached(DragomanError):
    """`rooms` goes into the headers of dialects that have some."""

    def __init__(self, failure: Failure, rooms: tuple[Room, ...]) -> None:
        super().__init__(failure.message, failure=failure)
        self.rooms = rooms


def limit_reached(caller: Caller, refusal: Refusal, now: float) -> LimitReached:
    return LimitReached(_failure(caller, refusal, now), refusal.rooms)


def _failure(caller: Caller, refusal: Refusal, now: float) -> Failure:
    limit = f"{amount_text(refusal.of, refusal.limit)} per {refusal.period}"
    if refusal.spent:
        renewed = datetime.fromtimestamp(round(now + refusal.wait), UTC)
        message = (
            f"the key {caller.name!r} has used up its budget of {limit}; "
            f"the next one begins on {renewed:%Y-%m-%d at %H:%M} UTC"
        )
        return Failure(kind="quota", status=429, message=message, code="budget_spent")
    if refusal.period == "minute":
        wait = math.ceil(refusal.wait)
        message = f"the key {caller.name!r} may use {limit}; try again in {wait} s"
    else:
        message = (
            f"what is left of the budget of the key {caller.name!r} ({limit}) is set aside "
            "for its requests that are under way; try again when one has ended"
        )
    return Failure(
        kind="rate_limit",
        status=429,
        message=message,
        # OpenAI has types of its own for these two; the others pass it by.
        raw_type=refusal.of,
        retry_after=min(refusal.wait, LONGEST_TOLD),
    )


def amount_text(of: Unit, amount: int) -> str:
    """`1,000 tokens`, `$2.50`."""
    if of == "cost":
        return dollars(amount)
    return f"{amount:,} {of if amount != 1 else of[:-1]}"


def dollars(micro: int) -> str:
    """Cents where there is nothing smaller, otherwise every digit."""
    text = f"{micro / MICRO:,.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${whole}.{part:0<2}"
