"""Load balancing: the order of the targets of a route, and the targets for special failures.

`LoadBalancer` knows what the orders depend on: which target is next, how busy and how fast each is, and
which target a session uses. Pure: the clock and random numbers are arguments.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dragoman.config.config import Route
from dragoman.config.provider import TargetName
from dragoman.hub.errors import Failure
from dragoman.hub.events import ReplyFinished
from dragoman.hub.tally import Tally
from dragoman.hub.usage import Usage

#: Sessions and targets in memory. They are bounded because clients choose their names.
MAX_SESSIONS = 10_000
MAX_TARGETS = 1_000
#: The weight of the newest time in the mean of a target's times to the first word.
NEWEST = 0.3
#: The share of a prompt that a session's target is likely to have in its cache, and the answer's share of the
#: prompt, for estimates of the cost.
CACHED_SHARE = 0.9
ANSWER_SHARE = 0.1
#: The code of our failure for a reply in which the model refuses to answer.
MODEL_REFUSED = "model_refused"

#: The estimated cost of a request at a target in micro-dollars; None: unknown.
EstimateCost = Callable[[TargetName, Usage], int | None]


class LoadBalancer:
    """Orders targets by what one gateway has seen of them."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()
        self._open: Counter[TargetName] = Counter()
        self._first_words: dict[TargetName, float] = {}
        #: What other gateways have seen.
        self._hinted_words: Mapping[TargetName, float] = {}
        #: The target of each session in a route, and until when its prompt cache is likely to last.
        self._sessions: dict[tuple[str, int], tuple[TargetName, float]] = {}

    def start_call(self, target: TargetName) -> None:
        """Count a call that begins."""
        self._open[target] += 1

    def end_call(self, target: TargetName, first_word: float) -> None:
        """Count a call that has ended. `first_word`: seconds to its first content; 0 if there was none."""
        self._open[target] -= 1
        if self._open[target] <= 0:
            del self._open[target]
        if first_word > 0:
            earlier = self._first_words.pop(target, first_word)
            self._first_words[target] = earlier + NEWEST * (first_word - earlier)
            if len(self._first_words) > MAX_TARGETS:
                del self._first_words[next(iter(self._first_words))]

    def list_first_words(self) -> dict[TargetName, float]:
        """The mean seconds to the first word of the targets that this gateway has called."""
        return dict(self._first_words)

    def set_hints(self, first_words: Mapping[TargetName, float]) -> None:
        """Replace what other gateways report about targets. It counts until this gateway knows by itself."""
        self._hinted_words = first_words

    def _find_first_word(self, target: TargetName) -> float:
        return self._first_words.get(target) or self._hinted_words.get(target, 0.0)

    def keep_session(self, route: Route, session: int, target: TargetName, now: float) -> None:
        """Remember the target that has answered a session."""
        if not session or not route.sticky or route.order == "listed":
            return
        self._sessions.pop((route.match, session), None)
        self._sessions[(route.match, session)] = (target, now + route.sticky)
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]

    def order(
        self,
        route: Route,
        targets: Sequence[TargetName],
        *,
        session: int,
        now: float,
        random: Callable[[], float],
        tokens: int = 0,
        cost: EstimateCost = lambda target, usage: None,
    ) -> list[TargetName]:
        """The targets in the route's order. `tokens`: those of the prompt, for the order by cost."""
        kept, until = self._sessions.get((route.match, session), (None, 0.0))
        kept = kept if until > now and kept in targets else None
        match route.order:
            case "round_robin":
                turn = self._turns[route.match]
                self._turns[route.match] = turn + 1
                first = turn % len(targets)
                ordered = [*targets[first:], *targets[:first]]
            case "weighted":
                # Sorted so, each target is first with the probability of its weight.
                ordered = sorted(targets, key=lambda each: -(random() ** (1 / _find_weight(route, each))))
            case "least_busy":
                ordered = sorted(targets, key=lambda each: self._open[each])
            case "fastest":
                # An unknown target comes first, so that its time becomes known.
                ordered = sorted(targets, key=self._find_first_word)
            case "cheapest":
                costs = {each: cost(each, _estimate_usage(tokens, each == kept)) for each in targets}
                # The cost at the session's own target is that of a cached prompt, so nothing else keeps it.
                return sorted(targets, key=lambda each: (costs[each] is None, costs[each] or 0))
            case _:
                return list(targets)
        return [kept, *(each for each in ordered if each != kept)] if kept else ordered


def _find_weight(route: Route, target: TargetName) -> int:
    """The weight of a target. A target of the route with the model `*` has the client's model name now."""
    pairs = zip(route.targets, route.weights, strict=False)
    found = (weight for each, weight in pairs if each == target or each == TargetName(target.provider, "*"))
    return next(found, 1)


def _estimate_usage(tokens: int, is_cached: bool) -> Usage:
    cached = int(tokens * CACHED_SHARE) if is_cached else 0
    return Usage(input=tokens, cache_read=cached, output=int(tokens * ANSWER_SHARE))


def find_failure_targets(failure: Failure, route: Route) -> tuple[TargetName, ...]:
    """The targets that the route has for this failure, if no other target can help."""
    if failure.kind == "context_overflow":
        return route.on_overflow
    return route.on_refusal if failure.code == MODEL_REFUSED else ()


def find_refusal(tally: Tally, *, is_watched: bool) -> Failure | None:
    """The failure for a reply in which the model refuses, if the route has other targets for that."""
    ending = tally.ending
    if not is_watched or not isinstance(ending, ReplyFinished):
        return None
    if ending.cause not in ("refusal", "content_filter"):
        return None
    return Failure(
        kind="invalid_request", status=400, message="the model refuses to answer", code=MODEL_REFUSED
    )
