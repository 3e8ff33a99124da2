"""What one exchange may use, before; and what it has used, after, however it ended.

The key's terms are those of the moment when the exchange begins, not of when its connection did.
"""

from collections.abc import Sequence

from dragoman.accounts.caller import ANYONE, check_model
from dragoman.accounts.decide import Amount, Refusal, Room
from dragoman.accounts.settling import (
    BYTES_PER_TOKEN,
    DEFAULT_OUTPUT,
    Outcome,
    amount_of,
    at_most,
    longest_answer,
    really_used,
)
from dragoman.accounts.telling import limit_reached
from dragoman.config.model import TargetName
from dragoman.exchange.ask import Ask
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.journey import Journey
from dragoman.exchange.record import Record
from dragoman.exchange.view import View
from dragoman.hub.errors import DragomanError
from dragoman.hub.usage import Usage
from dragoman.storage.spending import Reservation, Wish
from dragoman.storage.usage import Counts
from dragoman.tokens.families import family_of
from dragoman.tokens.request import guessed_tokens

#: What of a model's name is filed.
MAX_NAME = 200


class NoPrice(DragomanError):
    kind = "permission"
    default_status = 403
    default_code = "price_unknown"


class Bill:
    """One exchange's. `rooms` is what the client may know of its limits per minute."""

    def __init__(self, gateway: Gateway, view: View, ask: Ask) -> None:
        self._gateway = gateway
        self._view = view
        self._caller = ask.caller
        #: The prompt's tokens; a rough number until somebody has counted them.
        self._input = len(ask.body) // BYTES_PER_TOKEN
        self._reservation: Reservation | None = None
        self._is_refused = False
        self.rooms: tuple[Room, ...] = ()

    async def check(self, model: str) -> None:
        """Raise unless the caller may ask for this model."""
        if self._caller is ANYONE:
            return
        self._is_refused = True
        self._caller = await self._gateway.keyring.renewed(self._caller)
        check_model(self._caller, model)
        self._is_refused = False

    async def reserve(self, journey: Journey, targets: Sequence[TargetName]) -> None:
        """Set aside what the request may use with any of these; raise if a limit forbids it."""
        caller = self._caller
        if not caller.limits.has_any:
            return
        self._is_refused = True
        most, least = self._expected(journey, targets)
        wish = Wish(key=caller.id, limits=caller.limits, most=most, least=least)
        outcome = await self._gateway.meter.admit(wish)
        self.rooms = outcome.rooms
        if isinstance(outcome, Refusal):
            raise limit_reached(caller, outcome, self._gateway.clock())
        self._reservation = outcome
        self._is_refused = False

    def close(self, record: Record, heard: int) -> None:
        """Settle what was set aside and file the rest; `heard` is how many bytes of a reply came."""
        used = really_used(self._outcome(record, heard))
        target = record.target
        cost = self._view.prices.cost(target, used) if target else None
        record.used, record.cost = used, cost
        if self._reservation is not None:
            self._gateway.meter.settle(self._reservation, amount_of(used, cost or 0))
        self._gateway.meter.count(
            self._caller.id,
            target.provider if target else "",
            _filed(target.model) if target else "",
            self._counts(record, used, cost or 0),
            settled=self._reservation is not None,
        )

    def _expected(self, journey: Journey, targets: Sequence[TargetName]) -> tuple[Amount, Amount]:
        """The most that the request may use, and what it has used as soon as it was sent."""
        if not self._caller.limits.counts_tokens:
            return Amount(), Amount()
        self._input, output = self._counted(journey, targets[0])
        sent = Usage(input=self._input, output=0)
        answered = Usage(input=at_most(self._input), output=output)
        return (
            amount_of(answered, max(self._priced(target, answered) for target in targets)),
            amount_of(sent, max(self._priced(target, sent) for target in targets)),
        )

    def _counted(self, journey: Journey, target: TargetName) -> tuple[int, int]:
        """The tokens of the prompt, and those that the answer may have."""
        try:
            request = journey.request
        except DragomanError:
            # Perhaps its own kind of upstream understands it; that is decided elsewhere.
            return self._input, DEFAULT_OUTPUT
        provider = self._view.config.providers[target.provider]
        tokens = guessed_tokens(request, family_of(target.model, provider.wire_dialect))
        most = provider.profile(target.model).max_output_tokens
        return tokens, longest_answer(request.max_tokens, request.candidates, most)

    def _priced(self, target: TargetName, usage: Usage) -> int:
        if not self._caller.limits.counts_cost:
            return 0
        cost = self._view.prices.cost(target, usage)
        if cost is None:
            raise NoPrice(
                f"the key {self._caller.name!r} has a budget of money, and nobody knows what {target} costs",
                hint=f"state price_input and price_output for it, in [providers.{target.provider}.models]",
            )
        return cost

    def _outcome(self, record: Record, heard: int) -> Outcome:
        tally = record.tally
        finished = record.ending == "finished"
        answered = finished or (tally is not None and tally.has_content)
        return Outcome(
            usage=tally.usage if tally else None,
            input=self._input,
            was_accepted=answered or (record.is_cancelled and record.tries > 0),
            finished=finished,
            earlier_input=record.earlier_input,
            heard=heard,
            stream=self._view.config.providers[record.target.provider].wire_dialect
            if record.stream and record.target
            else "",
        )

    def _counts(self, record: Record, used: Usage, cost: int) -> Counts:
        failed = record.ending in ("failed", "truncated") and not self._is_refused
        return Counts(
            requests=1,
            failures=int(failed),
            refused=int(self._is_refused),
            input=(used.input or 0) + (used.tool_input or 0),
            cache_read=used.cache_read or 0,
            cache_write=used.cache_write or 0,
            output=used.output or 0,
            reasoning=used.reasoning or 0,
            cost=cost,
        )


def _filed(name: str) -> str:
    """A name that clients made up, as text that any file can hold."""
    return name[:MAX_NAME].encode("utf-8", "replace").decode()
