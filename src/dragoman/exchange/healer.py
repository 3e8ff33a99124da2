"""`RequestHealer`: corrects the refused requests of one exchange, with what each refusal proved."""

import msgspec

from dragoman.config.model import Config
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
MAX_TRIALS = 3


class RequestChange(msgspec.Struct, frozen=True):
    """What a refusal asks for: other facts about the model, and the hashes of the seals that it refuses."""

    correction: Correction
    seals: frozenset[str]


class Trial(msgspec.Struct, frozen=True):
    """A correction that a retry is trying out, and the refusal that it answers."""

    correction: Correction
    message: str


class RequestHealer:
    """The corrections of one exchange. A target gets at most `MAX_TRIALS`, each for another reason.

    Call order for a target: build its request with `add_facts` and `find_refused_seals`; after a refusal
    `find_change`; with its result `start_trial`; build and send the request again. After an answer
    `end_trials`: only an accepted request proves that the corrections are right.
    """

    def __init__(self, config: Config, plan: RequestPlan, learned: LearnedFacts, seals: RefusedSeals) -> None:
        self._config = config
        self._plan = plan
        self._learned = learned
        self._seals = seals
        #: False if the route switches healing off.
        self.is_on = True
        self._trials: dict[TargetName, tuple[Trial, ...]] = {}
        #: The retries left for each target.
        self._left: dict[TargetName, int] = {}

    def add_facts(self, target: TargetName) -> Provider:
        """The target's provider with the facts that refusals have proved."""
        provider = self._config.providers[target.provider]
        is_proved = target in self._trials or self._learned.has_facts(target)
        if not is_proved or not self._heals(provider):
            return provider
        facts = merge_facts(
            merge_learned_facts(self._learned.find(target, provider.base_url)), self._merge_trials(target)
        )
        return add_learned_facts(provider, target.model, facts, self._plan.metadata.dialect)

    def find_refused_seals(self, target: TargetName) -> frozenset[str]:
        """The hashes of seals that the target must not get."""
        is_on = self._heals(self._config.providers[target.provider])
        return self._seals.find(target.provider) if is_on else frozenset()

    def may_heal(self, target: TargetName) -> bool:
        """Whether a refusal by this target may change its request."""
        # A body that is released belongs to a reply that has begun.
        is_on = self._heals(self._config.providers[target.provider]) and bool(self._plan.body)
        return is_on and self._left.get(target, MAX_TRIALS) > 0

    def find_change(self, target: TargetName, failure: Failure) -> RequestChange | None:
        """What the refusal asks for; None if it names nothing that another request can change.

        Reads the whole body and changes nothing, so that it can run in a thread.
        """
        correction = find_correction(failure, self._plan.body)
        if correction is None:
            return None
        tried = self._merge_trials(target)
        if tried and merge_facts(tried, correction.facts) == tried and not correction.refuses_seals:
            return None
        return RequestChange(correction, self._hash_seals() if correction.refuses_seals else frozenset())

    def start_trial(self, target: TargetName, change: RequestChange, message: str) -> None:
        """Apply a change to the target's next request. `message`: the refusal, redacted."""
        earlier, correction = self._trials.get(target, ()), change.correction
        kept = tuple(trial for trial in earlier if not refuses_both_names(trial.correction, correction))
        last = Trial(correction if len(kept) == len(earlier) else NO_OUTPUT_LIMIT, _shorten(message))
        self._trials[target] = (*kept, last)
        self._left[target] = self._left.get(target, MAX_TRIALS) - 1
        if change.seals:
            self._seals.add(target.provider, change.seals)

    def abandon_trial(self, target: TargetName, *, is_known: bool) -> None:
        """The last correction does not help. `is_known`: it changes nothing, its facts were learned before.

        A learned fact with which a request is refused in the same way is no longer true.
        """
        last = self._trials.pop(target)[-1]
        self._left[target] = 0
        if is_known:
            self._learned.forget(target, last.correction.facts)

    def describe_trial(self, target: TargetName) -> Loss:
        """The loss that reports the corrections to the client and the log."""
        corrections = [trial.correction for trial in self._trials[target]]
        changed = ", ".join(
            "seals" if each.refuses_seals else describe_facts(each.facts) for each in corrections
        )
        return Loss("", f"the target refused the request, which was changed ({changed}) and sent again")

    def end_trials(self, target: TargetName) -> None:
        """Remember the corrections of a request that the target has accepted."""
        address = self._config.providers[target.provider].base_url
        for trial in self._trials.pop(target, ()):
            correction = trial.correction
            if correction.lifetime:
                self._learned.remember(target, address, correction.facts, trial.message, correction.lifetime)

    def _heals(self, provider: Provider) -> bool:
        # A session of a local program is more than the request that is sent to it.
        return self.is_on and provider.heal and not provider.keeps_sessions

    def _merge_trials(self, target: TargetName) -> dict[str, object]:
        merged: dict[str, object] = {}
        for trial in self._trials.get(target, ()):
            merged = merge_facts(merged, trial.correction.facts)
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
