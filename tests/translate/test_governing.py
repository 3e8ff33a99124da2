"""Governance in the library: the same call for the request and for its reply."""

import msgspec
import pytest

from dragoman import Governance, StreamTranslator, translate_reply, translate_request
from dragoman.hub.events import ReplyEvent
from tests.cases.essence import said
from tests.exchange.governing import events_of, spoken
from tests.translate.asking import DIALECTS, asking

MENDING = Governance(tools="hold", harvest="auto", rename=True)


def chat_reply(events: list[ReplyEvent]) -> list[bytes]:
    return spoken("openai_chat", events)


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
    assert said(client, stream).calls == (("Read", {"path": "a"}),)
    assert [each.kind for each in translator.interventions] == ["rename", "hold", "repair"]


@pytest.mark.parametrize("client", DIALECTS)
def test_a_whole_reply_can_be_governed(client: str) -> None:
    body = msgspec.json.encode(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "rEAD", "arguments": "{'path': 'a'}"},
                            }
                        ],
                    },
                    "finish_reason": "tool_calls",
                }
            ],
        }
    )
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


@pytest.mark.rule("R17")
def test_a_request_is_changed_only_where_governance_says_so() -> None:
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
