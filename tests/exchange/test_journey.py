"""What is sent where: read only when it must be, and let go as soon as it can be."""

import asyncio
import gc
import sys

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.config.model import TargetName
from dragoman.exchange.journey import Journey, renamed
from dragoman.hub.errors import ClientProtocolError
from tests.exchange.clock import run
from tests.exchange.speech import CHAT_START, CHAT_STREAM, chat_text
from tests.exchange.twin import Bench, RememberingClient, Script, ScriptedUpstream, Wait, ask, provider


def journey_of(body: bytes, dialect: str = "openai_chat") -> Journey:
    question = ask(dialect)
    question.body = body
    return Journey(question, clock=lambda: 0.0)


def test_a_glance_tells_the_model_and_whether_to_stream() -> None:
    journey = journey_of(b'{"messages": 5, "stream": true, "model": "m", "other": [{}]}')
    assert (journey.model, journey.stream) == ("m", True)


def test_a_request_that_says_neither_has_no_model_and_no_stream() -> None:
    journey = journey_of(b"{}")
    assert (journey.model, journey.stream) == ("", False)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b'{"model": 5}', b'{"model": "m", "stream": 1}', b"[" * 100_000, b'"\xff"'],
)
def test_what_cannot_be_glanced_at_is_refused_by_the_reader(body: bytes) -> None:
    with pytest.raises(ClientProtocolError):
        journey_of(body)


def test_a_renamed_request_keeps_the_order_and_spelling_of_everything() -> None:
    body = b'{"b": 1.0e1, "model" :"a", "a":[1 , 2],"\\u0063": "\\u00e9"}'
    assert renamed(body, "z") == b'{"b":1.0e1,"model":"z","a":[1 , 2],"c":"\\u00e9"}'


def test_a_request_without_a_model_gets_one() -> None:
    assert msgspec.json.decode(renamed(b'{"a":1}', "z")) == {"a": 1, "model": "z"}


def test_facts_that_ask_for_a_change_rule_out_forwarding() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": [picture]}]})
    blind = msgspec.structs.replace(provider("up"), models={"*": {"images": False}})
    leg = journey_of(body).leg(blind, TargetName("up", "m"), strict=False)
    assert leg.lane == "write"
    assert b"image_url" not in leg.call(0).body
    assert leg.losses


def test_facts_that_ask_for_nothing_allow_forwarding() -> None:
    body = b'{"model":"m", "messages":[{"role":"user","content":"hello"}]}'
    blind = msgspec.structs.replace(provider("up"), models={"*": {"images": False}})
    leg = journey_of(body).leg(blind, TargetName("up", "m"), strict=False)
    assert leg.lane == "forward"
    assert leg.call(0).body is body


CLAUDE = load("[providers.anthropic]\n", "dragoman.toml", {"ANTHROPIC_API_KEY": "k"}).providers["anthropic"]
THINKING = (
    b'{"model":"claude-opus-5-5", "max_tokens":100000, "thinking":{"type":"adaptive"}, '
    b'"messages":[{"role":"user","content":"hello"}]}'
)


def test_a_vendors_own_client_is_trusted_with_the_model_it_names() -> None:
    leg = journey_of(THINKING, "anthropic").leg(
        CLAUDE, TargetName("anthropic", "claude-opus-5-5"), strict=False
    )
    assert leg.lane == "forward"
    assert leg.call(0).body is THINKING


def test_the_catalogue_holds_for_a_client_that_gets_another_model_than_it_named() -> None:
    leg = journey_of(THINKING, "anthropic").leg(
        CLAUDE, TargetName("anthropic", "claude-haiku-4-5"), strict=False
    )
    sent = msgspec.json.decode(leg.call(0).body)
    assert (sent["thinking"]["type"], sent["max_tokens"]) == ("enabled", 64_000)


def test_a_budget_becomes_an_effort_for_a_model_that_takes_no_budgets() -> None:
    body = THINKING.replace(b'{"type":"adaptive"}', b'{"type":"enabled","budget_tokens":2000}')
    leg = journey_of(body, "anthropic").leg(CLAUDE, TargetName("anthropic", "claude-fable-5-1"), strict=False)
    sent = msgspec.json.decode(leg.call(0).body)
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


def test_headers_go_on_to_an_upstream_of_the_same_dialect_only() -> None:
    question = ask("anthropic", headers={"anthropic-beta": "x"})
    journey = Journey(question, clock=lambda: 0.0)
    own = journey.leg(provider("a", "anthropic"), TargetName("a", "model"), strict=False)
    foreign = journey.leg(provider("b"), TargetName("b", "model"), strict=False)
    assert own.call(0).headers == {"anthropic-beta": "x"}
    assert foreign.call(0).headers == {}


@pytest.mark.rule("P74")
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini"])
def test_the_request_is_let_go_when_the_reply_begins(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("x"), Wait(50), *CHAT_STREAM[3:]]))
    bench = Bench({"up": upstream}, ping=0)

    async def scenario() -> None:
        question = ask(dialect)
        body = question.body
        running = asyncio.ensure_future(bench.exchange(question, RememberingClient()).run())
        await asyncio.sleep(10)
        upstream.calls.clear()
        gc.collect()
        assert sys.getrefcount(body) == 2
        await running

    run(scenario())
