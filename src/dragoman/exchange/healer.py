"""`RequestHealer`: corrects the refused requests of one exchange, with what each refusal proved."""

from collections.abc import Iterable, Mapping

import msgspec

from dragoman.config.model import Config, Provider, TargetName
from dragoman.exchange.redaction import Redactor
from dragoman.fit.seals import list_seals
from dragoman.healing.corrections import Correction, describe_facts, merge_facts
from dragoman.healing.learned import LearnedFacts, add_learned_facts
from dragoman.healing.refusals import find_correction
from dragoman.healing.refused_seals import RefusedSeals
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.loss import Loss
from dragoman.hub.seal import Seal
from dragoman.pipeline.plan import RequestPlan
from dragoman.telemetry.redaction import redact

#: Characters of a refusal that are kept with a learned fact.
MAX_MESSAGE = 200


class Trial(msgspec.Struct, frozen=True):
    """A correction that a retry is trying out, and the refusal that it answers."""

    correction: Correction
    message: str


class RequestHealer:
    """The corrections of one exchange. A target gets at most one.

    Call order for a target: build its request with `add_facts` and `find_refused_seals`; after a refusal
    `start_trial`; if that is true, `refuse_seals` with the seals of `find_trial_seals`, build and send the
    request again, then `end_trial` with the result.
    """

    def __init__(self, config: Config, plan: RequestPlan, learned: LearnedFacts, seals: RefusedSeals) -> None:
        self._config = config
        self._plan = plan
        self._learned = learned
        self._seals = seals
        #: False if the route switches healing off.
        self.is_on = True
        self._trials: dict[TargetName, Trial] = {}

    def add_facts(self, target: TargetName) -> Provider:
        """The target's provider with the facts that refusals have proved."""
        provider = self._config.providers[target.provider]
        if not self._heals(provider):
            return provider
        facts = self._find_facts(target)
        return add_learned_facts(provider, target.model, facts, self._plan.metadata.dialect)

    def find_refused_seals(self, target: TargetName) -> frozenset[str]:
        """The hashes of seals that the target must not get."""
        is_on = self._heals(self._config.providers[target.provider])
        return self._seals.find(target.provider) if is_on else frozenset()

    def start_trial(self, target: TargetName, failure: Failure, redactor: Redactor) -> bool:
        """Whether the refusal names something that another request to this target can change."""
        provider = self._config.providers[target.provider]
        # A body that is released belongs to a reply that has begun.
        if target in self._trials or not self._heals(provider) or not self._plan.body:
            return False
        correction = find_correction(failure)
        if correction is None:
            return False
        self._trials[target] = Trial(correction, _shorten(redactor.redact(failure.message)))
        return True

    def find_trial_seals(self, target: TargetName) -> tuple[Seal, ...]:
        """The seals that the trial must leave out. Reads the request, so a large one needs a thread."""
        if not self._trials[target].correction.refuses_seals:
            return ()
        try:
            return tuple(list_seals(self._plan.request))
        except DragomanError:
            # A forwarded request need not be one that the dialect's reader accepts.
            return ()

    def refuse_seals(self, target: TargetName, seals: Iterable[Seal]) -> None:
        """Remember the seals that the target has refused."""
        self._seals.add(target.provider, seals)

    def abandon_trial(self, target: TargetName, *, is_known: bool) -> None:
        """The correction does not help. `is_known`: it changes nothing, its facts were learned before.

        A learned fact with which a request is refused in the same way is no longer true.
        """
        trial = self._trials[target]
        if is_known:
            self._learned.forget(target, trial.correction.facts)
        self._trials[target] = Trial(Correction({}), trial.message)

    def describe_trial(self, target: TargetName) -> Loss:
        """The loss that reports the correction to the client and the log."""
        correction = self._trials[target].correction
        changed = "seals" if correction.refuses_seals else describe_facts(correction.facts)
        return Loss("", f"the target refused the request, which was changed ({changed}) and sent again")

    def end_trial(self, target: TargetName, failure: Failure | None) -> None:
        """Remember the correction of an accepted request. `failure`: why the corrected request failed too.

        A second refusal for another reason also shows that the first reason is gone.
        """
        trial = self._trials.get(target)
        if trial is None or not trial.correction.facts or not trial.correction.lifetime:
            return
        facts = trial.correction.facts
        if failure is not None:
            second = find_correction(failure)
            if second is None or merge_facts(facts, second.facts) == facts:
                return
        address = self._config.providers[target.provider].base_url
        self._learned.remember(target, address, facts, trial.message, trial.correction.lifetime)
        self._trials[target] = Trial(Correction({}), trial.message)

    def _heals(self, provider: Provider) -> bool:
        # A session of a local program is more than the request that is sent to it.
        return self.is_on and provider.heal and not provider.keeps_sessions

    def _find_facts(self, target: TargetName) -> Mapping[str, object]:
        address = self._config.providers[target.provider].base_url
        learned = {name: fact.value for name, fact in self._learned.find(target, address).items()}
        trial = self._trials.get(target)
        return merge_facts(learned, trial.correction.facts) if trial else learned


def _shorten(message: str) -> str:
    """The message of a refusal on one line, without secrets and control characters."""
    line = "".join(each if each.isprintable() else " " for each in redact(message))
    return " ".join(line.split())[:MAX_MESSAGE]
