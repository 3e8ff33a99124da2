"""Payload rules of a provider: every client's request arrives edited, and a response header reports it."""

import msgspec
import pytest

from dragoman.pipeline.payload import PayloadRule
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, Script, ScriptedUpstream, ask, provider
from tests.exchange.governing import events_of, governed, question, script
from tests.exchange.sample_replies import ANTHROPIC_STREAM, CHAT_STREAM, DIALECTS, GEMINI_STREAM

RULES = (
    PayloadRule(models="other*", set={"never": True}),
    PayloadRule(when_present="absent", set={"never": True}),
    PayloadRule(models="mod*", set={"thinking.type": "enabled"}, default={"temperature": 0.2}),
    PayloadRule(remove=("stream_options",)),
)
STREAMS = {"anthropic": ANTHROPIC_STREAM, "openai_chat": CHAT_STREAM, "gemini": GEMINI_STREAM}

OWN = "own system text"
SYSTEM: dict[str, dict[str, object]] = {
    "anthropic": {"system": OWN},
    "openai_chat": {"messages": [{"role": "system", "content": OWN}, {"role": "user", "content": "hi"}]},
    "openai_responses": {"instructions": OWN},
    "gemini": {"systemInstruction": {"parts": [{"text": OWN}]}},
}


@pytest.mark.parametrize("upstream_dialect", STREAMS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_of_every_client_is_edited(dialect: str, upstream_dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=STREAMS[upstream_dialect]))
    made = msgspec.structs.replace(provider("up", upstream_dialect), payload=RULES)
    outcome = run(Bench({"up": upstream}, [made]).run_exchange(ask(dialect)))
    sent = msgspec.json.decode(upstream.calls[0].body, type=dict[str, object])
    assert outcome.client.status == 200
    assert (sent["thinking"], sent["temperature"]) == ({"type": "enabled"}, 0.2)
    assert not {"never", "stream_options"} & set(sent)
    assert outcome.record.lane == ("patch" if dialect == upstream_dialect else "translate")
    assert "thinking.type: set by a payload rule" in outcome.client.headers["x-dragoman-losses"]


def test_a_request_that_no_rule_changes_keeps_its_bytes() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    made = msgspec.structs.replace(provider("up", "anthropic"), payload=RULES[:2])
    question = ask("anthropic")
    outcome = run(Bench({"up": upstream}, [made]).run_exchange(question))
    assert upstream.calls[0].body == question.body
    assert outcome.record.lane == "forward"


def test_the_rules_are_no_loss_that_a_strict_route_refuses() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    made = msgspec.structs.replace(provider("up", "anthropic"), payload=RULES)
    outcome = run(Bench({"up": upstream}, [made], strict=True).run_exchange(ask("anthropic")))
    assert outcome.client.status == 200


def test_a_body_that_is_no_json_is_refused_in_the_clients_dialect() -> None:
    upstream = ScriptedUpstream(Script(pieces=ANTHROPIC_STREAM))
    made = msgspec.structs.replace(provider("up", "anthropic"), payload=RULES)
    question = ask("anthropic")
    broken = msgspec.structs.replace(question, body=question.body[:-1] + b",}")
    outcome = run(Bench({"up": upstream}, [made]).run_exchange(broken))
    assert outcome.client.status == 400
    assert not upstream.calls


def test_later_rounds_of_a_reply_are_edited_too() -> None:
    rule = {"tools": ["Read"], "pattern": "secret", "verdict": "deny", "reason": "secrets are not read"}
    denied = events_of(("Read", '{"path":"secret"}'), cause="tool_calls")
    upstream = ScriptedUpstream(script("openai_chat", denied), script("openai_chat", events_of("No then.")))
    made = governed("up", "openai_chat", {"guard": [rule], "on_denied": "model"})
    made = msgspec.structs.replace(made, payload=(*RULES[3:], PayloadRule(set={"top_k": 5})))
    outcome = run(Bench({"up": upstream}, [made]).run_exchange(question("anthropic")))
    sent = [msgspec.json.decode(call.body, type=dict[str, object]) for call in upstream.calls]
    assert outcome.client.status == 200
    assert [body["top_k"] for body in sent] == [5, 5]
    assert not any("stream_options" in body for body in sent)


class InputItem(msgspec.Struct):
    role: str = ""
    content: object = None


class ResponsesBody(msgspec.Struct):
    instructions: str
    input: list[InputItem]


@pytest.mark.rule("C24")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_responses_server_gets_its_own_instructions_from_every_client(dialect: str) -> None:
    upstream = ScriptedUpstream(script("openai_responses", events_of("good day")))
    facts: dict[str, object] = {"instructions": "You are a coding agent."}
    made = msgspec.structs.replace(provider("up", "openai_responses"), models={"*": facts})
    bench = Bench({"up": upstream}, [made])
    for _ in range(2):
        assert run(bench.run_exchange(question(dialect, more=SYSTEM[dialect]))).client.status == 200
    first, again = (msgspec.json.decode(call.body, type=ResponsesBody) for call in upstream.calls)
    assert first.instructions == again.instructions == "You are a coding agent."
    own = first.input[0]
    assert (own.role, OWN in str(own.content)) == ("developer", True)
    assert str(first.input).count(OWN) == 1


@pytest.mark.rule("C24")
def test_instructions_that_are_already_there_are_not_repeated() -> None:
    upstream = ScriptedUpstream(script("openai_responses", events_of("good day")))
    made = msgspec.structs.replace(provider("up", "openai_responses"), models={"*": {"instructions": OWN}})
    run(Bench({"up": upstream}, [made]).run_exchange(question("anthropic", more=SYSTEM["anthropic"])))
    sent = msgspec.json.decode(upstream.calls[0].body, type=ResponsesBody)
    assert (sent.instructions, OWN in str(sent.input)) == (OWN, False)
