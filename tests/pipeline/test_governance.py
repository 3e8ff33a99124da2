"""Governance in the library: the same call for the request and for its reply."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import Governance, StreamTranslator, translate_reply, translate_request
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import read_governance
from dragoman.hub.errors import ConfigError
from dragoman.hub.events import ReplyEvent
from dragoman.hub.stage import Sequencer
from tests.cases.essence import read_essence
from tests.dialects.strategies import replies
from tests.exchange.governing import events_of, question, run_governed, script, write_stream
from tests.pipeline.asking import DIALECTS, asking, chat_reply_with_call

MENDING = Governance(tools="hold", harvest="auto", rename=True)


def chat_reply(events: list[ReplyEvent]) -> list[bytes]:
    return write_stream("openai_chat", events)


@pytest.mark.rule("R74", "R90")
@pytest.mark.parametrize("client", DIALECTS)
def test_a_streamed_reply_can_be_governed(client: str) -> None:
    translator = StreamTranslator(
        source="openai_chat",
        target=client,
        request=asking(client, tools=["Read"]),
        model="m",
        governance=MENDING,
    )
    events = events_of(("rEAD", "{'path': 'a'}"), cause="tool_calls", pieces=4)
    stream = b"".join(translator.feed(piece) for piece in chat_reply(events)) + translator.close()
    assert read_essence(client, stream).calls == (("Read", {"path": "a"}),)
    assert [each.kind for each in translator.interventions] == ["rename", "hold", "repair"]


@pytest.mark.parametrize("client", DIALECTS)
def test_a_whole_reply_can_be_governed(client: str) -> None:
    body = chat_reply_with_call("rEAD", "{'path': 'a'}")
    translated = translate_reply(
        body,
        source="openai_chat",
        target=client,
        request=asking(client, tools=["Read"]),
        model="m",
        governance=MENDING,
    )
    assert [each.kind for each in translated.interventions] == ["rename", "hold", "repair"]
    assert b"rEAD" not in msgspec.json.encode(translated.body)


@pytest.mark.rule("G7")
@pytest.mark.parametrize("mode", ["hold", "auto"])
def test_a_whole_reply_is_governed_as_a_whole(mode: str) -> None:
    """Arguments that fail in a stream are repaired; text next to a structured call is not harvested."""
    call = {"id": "1", "type": "function", "function": {"name": "Read", "arguments": '{"path": "a"b""}'}}
    text = '<tool_call>\n{"name": "Read", "arguments": {"path": "a"}}\n</tool_call>'
    message = {"role": "assistant", "content": text, "tool_calls": [call]}
    body = {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
    translated = translate_reply(
        msgspec.json.encode(body),
        source="openai_chat",
        target="openai_chat",
        request=asking("openai_chat", tools=["Read"]),
        governance=Governance(tools=mode, harvest="auto"),  # type: ignore[arg-type]  # both are modes
    ).body
    answer = msgspec.json.decode(msgspec.json.encode(translated))["choices"][0]["message"]
    assert [each["function"]["arguments"] for each in answer["tool_calls"]] == ['{"path": "a\\"b\\""}']
    assert answer["content"] == text


@pytest.mark.rule("R17")
def test_a_request_is_changed_only_where_governance_reports_it() -> None:
    request = asking("anthropic", tools=["Read"])
    plain = translate_request(request, source="anthropic", target="openai_chat")
    mended = translate_request(request, source="anthropic", target="openai_chat", governance=MENDING)
    assert mended.body == plain.body
    raised = translate_request(
        request, source="anthropic", target="openai_chat", governance=Governance(choice="required")
    )
    assert raised.body["tool_choice"] == "required"
    assert [each.kind for each in raised.interventions] == ["choice"]


def test_governance_that_asks_for_nothing_changes_nothing() -> None:
    request = asking("anthropic", tools=["Read"])
    events = events_of(("rEAD", "{'path': 'a'}"), cause="tool_calls", pieces=4)
    streams = []
    for governance in (None, Governance()):
        translator = StreamTranslator(
            source="openai_chat", target="anthropic", request=request, governance=governance
        )
        streams.append(b"".join(map(translator.feed, chat_reply(events))) + translator.close())
        assert translator.interventions == ()
    assert streams[0] == streams[1]


GOVERNANCES = [
    MENDING,
    Governance(tools="auto", harvest="auto", rename=True, dedupe=True, validate=True),
    Governance(tools="hold", harvest="hermes", on_unrepairable="error", hold_bytes=1024),
    Governance(choice="required", contract=True, guard=read_governance({"guard": ["secrets"]}).guard),
]


@pytest.mark.rule("R74", "C11")
@given(
    events=replies(),
    governance=st.sampled_from(GOVERNANCES),
    client=st.sampled_from(DIALECTS),
    upstream=st.sampled_from(DIALECTS),
    size=st.integers(1, 200),
)
@settings(max_examples=150, deadline=None)
def test_whatever_comes_the_client_gets_a_legal_stream(
    events: list[ReplyEvent], governance: Governance, client: str, upstream: str, size: int
) -> None:
    sequencer = Sequencer()
    in_order = [after for event in events for after in sequencer.feed(event)]
    stream = b"".join(write_stream(upstream, in_order))
    results = []
    for cut in (size, len(stream) + 1):
        translator = StreamTranslator(
            source=upstream,
            target=client,
            request=asking(client, tools=["Read", "f"]),
            model="m",
            governance=governance,
        )
        pieces = [stream[start : start + cut] for start in range(0, len(stream), cut)]
        out = b"".join(map(translator.feed, pieces)) + translator.close()
        assert dialect_named(client).check_stream(out) == []
        results.append(read_essence(client, out))
    assert results[0] == results[1]


@pytest.mark.rule("R81")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", DIALECTS)
def test_no_client_gets_half_a_command_even_without_governance(client: str, stream: bool) -> None:
    events = events_of(("Read", '{"path": "rm -r a\n b"}'), cause="tool_calls", pieces=3)
    outcome = run_governed({}, script("openai_chat", events, stream=stream), client=client, stream=stream)
    for _, arguments in outcome.essence.calls:
        assert not (isinstance(arguments, dict) and arguments.get("path"))


WRITTEN = '<tool_call>\n{"name": "Read", "arguments": {"path": "secrets"}}\n</tool_call>'


@pytest.mark.rule("G3")
@pytest.mark.parametrize("family", ["auto", "hermes"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", DIALECTS)
def test_no_client_gets_a_call_that_its_own_request_contains(client: str, stream: bool, family: str) -> None:
    plain = question(client, stream=stream)
    quoting = question(client, stream=stream)
    quoting.body = quoting.body.replace(b'"Hi"', msgspec.json.encode(f"What is this?\n{WRITTEN}"))
    for asked, calls in ((plain, (("Read", {"path": "secrets"}),)), (quoting, ())):
        reply = script("openai_chat", events_of(WRITTEN), stream=stream)
        governed_reply = run_governed({"harvest": family}, reply, client=client, asked=asked, stream=stream)
        assert governed_reply.essence.calls == calls


@pytest.mark.rule("G3")
@pytest.mark.parametrize("client", DIALECTS)
def test_only_calls_of_the_last_message_prove_that_the_server_parses_calls(client: str) -> None:
    called = '{"id":"call_x","type":"function","function":{"name":"Read","arguments":"{\\"path\\":\\"a\\"}"}}'
    earlier: list[object] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [msgspec.json.decode(called)]},
        {"role": "tool", "tool_call_id": "call_x", "content": "a"},
    ]
    later: list[object] = [
        *earlier,
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "b"},
    ]
    for messages, calls in ((earlier, ()), (later, (("Read", {"path": "secrets"}),))):
        body = asking("openai_chat", tools=["Read"]) | {"messages": messages}
        asked = question(client)
        translated = translate_request(body, source="openai_chat", target=client).body
        asked.body = msgspec.json.encode(translated | ({} if client == "gemini" else {"stream": True}))
        governed_reply = run_governed(
            {"harvest": "auto"}, script("openai_chat", events_of(WRITTEN)), client=client, asked=asked
        )
        assert governed_reply.essence.calls == calls


@pytest.mark.rule("S11")
def test_a_family_that_is_unknown_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match="harvest: expected"):
        Governance(harvest="nonsense")
