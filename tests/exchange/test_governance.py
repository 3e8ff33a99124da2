"""Governance in the gateway: the same good calls for every client, from every upstream, streamed or whole."""

from typing import get_args

import msgspec
import pytest

from dragoman.config.provider import TargetName
from dragoman.exchange.interventions import COUNTED_AS, MAX_TARGETS, InterventionCounts, find_counter_name
from dragoman.governance.interventions import Intervention, InterventionKind
from dragoman.governance.tool_choice import EXIT_NAME
from dragoman.hub.events import StopCause
from dragoman.hub.tally import Tally
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, Piece, Script, ScriptedUpstream, Wait, provider, record_of
from tests.exchange.governing import Block, events_of, governed, question, run_governed, script, write_stream
from tests.exchange.sample_replies import DIALECTS

MENDING: dict[str, object] = {"tools": "hold", "harvest": "hermes", "rename": True, "dedupe": True}
TEXT_CALL = '<tool_call>\n{"name": "Read", "arguments": {"path": "a"}}\n</tool_call>'

#: What a bad model writes, how it ends, and what its client should receive: a text, and arguments of calls.
CASES: dict[str, tuple[tuple[Block, ...], StopCause, str, list[object]]] = {
    "a call in text": ((f"I will look.\n{TEXT_CALL}",), "end", "I will look.", [{"path": "a"}]),
    "two calls in text": (
        (TEXT_CALL + TEXT_CALL.replace('"a"', '"b"'),),
        "end",
        "",
        [{"path": "a"}, {"path": "b"}],
    ),
    "single quotes": ((("Read", "{'path': 'a',}"),), "tool_calls", "", [{"path": "a"}]),
    "beyond repair": ((("Read", "read it ]["),), "tool_calls", "", [{"text": "read it ]["}]),
    "a name in the wrong case": ((("rEAD", '{"path":"a"}'),), "tool_calls", "", [{"path": "a"}]),
    "a doubled call": ((("Read", '{"path":"a"}'),) * 2, "tool_calls", "", [{"path": "a"}]),
    "a good call": (("Yes.", ("Read", '{"path":"a"}')), "tool_calls", "Yes.", [{"path": "a"}]),
    "a good answer": (("Just words, <b>bold</b> ones.",), "end", "Just words, <b>bold</b> ones.", []),
}
#: Where arguments are objects on the wire, no model can get them wrong.
BROKEN = ("single quotes", "beyond repair")
WAYS = [
    (name, upstream, stream)
    for name in CASES
    for upstream in DIALECTS
    for stream in (True, False)
    if name not in BROKEN or upstream.startswith("openai") or (upstream == "anthropic" and stream)
]


@pytest.mark.rule("R72", "R73", "R74", "R80", "R81", "R90", "H12", "H36", "C15")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize(("name", "upstream", "stream"), WAYS)
def test_every_client_gets_the_same_good_calls(name: str, upstream: str, client: str, stream: bool) -> None:
    blocks, cause, text, arguments = CASES[name]
    events = events_of(*blocks, cause=cause, pieces=3)
    reply = run_governed(
        MENDING, script(upstream, events, stream=stream), client=client, upstream=upstream, stream=stream
    )
    assert reply.essence.text == text
    assert reply.essence.calls == tuple(("Read", each) for each in arguments)
    assert reply.result.record.ending == "finished"


