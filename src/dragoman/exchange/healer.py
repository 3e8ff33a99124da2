"""`RequestHealer`: corrects the refused requests of one exchange, with what each refusal proved."""

import msgspec

from dragoman.config.config import Config
from dragoman.config.provider import Provider, TargetName
from dragoman.fit.seals import hash_seal, list_seals
from dragoman.healing.corrections import (
    NO_OUTPUT_LIMIT,
    Correction,
    describe_facts,
    merge_facts,
    refuses_both_names,
)
from dragoman.healing.learned import LearnedFacts, add_learned_facts, merge_learned_facts
from dragoman.healing.refusals import find_correction
from dragoman.healing.refused_seals import RefusedSeals
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.loss import Loss
from dragoman.pipeline.plan import RequestPlan
from dragoman.telemetry.redaction import redact

#: Characters of a refusal that are kept with a learned fact.
MAX_MESSAGE = 200


#: Corrections of one request at one target. A model with other settings than its predecessor often refuses
#: two of them (OpenAI: `max_tokens` and `temperature`), and a server names one at a time.
MAX_CORRECTIONS = 3


class RequestChange(msgspec.Struct, frozen=True):
    """What a refusal asks for: other facts about the model, and the hashes of the seals that it refuses."""

    correction: Correction
    seals: frozenset[str]


class UnprovenCorrection(msgspec.Struct, frozen=True):
    """A correction of a request that is not accepted yet, and the refusal that it answers."""

    correction: Correction
    message: str


class RequestHealer:
    """The corrections of one exchange. A target gets at most `MAX_CORRECTIONS`, each for another reason.

    Call order for a target: build its request with `add_facts` and `find_refused_seals`; after a refusal
    `find_change`; with its result `add_correction`; build and send the request again. After an answer
    `learn_corrections`: only an accepted request proves that the corrections are right.
    """

    def __init__(self, config: Config, plan: RequestPlan, learned: LearnedFacts, seals: RefusedSeals) -> None:
        self._config = config
        self._plan = plan
        self._learned = learned
        self._seals = seals
        #: False if the route switches healing off.
        self.is_on = True
        self._unproven: dict[TargetName, tuple[UnprovenCorrection, ...]] = {}
        #: The retries left for each target.
        self._left: dict[TargetName, int] = {}

    def add_facts(self, target: TargetName) -> Provider:
        """The target's provider with the facts that refusals have proved."""
        provider = self._config.providers[target.provider]
        is_proved = target in self._unproven or self._learned.has_facts(target)
        if not is_proved or not self._heals(provider):
            return provider
        facts = merge_facts(
            merge_learned_facts(self._learned.find(target, provider.base_url)),
            self._merge_corrections(target),
        )
        return add_learned_facts(provider, target.model, facts, self._plan.metadata.dialect)

    def find_refused_seals(self, target: TargetName) -> frozenset[str]:
        """The hashes of seals that the target must not get."""
        refused = self._seals.find(target.provider)
        return refused if refused and self._heals(self._config.providers[target.provider]) else frozenset()

    def may_heal(self, target: TargetName) -> bool:
        """Whether a refusal by this target may change its request."""
        # A body that is released belongs to a reply that has begun.
        is_on = self._heals(self._config.providers[target.provider]) and bool(self._plan.body)
        return is_on and self._left.get(target, MAX_CORRECTIONS) > 0

    def find_change(self, target: TargetName, failure: Failure) -> RequestChange | None:
        """What the refusal asks for; None if it names nothing that another request can change.

        Reads the whole body and changes nothing, so that it can run in a thread.
        """
        correction = find_correction(failure, self._plan.body)
        if correction is None:
            return None
        tried = self._merge_corrections(target)
        if tried and merge_facts(tried, correction.facts) == tried and not correction.refuses_seals:
            return None
        return RequestChange(correction, self._hash_seals() if correction.refuses_seals else frozenset())

    def add_correction(self, target: TargetName, change: RequestChange, message: str) -> None:
        """Apply a change to the target's next request. `message`: the refusal, redacted."""
        earlier, correction = self._unproven.get(target, ()), change.correction
        kept = tuple(each for each in earlier if not refuses_both_names(each.correction, correction))
        last = UnprovenCorrection(
            correction if len(kept) == len(earlier) else NO_OUTPUT_LIMIT, _shorten(message)
        )
        self._unproven[target] = (*kept, last)
        self._left[target] = self._left.get(target, MAX_CORRECTIONS) - 1
        if change.seals:
            self._seals.add(target.provider, change.seals)

    def drop_corrections(self, target: TargetName, *, is_known: bool) -> None:
        """The last correction does not help. `is_known`: it changes nothing, its facts were learned before.

        A learned fact with which a request is refused in the same way is no longer true.
        """
        last = self._unproven.pop(target)[-1]
        self._left[target] = 0
        if is_known:
            self._learned.forget(target, last.correction.facts)

    def describe_corrections(self, target: TargetName) -> Loss:
        """The loss that reports the corrections to the client and the log."""
        corrections = [each.correction for each in self._unproven[target]]
        changed = ", ".join(
            "seals" if each.refuses_seals else describe_facts(each.facts) for each in corrections
        )
        return Loss("", f"the target refused the request, which was changed ({changed}) and sent again")

    def learn_corrections(self, target: TargetName) -> None:
        """Remember the corrections of a request that the target has accepted."""
        if target not in self._unproven:
            return
        address = self._config.providers[target.provider].base_url
        for unproven in self._unproven.pop(target):
            correction = unproven.correction
            if correction.lifetime:
                self._learned.remember(
                    target, address, correction.facts, unproven.message, correction.lifetime
                )

    def _heals(self, provider: Provider) -> bool:
        # A session of a local program is more than the request that is sent to it.
        return self.is_on and provider.heal and not provider.keeps_sessions

    def _merge_corrections(self, target: TargetName) -> dict[str, object]:
        merged: dict[str, object] = {}
        for each in self._unproven.get(target, ()):
            merged = merge_facts(merged, each.correction.facts)
        return merged

    def _hash_seals(self) -> frozenset[str]:
        try:
            return frozenset(map(hash_seal, list_seals(self._plan.request)))
        except DragomanError:
            # A forwarded request need not be one that the dialect's reader accepts.
            return frozenset()


def _shorten(message: str) -> str:
    """The message of a refusal on one line, without secrets and control characters."""
    line = "".join(each if each.isprintable() else " " for each in redact(message))
    return " ".join(line.split())[:MAX_MESSAGE]
