"""Denied calls go back to the model within the same turn, a bounded number of times, never to the client."""

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import JSON, SSE, Bench, Break, Script, ScriptedUpstream
from tests.exchange.governing import Json, events_of, governed, question, run_governed, script, write_stream
from tests.exchange.sample_replies import DIALECTS, error

RULE = {"tools": ["Read"], "pattern": "secret", "verdict": "deny", "reason": "secrets are not read"}
ASKING: dict[str, object] = {"guard": [RULE], "on_denied": "model"}
DENIED = ("Read", '{"path":"secret"}')
ALLOWED = ("Read", '{"path":"notes"}')
REASON = "The call of `Read` was denied: secrets are not read."


def messages(call: object) -> list[Json]:
    """What a Chat upstream was asked."""
    body = msgspec.json.decode(getattr(call, "body", b""), type=dict)
    return list(body["messages"])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_the_model_is_reported_why_and_goes_on_in_the_same_reply(
    upstream: str, client: str, stream: bool
) -> None:
    first = events_of("Let me see.", DENIED, cause="tool_calls")
    second = events_of("Then the notes.", ALLOWED, cause="tool_calls")
    reply = run_governed(
        ASKING,
        script(upstream, first, stream=stream),
        script(upstream, second, stream=stream),
        client=client,
        upstream=upstream,
        stream=stream,
    )
    assert reply.essence.text == "Let me see.Then the notes."
    assert reply.essence.calls == (("Read", {"path": "notes"}),)
    assert len(reply.calls) == 2
    assert REASON.replace("`", "") in reply.calls[1].body.decode().replace("`", "").replace("\\u0060", "")
    assert b"secret" not in reply.result.client.body
    assert reply.kinds == ["guard"]


def test_the_client_sees_one_reply_with_the_tokens_of_both() -> None:
    first, second = events_of(DENIED, cause="tool_calls"), events_of("No then.")
    reply = run_governed(ASKING, script("openai_chat", first), script("openai_chat", second))
    assert reply.result.client.body.count(b"event: message_start") == 1
    assert reply.result.record.tally is not None
    assert reply.result.record.tally.usage is not None
    assert reply.result.record.tally.usage.output == 10
    # The charged usage has both prompts.
    assert reply.result.record.used.input == 2 * (reply.result.record.tally.usage.input or 0)
    assert reply.result.record.ending == "finished"


def test_each_question_holds_the_ones_before_it() -> None:
    denied = script("openai_chat", events_of(DENIED, cause="tool_calls"))
    reply = run_governed(ASKING, denied, denied, script("openai_chat", events_of("I give up.")))
    assert [len(messages(call)) for call in reply.calls] == [1, 3, 5]
    assert [message["role"] for message in messages(reply.calls[2])] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
    ]
    assert reply.essence.text == "I give up."


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_stubborn_model_is_not_asked_for_ever(stream: bool) -> None:
    reply = run_governed(
        ASKING, script("openai_chat", events_of(DENIED, cause="tool_calls"), stream=stream), stream=stream
    )
    assert len(reply.calls) == 4
    assert reply.essence.text == REASON
    assert reply.essence.calls == ()


def test_by_default_the_client_is_reported() -> None:
    reply = run_governed({"guard": [RULE]}, script("openai_chat", events_of(DENIED, cause="tool_calls")))
    assert len(reply.calls) == 1
    assert reply.essence.text == REASON


def test_nothing_is_asked_again_if_another_call_goes_to_the_client() -> None:
    both = events_of(DENIED, ALLOWED, cause="tool_calls")
    reply = run_governed(ASKING, script("openai_chat", both))
    assert len(reply.calls) == 1
    assert reply.essence.calls == (("Read", {"path": "notes"}),)
    assert reply.essence.text == REASON


def test_a_contract_reports_the_model_in_words_too() -> None:
    text = '<tool_call>\n{"name": "Read", "arguments": {"path": "secret"}}\n</tool_call>'
    reply = run_governed(
        {**ASKING, "contract": True},
        script("openai_chat", events_of(text)),
        script("openai_chat", events_of("Sorry.")),
    )
    assert reply.essence.text == "Sorry."
    *_, denied, answer = messages(reply.calls[1])
    assert (denied["role"], answer["role"]) == ("assistant", "user")
    assert "<tool_call>" in str(denied["content"])
    assert "<tool_response>" in str(answer["content"])
    assert "secrets are not read" in str(answer["content"])


def test_a_failure_before_anything_was_sent_is_tried_again_from_the_start() -> None:
    upstream = ScriptedUpstream(
        script("openai_chat", events_of(DENIED, cause="tool_calls")),
        Script(status=503, pieces=(error("busy"),), headers={"content-type": JSON}),
        script("openai_chat", events_of("Hello.")),
    )
    result = run(
        Bench({"up": upstream}, [governed("up", "openai_chat", ASKING)]).run_exchange(question("anthropic"))
    )
    assert [len(messages(call)) for call in upstream.calls] == [1, 3, 1]
    assert read_essence("anthropic", result.client.body).text == "Hello."


@pytest.mark.parametrize(
    "broken",
    [
        Script(status=503, pieces=(error("busy"),), headers={"content-type": JSON}),
        Script(pieces=(*write_stream("openai_chat", events_of("Then", pieces=2))[:2], Break())),
        Script(pieces=(), headers={"content-type": SSE}),
    ],
    ids=["refused", "broke off", "empty"],
)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_failure_after_something_was_sent_is_reported(client: str, broken: Script) -> None:
    upstream = ScriptedUpstream(
        script("openai_chat", events_of("Let me see.", DENIED, cause="tool_calls")), broken
    )
    result = run(
        Bench({"up": upstream}, [governed("up", "openai_chat", ASKING)]).run_exchange(question(client))
    )
    assert dialect_named(client).check_stream(result.client.body) == []
    assert result.record.ending in ("failed", "truncated")
    assert result.record.failure is not None
    assert len(upstream.calls) == 2
