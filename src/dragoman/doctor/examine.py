"""A model's examination: probe by probe, with remedies where something fails, until the budget is spent.

What is learned holds for the probes that follow, as it will for the agents that come later.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

import msgspec

from dragoman.config.find import state_folder
from dragoman.config.layers import LEARNED
from dragoman.config.model import Config, Provider, TargetName
from dragoman.config.prices import prices_of
from dragoman.doctor.finding import Examination, Facts, Finding, State
from dragoman.doctor.probe import GOVERNANCE, Outcome, Probe, Remedy
from dragoman.doctor.probes import PROBES
from dragoman.doctor.talk import BudgetSpent, Talk
from dragoman.hub.errors import Failure, FailureKind
from dragoman.upstream.port import Upstream
from dragoman.upstream.registry import build_upstream

#: Enough for every probe, twice where something fails, with a model that is not too talkative.
BUDGET = 40_000
#: Seconds for one probe: nobody waits longer for a word.
PATIENCE = 120.0

#: Failures that say nothing about what the model can do.
_PASSING: frozenset[FailureKind] = frozenset(
    {"authentication", "billing", "permission", "rate_limit", "quota", "overloaded", "timeout", "cancelled"}
)
_ADVICE: dict[FailureKind, str] = {
    "authentication": "the key is not accepted: check the variable that holds it",
    "billing": "the account has no credit",
    "permission": "the key may not use this model",
    "rate_limit": "too many requests for now: try again later",
    "quota": "the account's quota is used up",
    "overloaded": "it cannot be reached or is overloaded: try again later",
    "timeout": "it takes too long: is the model still being loaded?",
}

Progress = Callable[[str], None]


async def examine(
    config: Config,
    target: TargetName,
    *,
    budget: int = BUDGET,
    probes: Sequence[Probe] = PROBES,
    upstream: Upstream | None = None,
    progress: Progress = lambda name: None,
) -> Examination:
    """Ask the model, tell what was found. `upstream` answers instead of the provider, if given."""
    provider = unlearned(config.providers[target.provider])
    contact = upstream or build_upstream(provider, state_folder(config, os.environ))
    talk = Talk(provider, target.model, contact, budget=budget)
    findings: dict[str, Finding] = {}
    try:
        for probe in probes:
            progress(probe.name)
            findings[probe.name] = await _Try(talk, probe, findings).finding()
    finally:
        await talk.close()
        if upstream is None:
            await contact.close()
    return Examination(
        target=str(target),
        findings=tuple(findings.values()),
        tokens=talk.tokens,
        micro_dollars=talk.micro_dollars if prices_of(config, target) else None,
        is_whole=all(finding.state != "unclear" for finding in findings.values()),
    )


def unlearned(provider: Provider) -> Provider:
    """The provider without what was learned before, which may no longer hold."""
    layers = tuple(layer for layer in provider.layers if layer.source != LEARNED)
    return msgspec.structs.replace(provider, layers=layers)


class _Try:
    """One probe, and what came before it."""

    def __init__(self, talk: Talk, probe: Probe, before: dict[str, Finding]) -> None:
        self._talk = talk
        self._probe = probe
        self._before = before
        self._known: Facts = {name: value for each in before.values() for name, value in each.facts.items()}

    async def finding(self) -> Finding:
        for name in self._probe.needs:
            if self._before[name].state in ("fails", "skipped"):
                return self._told("skipped", f"nothing to try without {name}")
            if self._before[name].state == "unclear":
                return self._unclear(f"nothing to try while {name} is unclear")
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._found()
        except BudgetSpent:
            left = max(0, self._talk.budget - self._talk.tokens)
            return self._unclear(f"{left} tokens are left of the budget", advice="--budget gives it more")
        except TimeoutError:
            return self._unclear(f"no answer within {PATIENCE:g} seconds", advice=_ADVICE["timeout"])

    async def _found(self) -> Finding:
        self._talk.assume(self._known)
        outcome = await self._probe.run(self._talk)
        if outcome.did == "works":
            return self._works(outcome)
        if outcome.did == "absent":
            return self._told("lacks", outcome.detail, advice=outcome.advice)
        if outcome.failure is not None and outcome.failure.kind in _PASSING:
            return self._unclear(_shown(outcome.failure), advice=_ADVICE.get(outcome.failure.kind, ""))
        lost = self._talk.last.losses if outcome.did == "wrong" and self._talk.last else []
        if lost:
            # It was not asked, because something known of it forbade that.
            return self._told("helped", "; ".join(f"left out: {loss}" for loss in lost))
        return await self._with_remedy(outcome) or self._fails(outcome)

    async def _with_remedy(self, outcome: Outcome) -> Finding | None:
        """What helps against the failure, if anything does."""
        for remedy in self._probe.remedies:
            if outcome.did != "refused" and remedy.settles:
                continue
            self._talk.assume({**self._known, **remedy.facts})
            again = await self._probe.run(self._talk)
            if again.did == "works" or (remedy.settles and again.did in ("wrong", "absent")):
                return self._helped(outcome, remedy)
        return None

    def _works(self, outcome: Outcome) -> Finding:
        if not outcome.helped:
            return self._told("works", outcome.detail)
        detail = "; ".join((*filter(None, (outcome.detail,)), *outcome.helped))
        return self._told("helped", detail, facts=outcome.facts)

    def _helped(self, outcome: Outcome, remedy: Remedy) -> Finding:
        cause = f"refused ({outcome.detail})" if outcome.did == "refused" else outcome.detail
        return self._told("helped", f"{cause}; {remedy.words}", facts=remedy.facts)

    def _fails(self, outcome: Outcome) -> Finding:
        detail = _shown(outcome.failure) if outcome.failure else outcome.detail
        advice = outcome.advice or self._probe.advice
        return self._told("fails", detail, advice=advice, facts=outcome.facts)

    def _unclear(self, detail: str, *, advice: str = "") -> Finding:
        return self._told("unclear", detail, advice=advice)

    def _told(self, state: State, detail: str, *, advice: str = "", facts: Facts | None = None) -> Finding:
        target = self._talk.target
        heading = f'[providers.{target.provider}.models."{target.model}".governance]'
        advice = advice.replace(GOVERNANCE, heading)
        return Finding(name=self._probe.name, state=state, detail=detail, advice=advice, facts=facts or {})


def _shown(failure: Failure) -> str:
    return f"{failure.message} (status {failure.http_status})"