@pytest.mark.rule("R79", "R83", "R89", "C16")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_off_means_off(upstream: str, client: str, stream: bool) -> None:
    """Not a byte of a bad reply changes, in either direction."""
    events = events_of(f"I will look.\n{TEXT_CALL}", ("rEAD", '{"path":"a"}'), cause="tool_calls", pieces=3)
    plain = ScriptedUpstream(script(upstream, events, stream=stream))
    switched_off = ScriptedUpstream(script(upstream, events, stream=stream))
    off = governed("up", upstream, {"repair": False, "on_denied": "model", "exit": False})
    bodies = []
    for scripted, known in ((plain, provider("up", upstream)), (switched_off, off)):
        asked = question(client, stream=stream)
        sent = asked.body
        result = run(Bench({"up": scripted}, [known]).run_exchange(asked))
        bodies.append((scripted.calls[0].body, result.client.body, result.record.lane))
        assert len(result.record.interventions) == 0
        assert "x-dragoman-repairs" not in result.client.headers
        if client == upstream:
            assert scripted.calls[0].body == sent
            (piece,) = {b"".join(each for each in scripted_pieces(scripted))}
            assert result.client.body == piece
            assert result.record.lane == "forward"
    assert bodies[0] == bodies[1]


def scripted_pieces(upstream: ScriptedUpstream) -> list[bytes]:
    return [piece for piece in upstream.answers[0].script.pieces if isinstance(piece, bytes)]


@pytest.mark.rule("R83", "R90")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_good_reply_is_reported_as_without_governance(upstream: str, client: str) -> None:
    watching = {"harvest": "auto", "rename": True, "dedupe": True, "validate": True, "guard": ["secrets"]}
    events = events_of("I will look.", ("Read", '{"path":"a"}'), cause="tool_calls", pieces=3)
    pieces = write_stream(upstream, events)
    # Without governance the reply to a forwarded request would be forwarded, too.
    asked = question(client)
    asked.metadata = msgspec.structs.replace(asked.metadata, is_assembled=True)
    bodies = [
        run(
            Bench(
                {"up": ScriptedUpstream(Script(pieces=pieces))},
                [governed("up", upstream, values)],
                model="m2",
            ).run_exchange(asked)
        ).client.body
        for values in ({}, watching)
    ]
    assert bodies[0] == bodies[1]


@pytest.mark.rule("R18", "R89", "C6")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_governing_replies_adds_nothing_to_requests(upstream: str, client: str) -> None:
    plain = run_governed({}, script(upstream, events_of("Hi.")), client=client, upstream=upstream)
    reply = run_governed(
        {**MENDING, "validate": True, "guard": ["secrets"]},
        script(upstream, events_of("Hi.")),
        client=client,
        upstream=upstream,
    )
    assert reply.calls[0].body == plain.calls[0].body


@pytest.mark.rule("R85")
def test_a_whole_reply_reports_in_its_head_what_was_done() -> None:
    events = events_of(("rEAD", "{'path': 'a',}"), cause="tool_calls")
    reply = run_governed(MENDING, script("openai_chat", events, stream=False), stream=False)
    assert reply.result.client.headers["x-dragoman-repairs"] == (
        "3: rename Read (case); hold Read; repair Read (commas, quotes)"
    )


@pytest.mark.rule("R85")
def test_a_stream_reports_in_its_head_what_was_done_by_then() -> None:
    events = events_of(("rEAD", "{'path': 'a',}"), cause="tool_calls", pieces=3)
    reply = run_governed(MENDING, script("openai_chat", events))
    assert reply.result.client.headers["x-dragoman-repairs"] == (
        "3: rename Read (case); hold Read; repair Read (commas, quotes)"
    )
    live = run_governed({"rename": True}, script("openai_chat", events))
    assert live.result.client.headers["x-dragoman-repairs"] == "1: rename Read (case)"
    assert reply.kinds == ["rename", "hold", "repair"]


@pytest.mark.rule("R85")
def test_every_intervention_is_a_line_of_the_log() -> None:
    pieces: list[Piece] = []
    for piece in write_stream(
        "openai_chat", events_of(("Read", "{'path': 'a',}"), cause="tool_calls", pieces=4)
    ):
        pieces += [piece, Wait(0.5)]
    reply = run_governed({"tools": "hold"}, Script(pieces=pieces), client="openai_responses")
    _, repaired = reply.result.record.governance_lines()
    assert repaired == {
        "request": "req_1",
        "client": "openai_responses",
        "model": "m",
        "stream": True,
        "calls": 1,
        "phase": "response",
        "upstream": "openai_chat",
        "target": "up/m",
        "kind": "repair",
        "tool": "Read",
        "detail": "commas, quotes",
        "ok": True,
        "before": 14,
        "after": 13,
        "held_ms": 2500,
    }
    assert reply.result.record.line()["interventions"] == 2


