"""The doctor names what is wrong with a model, and nothing else."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.find import EMBEDDED, build_embedded_config
from dragoman.config.provider import FactLayer, Provider, TargetName
from dragoman.doctor.examine import examine
from dragoman.doctor.findings import Examination, Finding, State
from dragoman.doctor.probes import PROBES
from tests.doctor import defective as d
from tests.doctor.defective import Scripted
from tests.exchange.clock import run
from tests.exchange.fakes import Script, ScriptedUpstream

TARGET = TargetName("up", "mock")
UP = Provider(
    name="up",
    dialect="openai_chat",
    base_url="http://upstream.invalid",
    models={"*": {"price_input": 1.0, "price_output": 2.0}},
)
CONFIG = Config(providers={"up": UP})


def examined(upstream: Scripted, **options: Any) -> Examination:
    return asyncio.run(examine(CONFIG, TARGET, upstream=upstream, **options))


def deviating(found: Examination) -> dict[str, State]:
    """The findings that are not passed checks, without the one that every Chat server has (reasoning)."""
    return {
        finding.name: finding.state
        for finding in found.findings
        if finding.state != "works" and finding.detail != UNSENT
    }


UNSENT = "not sent: messages[1].content[0]: reasoning cannot go to another model"


def named(found: Examination, name: str) -> Finding:
    return next(finding for finding in found.findings if finding.name == name)


def test_a_model_that_does_all_it_is_asked_has_nothing_wrong_with_it() -> None:
    found = examined(Scripted())
    assert deviating(found) == {}
    assert found.facts == {}
    assert found.is_whole


SKIPPED: State = "skipped"
NO_CALLS: dict[str, State] = dict.fromkeys(
    ("parallel calls", "forced call", "named call", "reasoning replay", "long arguments"), "skipped"
)

DEFECTS: dict[str, tuple[Scripted, dict[str, State], str, dict[str, object]]] = {
    "it answers whole, whatever is asked": (
        Scripted(streams=False),
        {"streaming": "helped"},
        "turns its complete answers into streams",
        {},
    ),
    "it does not know how to be asked for token counts": (
        Scripted(refuses=d.knows_no("stream_options")),
        {"answers": "helped", "token counts": "lacks", "cache counters": "lacks"},
        "does not request token counts in streams",
        {"stream_usage": False},
    ),
    "it wants the limit by its new name": (
        Scripted(refuses=d.knows_no("max_tokens")),
        {"answers": "helped"},
        "max_completion_tokens",
        {"max_tokens_field": "max_completion_tokens"},
    ),
    "it writes its calls as text": (
        Scripted(spoils=d.writes_calls_as_text),
        {"tools": "fails", **NO_CALLS},
        "in the format of hermes",
        {"call_family": "hermes"},
    ),
    "it makes one call at a time": (
        Scripted(spoils=d.makes_one_call),
        {"parallel calls": "fails"},
        "1 of 2 calls",
        {},
    ),
    "it cannot be made to call": (
        Scripted(refuses=d.takes_no_forced_call),
        {"forced call": "helped", "named call": "helped"},
        "removes tool_choice",
        {"choices": ["auto", "none"]},
    ),
    "it cannot be asked to reason": (
        Scripted(refuses=d.knows_no("reasoning_effort")),
        {"reasoning": "helped", "reasoning replay": "helped"},
        "does not request reasoning",
        {"reasoning": "none"},
    ),
    "it wants its reasoning back": (
        Scripted(refuses=d.needs_its_reasoning),
        {"reasoning replay": "helped"},
        "sends the reasoning of earlier messages back",
        {"replay_reasoning": True},
    ),
    "it thinks aloud": (
        Scripted(spoils=d.thinks_aloud),
        {"reasoning": "fails", "reasoning replay": "skipped"},
        "the answer contains the reasoning",
        {},
    ),
    "it takes no pictures": (
        Scripted(refuses=d.takes_no_pictures),
        {"images": "helped"},
        "replaces images by a notice",
        {"images": False},
    ),
    "it breaks long arguments": (
        Scripted(spoils=d.breaks_long_arguments),
        {"long arguments": "fails"},
        "the arguments are not valid JSON",
        {},
    ),
    "it does not stop where it should": (
        Scripted(stops=False),
        {"stop sequences": "helped"},
        "dragoman applies stop sequences itself",
        {"stop_limit": 0},
    ),
    "it knows no schemas": (
        Scripted(refuses=d.knows_no("response_format")),
        {"structured output": "helped"},
        "puts the schema into the prompt",
        {"outputs": ["text"]},
    ),
    "it takes no temperature": (
        Scripted(refuses=d.knows_no("temperature")),
        {"temperature": "helped"},
        "removes sampling parameters",
        {"sampling": []},
    ),
    "its mistakes look like outages": (
        Scripted(refuses=lambda body: "" if body["model"] == "mock" else "oops", status=500),
        {"errors": "fails"},
        "status 500",
        {},
    ),
    "it ends with stop although it calls": (
        Scripted(spoils=d.ends_with_stop),
        {"tools": "helped"},
        'the stop reason of a call is "stop"',
        {},
    ),
    "it counts nothing": (
        Scripted(spoils=d.counts_nothing),
        {"token counts": "lacks", "cache counters": "lacks"},
        "dragoman estimates",
        {},
    ),
    "it takes no tools": (
        Scripted(refuses=d.knows_no("tools")),
        {"tools": "fails", **NO_CALLS},
        "unknown argument: tools",
        {},
    ),
    "it calls nothing": (
        Scripted(spoils=d.calls_nothing),
        {"tools": "fails", **NO_CALLS},
        "no call; the answer is",
        {},
    ),
    "it calls something else": (
        Scripted(spoils=d.calls_elsewhere),
        {"tools": "fails", **NO_CALLS},
        "not the requested one",
        {},
    ),
    "it forgets what a call gave": (
        Scripted(spoils=d.forgets_results),
        {"tools": "fails", **NO_CALLS},
        "the answer does not use the result of the call",
        {},
    ),
    "it says nothing": (
        Scripted(spoils=d.leaves_out_content),
        {"answers": "fails", **dict.fromkeys([probe.name for probe in PROBES[1:]], SKIPPED)},
        "the answer is empty",
        {},
    ),
    "it changes long arguments": (
        Scripted(spoils=d.changes_long_arguments),
        {"long arguments": "fails"},
        "22 of 24 lines",
        {},
    ),
    "it calls another tool than the one that was named": (
        Scripted(spoils=d.calls_the_first_tool),
        {"named call": "fails"},
        "the named tool was not called",
        {},
    ),
    "it caches nothing": (
        Scripted(spoils=d.caches_nothing),
        {"cache counters": "lacks"},
        "no token was read from the cache",
        {},
    ),
    "it never thinks": (
        Scripted(spoils=d.never_thinks),
        {"reasoning": "lacks"},
        "the reply contains no reasoning",
        {},
    ),
}


@pytest.mark.parametrize("defect", list(DEFECTS))
def test_a_defect_is_named_and_no_other(defect: str) -> None:
    upstream, deviations, words, facts = DEFECTS[defect]
    found = examined(upstream)
    assert deviating(found) == deviations
    assert words in named(found, next(iter(deviations))).detail
    assert found.facts == facts


@pytest.mark.parametrize(
    "defect", [name for name, (_, states, _, _) in DEFECTS.items() if "fails" in states.values()]
)
def test_what_fails_comes_with_what_to_do(defect: str) -> None:
    found = examined(DEFECTS[defect][0])
    assert all(finding.advice for finding in found.findings if finding.state == "fails")


@pytest.mark.parametrize(
    ("spoils", "probe", "advised"),
    [
        (d.writes_calls_as_text, "tools", {"harvest": "hermes"}),
        (d.breaks_long_arguments, "long arguments", {"tools": "hold"}),
        (d.thinks_aloud, "reasoning", {"harvest": "auto"}),
    ],
)
def test_governance_that_is_advised_helps(spoils: d.Spoil, probe: str, advised: dict[str, object]) -> None:
    before = named(examined(Scripted(spoils=spoils)), probe)
    ((key, value),) = advised.items()
    assert (before.state, f'{key} = "{value}"' in before.advice) == ("fails", True)
    assert '[providers.up.models."mock".governance]' in before.advice
    governed = msgspec.structs.replace(UP, model_governance={"mock": advised})
    config = Config(providers={"up": governed})
    after = named(asyncio.run(examine(config, TARGET, upstream=Scripted(spoils=spoils))), probe)
    assert after.state in ("works", "helped")


def test_what_was_learned_holds_for_the_probes_that_follow() -> None:
    upstream = Scripted(refuses=d.knows_no("max_tokens"))
    found = examined(upstream)
    refused = [body for body in upstream.bodies if "max_tokens" in body]
    assert len(refused) < len(PROBES) / 2
    assert found.facts == {"max_tokens_field": "max_completion_tokens"}


def test_reasoning_that_is_counted_but_not_shown_works_all_the_same() -> None:
    found = named(examined(Scripted(spoils=d.hides_its_reasoning)), "reasoning")
    assert (found.state, found.detail) == ("works", "7 tokens, not visible")


def test_a_server_that_never_answers_is_not_waited_for_forever() -> None:
    upstream = ScriptedUpstream(Script(after=10_000.0))
    found = run(examine(CONFIG, TARGET, upstream=upstream))
    assert {finding.state for finding in found.findings} == {"unclear"}
    assert len(upstream.calls) == 1


def test_what_was_learned_before_is_found_out_anew() -> None:
    layer = FactLayer(source="learned", models={"mock": {"images": False}})
    provider = Provider(name="up", dialect="openai_chat", base_url="http://upstream.invalid", layers=(layer,))
    config = Config(providers={"up": provider})
    found = asyncio.run(examine(config, TARGET, upstream=Scripted()))
    assert named(found, "images").state == "works"


def test_what_the_catalogue_forbids_is_not_held_against_the_model() -> None:
    provider = msgspec.structs.replace(UP, models={"*": {"images": False, "choices": ["auto", "none"]}})
    found = asyncio.run(examine(Config(providers={"up": provider}), TARGET, upstream=Scripted()))
    assert deviating(found) == {"images": "helped", "forced call": "helped", "named call": "helped"}
    assert "not sent" in named(found, "images").detail
    assert found.facts == {}


def test_the_budget_is_kept_and_what_was_not_looked_at_is_reported() -> None:
    found = examined(Scripted(), budget=3_000)
    assert found.tokens <= 3_000
    assert not found.is_whole
    assert found.findings[0].state == "works"
    assert found.findings[-1].state == "unclear"
    assert "budget" in found.findings[-1].advice


def test_tokens_and_cost_are_reported() -> None:
    found = examined(Scripted())
    assert found.tokens > 1_000
    assert found.micro_dollars is not None
    assert found.tokens < found.micro_dollars < 2 * found.tokens


def test_a_server_that_counts_nothing_is_counted_by_guess() -> None:
    assert examined(Scripted(spoils=d.counts_nothing)).tokens > 1_000


@pytest.mark.parametrize(
    ("status", "words"), [(401, "key is not accepted"), (429, "try again later"), (503, "overloaded")]
)
def test_a_failure_that_is_empty_about_the_model_is_not_held_against_it(status: int, words: str) -> None:
    found = examined(Scripted(refuses=lambda body: "no", status=status))
    assert {finding.state for finding in found.findings} == {"unclear"}
    assert words in found.findings[0].advice
    assert found.facts == {}


def test_a_model_that_does_not_answer_at_all_is_not_asked_further() -> None:
    upstream = Scripted(refuses=lambda body: "no")
    found = examined(upstream)
    assert found.findings[0].state == "fails"
    assert {finding.state for finding in found.findings[1:]} == {"skipped"}
    assert found.facts == {}


def test_progress_is_reported_probe_by_probe() -> None:
    reported: list[str] = []
    examined(Scripted(), progress=reported.append)
    assert reported == [probe.name for probe in PROBES]


def test_the_embedded_model_can_be_examined_too() -> None:
    found = asyncio.run(examine(build_embedded_config({}), TargetName(EMBEDDED, EMBEDDED)))
    states = {finding.name: finding.state for finding in found.findings}
    assert (states["answers"], states["tools"], states["parallel calls"]) == ("works", "works", "works")
    assert states["images"] == "fails"
    assert found.facts == {"stop_limit": 0}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_every_probe_needs_only_what_comes_before_it(probe: Any) -> None:
    before = [other.name for other in PROBES[: PROBES.index(probe)]]
    assert set(probe.needs) <= set(before)


def test_every_probe_stands_in_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text("utf-8")
    assert [probe.name for probe in PROBES if f"| {probe.name} | {probe.asks} |" not in page] == []
