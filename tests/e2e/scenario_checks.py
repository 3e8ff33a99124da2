"""Checks after the scenario of an agent: all problems at once, because a run is expensive."""

import msgspec

from tests.e2e.agent_scenario import LAST_WORDS, LONG_LOOP, NOTES, PIXEL, ScenarioRun
from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.upstream.checks.rules import Result
from tests.e2e.upstream.conversation import Received
from tests.e2e.upstream.script import Turn, Use
from tests.e2e.upstream.server import UPSTREAM_KEY

SEALING = ("anthropic", "openai_responses", "gemini")


def find_problems(run: ScenarioRun, dialect: str) -> list[str]:
    found = [f"the upstream refused: {refusal}" for refusal in run.conversation.refusals]
    found += run.conversation.problems
    if run.outcome.exit != 0:
        found.append(f"exit {run.outcome.exit}: {run.outcome.output[-1500:]}")
    if UPSTREAM_KEY in run.outcome.output:
        found.append("the upstream's key reached the client")
    if run.outcome.text.strip() != LAST_WORDS:
        found.append(f"the last words were {run.outcome.text!r}")
    expected = ["both", *(f"step-{number}" for number in range(LONG_LOOP))]
    if run.trail() != expected:
        found.append(f"the tools left {run.trail()}")
    if "patch" in run.client.grips and not (run.project / "patched.txt").exists():
        found.append("the patch was not applied")
    turns = run.conversation.turns
    if len(turns) != len(run.steps):
        found.append(f"{len(turns)} turns reached the upstream, not {len(run.steps)}")
    if turns:
        found += _about_history(run, turns[-1], dialect)
    for received in run.conversation.received:
        if CLIENT_KEY in str(received.headers) or CLIENT_KEY.encode() in received.raw:
            found.append("the client's own key reached the upstream")
    return found


def _about_history(run: ScenarioRun, last: Received, dialect: str) -> list[str]:
    """The last request holds every call and its result, in order, and what the model sealed."""
    found: list[str] = []
    if last.checked is None:
        return ["the last request was not legal"]
    uses = [use for step in run.steps if isinstance(step, Turn) for use in step.uses]
    results = last.checked.results
    if len(results) != len(uses):
        return [f"{len(results)} results came back for {len(uses)} calls"]
    for use, result in zip(uses, results, strict=True):
        found += _about_result(run, use, result)
    if any(use.intent == "image" for use in uses) and PIXEL.encode() not in last.raw:
        found.append("the image did not reach the upstream")
    if run.client.carries_seals and dialect in SEALING:
        if not last.checked.seals:
            found.append("no seal of the model's came back")
        if last.checked.sentinels:
            found.append(f"{last.checked.sentinels} calls came back without their signatures")
    return found


def _about_result(run: ScenarioRun, use: Use, result: Result) -> list[str]:
    found = []
    expected = run.client.grips[use.intent].text(use.value)
    if (
        msgspec.json.encode(expected)[1:-1].decode() not in result.arguments
        and expected not in result.arguments
    ):
        found.append(f"the call for {use} came back as {result.name}({result.arguments})")
    if use.value.endswith("notes.txt") and NOTES not in result.text:
        found.append(f"the notes came back as {result.text!r}")
    if use.value.endswith("missing.txt") and not _tells_of_failure(result):
        found.append(f"the failure came back as {result.text!r}")
    return found


def _tells_of_failure(result: Result) -> bool:
    words = ("no such file", "not found", "does not exist", "cannot read")
    return any(word in result.text.lower() for word in words)