@pytest.mark.rule("R84", "R85")
def test_what_went_wrong_states_why() -> None:
    events = events_of(("Read", "read it ]["), ("Nope", "{}"), cause="tool_calls")
    reply = run_governed(MENDING, script("openai_chat", events))
    lines = {str(line["kind"]): line for line in reply.result.record.governance_lines()}
    assert (lines["unrepairable"]["ok"], lines["unrepairable"]["reason"]) == (False, "parse_failed")
    assert lines["undeclared"]["reason"] == "no such tool was declared"
    assert reply.essence.calls[1] == ("Nope", {})


def test_what_is_kept_of_a_reply_with_very_many_calls_is_bounded() -> None:
    events = events_of(*[("rEAD", "{}")] * 300, cause="tool_calls")
    reply = run_governed({"rename": True}, script("openai_chat", events, stream=False), stream=False)
    record = reply.result.record
    assert len(record.interventions) == 300
    assert len(list(record.interventions)) == 200
    assert len(reply.result.client.headers["x-dragoman-repairs"]) <= 900


def test_counts_report_which_model_misbehaves() -> None:
    bad = events_of(("rEAD", "{'path': 'a'}"), TEXT_CALL, cause="tool_calls")
    upstream = ScriptedUpstream(script("openai_chat", bad), script("openai_chat", events_of(TEXT_CALL)))
    bench = Bench({"up": upstream}, [governed("up", "openai_chat", MENDING)])

    async def scenario() -> None:
        for _ in range(2):
            await bench.run_exchange(question("anthropic"))

    run(scenario())
    assert bench.gateway.intervention_counts.copy_counts() == {
        "up/m": {"replies": 2, "calls": 2, "renamed": 1, "held": 2, "repaired": 1, "harvested": 1}
    }


def test_models_beyond_a_number_are_counted_together() -> None:
    counts = InterventionCounts()
    for number in range(MAX_TARGETS + 10):
        record = record_of(question("anthropic"))
        record.target = TargetName("up", f"m{number}")
        record.tally = Tally()
        record.interventions.reporter(record.target, "openai_chat")(Intervention(kind="rename", tool="a"))
        counts.add(record)
    assert len(counts.copy_counts()) == MAX_TARGETS + 1
    assert counts.copy_counts()["(others)"] == {"replies": 10, "renamed": 10}


def test_every_kind_of_intervention_is_counted_as_something() -> None:
    assert set(COUNTED_AS) == set(get_args(InterventionKind))


@pytest.mark.parametrize(
    ("verdict", "ok", "name"),
    [("rewrite", True, "rewritten"), ("allow", True, "allowed"), ("ask", False, "denied")],
)
def test_a_call_that_was_rewritten_is_not_counted_as_merely_allowed(
    verdict: str, ok: bool, name: str
) -> None:
    assert find_counter_name(Intervention(kind="guard", tool="a", detail=(verdict, "rule"), ok=ok)) == name


def test_several_answers_cannot_be_governed() -> None:
    asked = question("openai_chat", more={"n": 2})
    upstream = ScriptedUpstream(script("openai_chat", events_of("Hi.")))
    result = run(
        Bench({"up": upstream}, [governed("up", "openai_chat", {"guard": ["secrets"]})]).run_exchange(asked)
    )
    assert result.client.status == 400
    assert upstream.calls == []


