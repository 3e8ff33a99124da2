"""The examination of a model: runs the probes in order until all are done or the budget is spent.

Facts that a probe learns apply to the later probes, as they will apply to agents after `--write`.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

import msgspec

from dragoman.config.config import Config
from dragoman.config.find import find_state_folder
from dragoman.config.model_facts import LEARNED_SOURCE, find_prices
from dragoman.config.provider import Provider, TargetName
from dragoman.doctor.conversation import BudgetSpent, ModelConversation, QuestionRefused
from dragoman.doctor.findings import Examination, Facts, Finding, State
from dragoman.doctor.probe_types import GOVERNANCE, Probe, ProbeOutcome, Remedy, report_refusal
from dragoman.doctor.probes import PROBES
from dragoman.hub.errors import Failure, FailureKind
from dragoman.upstream.kinds import build_upstream
from dragoman.upstream.port import Upstream

#: Tokens. Enough for every probe with its remedies, if the answers are short.
BUDGET = 40_000
#: Seconds for one probe with its remedies.
PROBE_TIMEOUT = 120.0

#: Failures that do not depend on the model, and what to do. A probe that meets one is unclear.
_TEMPORARY_FAILURES: dict[FailureKind, str] = {
    "authentication": "the key is not accepted: check the variable that holds it",
    "misconfigured": "the key is not accepted or not set: check the variable that holds it",
    "billing": "the account has no credit",
    "permission": "the key is not allowed to use this model",
    "rate_limit": "too many requests: try again later",
    "quota": "the quota of the account is used up",
    "unreachable": "the provider cannot be reached: check that it runs, and its base_url",
    "overloaded": "the provider is overloaded: try again later",
    "timeout": "the provider takes too long: it may still load the model",
    "cancelled": "",
}

#: Receives the name of each check before it runs.
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
    """Run the probes against one target. `upstream` answers in place of the provider, if given."""
    provider = remove_learned(config.providers[target.provider])
    connection = upstream or build_upstream(provider, find_state_folder(config, os.environ))
    conversation = ModelConversation(provider, target.model, connection, budget=budget)
    findings: dict[str, Finding] = {}
    try:
        for probe in probes:
            progress(probe.name)
            findings[probe.name] = await ProbeRun(conversation, probe, findings).run()
    finally:
        await conversation.close()
        if upstream is None:
            await connection.close()
    return Examination(
        target=str(target),
        findings=tuple(findings.values()),
        tokens=conversation.tokens,
        micro_dollars=conversation.micro_dollars if find_prices(config, target) else None,
        is_whole=all(finding.state != "unclear" for finding in findings.values()),
    )


def remove_learned(provider: Provider) -> Provider:
    """The provider without facts of earlier examinations, which may be outdated."""
    layers = tuple(layer for layer in provider.layers if layer.source != LEARNED_SOURCE)
    return msgspec.structs.replace(provider, layers=layers)


class ProbeRun:
    """Runs one probe, tries its remedies, and builds the finding. `earlier` holds the findings so far."""

    def __init__(self, conversation: ModelConversation, probe: Probe, earlier: dict[str, Finding]) -> None:
        self._conversation = conversation
        self._probe = probe
        self._earlier = earlier
        self._facts: Facts = {name: value for each in earlier.values() for name, value in each.facts.items()}

    async def run(self) -> Finding:
        """Run the probe within its time and the budget."""
        for name in self._probe.needs:
            if self._earlier[name].state in ("fails", "skipped"):
                return self._build("skipped", f"not tried, because `{name}` does not work")
            if self._earlier[name].state == "unclear":
                return self._build("unclear", f"not tried, because `{name}` is unclear")
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                return await self._judge()
        except BudgetSpent:
            left = max(0, self._conversation.budget - self._conversation.tokens)
            return self._build("unclear", f"the budget has {left} tokens left", advice="raise --budget")
        except TimeoutError:
            detail = f"no answer within {PROBE_TIMEOUT:g} seconds"
            return self._build("unclear", detail, advice=_TEMPORARY_FAILURES["timeout"])

    async def _judge(self) -> Finding:
        outcome = await self._try(self._facts)
        if outcome.result == "works":
            return self._build_success(outcome)
        if outcome.result == "absent":
            return self._build("lacks", outcome.detail, advice=outcome.advice)
        failure = outcome.failure
        if failure is not None and failure.kind in _TEMPORARY_FAILURES:
            return self._build("unclear", _describe(failure), advice=_TEMPORARY_FAILURES[failure.kind])
        last = self._conversation.last
        if outcome.result == "wrong" and last and last.losses:
            # A known fact removed the feature from the request, so the answer does not judge the model.
            return self._build("helped", "; ".join(f"not sent: {loss}" for loss in last.losses))
        remedy = await self._find_remedy(outcome)
        if remedy is not None:
            cause = f"refused ({outcome.detail})" if outcome.result == "refused" else outcome.detail
            return self._build("helped", f"{cause}; {remedy.description}", facts=remedy.facts)
        detail = _describe(failure) if failure else outcome.detail
        return self._build("fails", detail, advice=outcome.advice or self._probe.advice, facts=outcome.facts)

    async def _find_remedy(self, outcome: ProbeOutcome) -> Remedy | None:
        """The first remedy that helps; None if none does."""
        for remedy in self._probe.remedies:
            if outcome.result != "refused" and remedy.is_last_resort:
                continue
            again = await self._try({**self._facts, **remedy.facts})
            if again.result == "works" or (remedy.is_last_resort and again.result != "refused"):
                return remedy
        return None

    async def _try(self, facts: Facts) -> ProbeOutcome:
        self._conversation.assume_facts(facts)
        try:
            return await self._probe.run(self._conversation)
        except QuestionRefused as refusal:
            return report_refusal(refusal.reply)

    def _build_success(self, outcome: ProbeOutcome) -> Finding:
        if not outcome.help:
            return self._build("works", outcome.detail)
        details = [outcome.detail, *outcome.help] if outcome.detail else outcome.help
        return self._build("helped", "; ".join(details), facts=outcome.facts)

    def _build(self, state: State, detail: str, *, advice: str = "", facts: Facts | None = None) -> Finding:
        target = self._conversation.target
        heading = f'[providers.{target.provider}.models."{target.model}".governance]'
        advice = advice.replace(GOVERNANCE, heading)
        return Finding(name=self._probe.name, state=state, detail=detail, advice=advice, facts=facts or {})


def _describe(failure: Failure) -> str:
    return f"{failure.message} (status {failure.http_status})"