@pytest.mark.rule("R17")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_model_that_must_call_can_still_answer(client: str, stream: bool) -> None:
    events = events_of((EXIT_NAME, '{"answer": "All done."}'), cause="tool_calls", pieces=3)
    reply = run_governed(
        {"choice": "required"}, script("openai_chat", events, stream=stream), client=client, stream=stream
    )
    sent = msgspec.json.decode(reply.calls[0].body)
    assert sent["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["Read", EXIT_NAME]
    assert reply.essence.text == "All done."
    assert reply.essence.calls == ()
    assert EXIT_NAME.encode() not in reply.result.client.body
    assert reply.kinds == ["choice", "exit"]
    assert [line["phase"] for line in reply.result.record.governance_lines()] == ["request", "response"]


@pytest.mark.rule("R17")
def test_an_explicit_choice_is_never_overridden() -> None:
    asked = question("openai_chat", more={"tool_choice": "none"})
    sent = asked.body
    reply = run_governed(
        {"choice": "required"}, script("openai_chat", events_of("Hi.")), client="openai_chat", asked=asked
    )
    assert reply.calls[0].body == sent


@pytest.mark.rule("H36")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_model_without_function_calling_can_call(client: str, upstream: str, stream: bool) -> None:
    events = events_of(f"I will look.\n{TEXT_CALL}", pieces=4)
    reply = run_governed(
        {"contract": True},
        script(upstream, events, stream=stream),
        client=client,
        upstream=upstream,
        stream=stream,
    )
    sent = reply.calls[0].body
    assert b'"tools"' not in sent
    assert b"# Tools" in sent
    assert reply.essence.text == "I will look."
    assert reply.essence.calls == (("Read", {"path": "a"}),)


@pytest.mark.rule("H22", "H36")
def test_a_free_text_tool_works_in_words_too() -> None:
    tool = {"type": "custom", "name": "apply_patch", "description": "Patches."}
    asked = question("openai_responses", tools=(), more={"tools": [tool]})
    text = '<tool_call>\n{"name": "apply_patch", "arguments": {"input": "*** Begin"}}\n</tool_call>'
    for upstream in ("openai_chat", "openai_responses"):
        asked.body = asked.body or question("openai_responses", tools=(), more={"tools": [tool]}).body
        reply = run_governed(
            {"contract": True},
            script(upstream, events_of(text)),
            client="openai_responses",
            upstream=upstream,
            asked=asked,
        )
        assert reply.essence.calls == (("apply_patch", {"input": "*** Begin"}),)
        assert b"custom_tool_call" in reply.result.client.body


@pytest.mark.rule("H36", "C20")
@pytest.mark.parametrize(("family", "calls"), [("qwen3_coder", 1), (None, 0)])
def test_the_family_that_is_known_of_a_model_can_be_harvested(family: str | None, calls: int) -> None:
    # With an unknown family, a call without its wrapper is not harvested.
    text = "<function=Read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"
    facts = {"call_family": family} if family else {}
    known = msgspec.structs.replace(
        governed("up", "openai_chat", {"harvest": "model"}), models={"m": facts} if facts else {}
    )
    upstream = ScriptedUpstream(script("openai_chat", events_of(text)))
    result = run(Bench({"up": upstream}, [known]).run_exchange(question("anthropic")))
    assert len(read_essence("anthropic", result.client.body).calls) == calls


@pytest.mark.rule("R75")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_call_that_was_made_is_not_also_found_in_the_text(upstream: str, client: str, stream: bool) -> None:
    example = "As in ```\n" + TEXT_CALL + "\n``` or so."
    events = events_of(("Read", '{"path":"b"}'), example + TEXT_CALL, cause="tool_calls", pieces=2)
    reply = run_governed(
        {"harvest": "hermes"},
        script(upstream, events, stream=stream),
        client=client,
        upstream=upstream,
        stream=stream,
    )
    assert reply.essence.calls == (("Read", {"path": "b"}),)


@pytest.mark.rule("R75", "R90")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_server_that_reads_calls_and_leaves_their_text_makes_no_doubles(stream: bool) -> None:
    text = TEXT_CALL + TEXT_CALL.replace('"a"', '"b"')
    structured = [("Read", '{ "path": "a" }'), ("Read", '{"path":"b"}')]
    events = events_of(f"<think>Hm.</think>{text}", *structured, cause="tool_calls", pieces=4)
    reply = run_governed({"harvest": "hermes"}, script("openai_chat", events, stream=stream), stream=stream)
    assert reply.essence.calls == (("Read", {"path": "a"}), ("Read", {"path": "b"}))
    assert reply.essence.thoughts == "Hm."


def test_a_call_beside_the_one_in_the_text_is_another_call() -> None:
    events = events_of(TEXT_CALL, ("Read", '{"path":"b"}'), cause="tool_calls", pieces=2)
    reply = run_governed({"harvest": "hermes"}, script("openai_chat", events))
    assert reply.essence.calls == (("Read", {"path": "a"}), ("Read", {"path": "b"}))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_arguments_can_be_checked_against_their_schema(stream: bool) -> None:
    events = events_of(("Read", '{"path":"a"}'), ("Read", '{"file":5}'), cause="tool_calls")
    reply = run_governed({"validate": True}, script("openai_chat", events, stream=stream), stream=stream)
    assert reply.essence.calls == (("Read", {"path": "a"}), ("Read", {"file": 5}))
    outcomes = [noted.intervention for noted in reply.result.record.interventions]
    assert [(each.kind, each.ok) for each in outcomes] == [("validate", True), ("validate", False)]
    assert "path" in outcomes[1].reason


@pytest.mark.rule("R17")
def test_without_an_exit_the_choice_alone_is_raised() -> None:
    events = events_of(("Read", '{"path":"a"}'), cause="tool_calls")
    reply = run_governed({"choice": "required", "exit": False}, script("openai_chat", events))
    sent = msgspec.json.decode(reply.calls[0].body)
    assert sent["tool_choice"] == "required"
    assert len(sent["tools"]) == 1


@pytest.mark.rule("C15")
def test_the_member_that_shows_broken_arguments_can_be_named() -> None:
    events = events_of(("Read", "read it ]["), cause="tool_calls")
    reply = run_governed({"tools": "hold", "raw_key": "what_came"}, script("openai_chat", events))
    assert reply.essence.calls == (("Read", {"what_came": "read it ]["}),)


def test_more_than_may_be_held_goes_out_as_it_comes() -> None:
    path = "a" * 5000
    events = events_of(("Read", f'{{"path": "{path}"}}'), cause="tool_calls", pieces=20)
    reply = run_governed({"tools": "hold", "hold_bytes": 1024}, script("openai_chat", events))
    assert reply.essence.calls == (("Read", {"path": path}),)
    (let_go,) = [noted.intervention for noted in reply.result.record.interventions]
    assert (let_go.ok, let_go.reason) == (False, "more than may be held")


@pytest.mark.rule("R87", "R88", "C19")
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_shell_commands_are_guarded_the_same_for_everybody(client: str, upstream: str) -> None:
    guard = ["shell_fold", "shell_writes", "git_destructive"]
    blocks: list[Block] = [
        ("shell", '{"command":["ls","|","wc"]}'),
        ("shell", '{"command":"git reset --hard"}'),
        ("Bash", '{"command":"git reset --hard"}'),
    ]
    reply = run_governed(
        {"guard": guard},
        script(upstream, events_of(*blocks, cause="tool_calls")),
        client=client,
        upstream=upstream,
        asked=question(client, tools=("shell", "Bash")),
    )
    assert reply.essence.calls == (
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}),
        ("Bash", {"command": "git reset --hard"}),
    )
    assert "was denied: it would throw away work" in reply.essence.text


def test_a_call_that_needs_consent_is_a_question_to_the_user() -> None:
    rule = {"tools": ["Read"], "verdict": "ask", "reason": "it reads"}
    reply = run_governed(
        {"guard": [rule]}, script("openai_chat", events_of(("Read", "{}"), cause="tool_calls"))
    )
    assert reply.essence.text == "The call of `Read` was held back: it reads. Should it go ahead?"
    assert reply.essence.calls == ()
