"""What is sent where: read only when it must be, and let go as soon as it can be."""

import asyncio
import gc
import sys

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import Exchange
from dragoman.governance.settings import Governance
from dragoman.hub.errors import ClientProtocolError
from dragoman.pipeline.plan import RequestPlan
from dragoman.tokens.request import estimate_from_samples
from dragoman.tokens.text import TOKENIZERS
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, RememberingClient, Script, ScriptedUpstream, Wait, ask, provider
from tests.exchange.sample_replies import CHAT_START, CHAT_STREAM, chat_text


def plan_of(body: bytes, dialect: str = "openai_chat") -> RequestPlan:
    plan = RequestPlan(ask(dialect).metadata, body)
    plan.peek()
    return plan


def rename(body: bytes, model: str) -> bytes:
    return dialect_named("openai_chat").forwarding.rename_model(body, model)


def test_a_glance_reports_the_model_and_whether_to_stream() -> None:
    plan = plan_of(b'{"messages": 5, "stream": true, "model": "m", "other": [{}]}')
    assert (plan.model, plan.stream) == ("m", True)


def test_a_request_that_states_neither_has_no_model_and_no_stream() -> None:
    plan = plan_of(b"{}")
    assert (plan.model, plan.stream) == ("", False)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b'{"model": 5}', b'{"model": "m", "stream": 1}', b"[" * 100_000, b'"\xff"'],
)
def test_what_cannot_be_glanced_at_is_refused_by_the_reader(body: bytes) -> None:
    with pytest.raises(ClientProtocolError):
        plan_of(body)


def test_a_renamed_request_keeps_the_order_and_spelling_of_everything() -> None:
    body = b'{"b": 1.0e1, "model" :"a", "a":[1 , 2],"\\u0063": "\\u00e9"}'
    assert rename(body, "z") == b'{"b":1.0e1,"model":"z","a":[1 , 2],"c":"\\u00e9"}'


def test_a_request_without_a_model_gets_one() -> None:
    assert msgspec.json.decode(rename(b'{"a":1}', "z")) == {"a": 1, "model": "z"}


def test_tokens_are_estimated_for_every_tokenizer_and_anew_after_a_change() -> None:
    words = "some words and 12 numbers, " * 500
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    message = {"role": "system", "content": words}
    plan = plan_of(msgspec.json.encode({"model": "m", "messages": [message], "tools": [tool]}))
    for tokenizer in TOKENIZERS:
        assert plan.estimate_tokens(tokenizer) == estimate_from_samples(plan.request, tokenizer)
    long = plan.estimate_tokens("claude")
    plan.remove_instruction(words)
    assert plan.estimate_tokens("claude") < long / 3


def test_facts_that_ask_for_a_change_rule_out_forwarding() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": [picture]}]})
    blind = msgspec.structs.replace(provider("up"), models={"*": {"images": False}})
    leg = plan_of(body).build_target_request(blind, "m")
    assert leg.lane == "translate"
    assert b"image_url" not in leg.body
    assert leg.losses


@pytest.mark.rule("F10")
@pytest.mark.parametrize("governance", [Governance(), Governance(tools="hold")])
def test_a_request_is_held_to_the_rules_of_its_vendor_only_if_another_dialect_answers(
    governance: Governance,
) -> None:
    body = (
        b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"Read"}]}'
    )
    plan = plan_of(body, "anthropic")
    with pytest.raises(ClientProtocolError) as caught:
        plan.build_target_request(provider("up"), "m", governance=governance)
    assert caught.value.path == "tools[0].input_schema"
    own = msgspec.structs.replace(provider("up"), dialect="anthropic", models={"*": {"images": False}})
    assert plan.build_target_request(own, "m", governance=governance).body == body


def test_facts_that_ask_for_nothing_allow_forwarding() -> None:
    body = b'{"model":"m", "messages":[{"role":"user","content":"hello"}]}'
    blind = msgspec.structs.replace(provider("up"), models={"*": {"images": False}})
    leg = plan_of(body).build_target_request(blind, "m")
    assert leg.lane == "forward"
    assert leg.body is body


CLAUDE = load("[providers.anthropic]\n", "dragoman.toml", {"ANTHROPIC_API_KEY": "k"}).providers["anthropic"]
THINKING = (
    b'{"model":"claude-opus-5-5", "max_tokens":100000, "thinking":{"type":"adaptive"}, '
    b'"messages":[{"role":"user","content":"hello"}]}'
)


def test_a_vendors_own_client_is_trusted_with_the_model_it_names() -> None:
    leg = plan_of(THINKING, "anthropic").build_target_request(CLAUDE, "claude-opus-5-5")
    assert leg.lane == "forward"
    assert leg.body is THINKING


def test_the_catalogue_holds_for_a_client_that_gets_another_model_than_it_named() -> None:
    leg = plan_of(THINKING, "anthropic").build_target_request(CLAUDE, "claude-haiku-4-5")
    sent = msgspec.json.decode(leg.body)
    assert (sent["thinking"]["type"], sent["max_tokens"]) == ("enabled", 64_000)


def test_a_budget_becomes_an_effort_for_a_model_that_takes_no_budgets() -> None:
    body = THINKING.replace(b'{"type":"adaptive"}', b'{"type":"enabled","budget_tokens":2000}')
    leg = plan_of(body, "anthropic").build_target_request(CLAUDE, "claude-fable-5-1")
    sent = msgspec.json.decode(leg.body)
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "low"})


@pytest.mark.parametrize(
    ("dialect", "headers"), [("anthropic", {"anthropic-beta": "x"}), ("openai_chat", {})]
)
def test_headers_go_on_to_an_upstream_of_the_same_dialect_only(dialect: str, headers: dict[str, str]) -> None:
    upstream = ScriptedUpstream(Script(pieces=CHAT_STREAM))
    bench = Bench({"up": upstream}, [provider("up", dialect, retries=0)])
    run(bench.run_exchange(ask("anthropic", headers={"anthropic-beta": "x"})))
    assert upstream.calls[0].headers == headers


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses", "gemini"])
def test_an_alias_within_one_dialect_is_patched_and_not_read(dialect: str) -> None:
    """The body is not even valid for the reader: only the model's name may be looked at."""
    body = b'{"model":"alias", "messages":"?", "input":5, "contents":"?", "n":[1 , 2]}'
    client = msgspec.structs.replace(ask(dialect).metadata, model="alias" if dialect == "gemini" else "")
    plan = RequestPlan(client, body)
    plan.peek()
    request = plan.build_target_request(provider("up", dialect), "real")
    assert request.lane == "patch"
    name = b"alias" if dialect == "gemini" else b"real"
    assert request.body.replace(b" ", b"") == body.replace(b"alias", name).replace(b" ", b"")


@pytest.mark.rule("P74")
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini"])
def test_the_request_is_let_go_when_the_reply_begins(dialect: str) -> None:
    upstream = ScriptedUpstream(Script(pieces=[CHAT_START, chat_text("x"), Wait(50), *CHAT_STREAM[3:]]))
    bench = Bench({"up": upstream}, ping=0)

    async def scenario() -> None:
        question = ask(dialect)
        body = bytes(bytearray(question.body))
        plan = RequestPlan(question.metadata, body)
        running = asyncio.ensure_future(Exchange(bench.gateway, plan, RememberingClient()).run())
        await asyncio.sleep(10)
        upstream.calls.clear()
        gc.collect()
        assert sys.getrefcount(body) == 2
        await running

    run(scenario())


@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
def test_a_reply_may_be_prepared_before_its_head_has_come(upstream: str, content_type: str) -> None:
    body = msgspec.json.encode(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    )
    built = [plan_of(body).build_target_request(provider("p", dialect=upstream), "m") for _ in range(2)]
    built[0].prepare_reply()
    ready, late = (request.start_reply(content_type) for request in built)
    assert type(ready) is type(late)
    stream = (
        b"".join(CHAT_STREAM) if upstream == "openai_chat" else b'event: error\ndata: {"type":"error"}\n\n'
    )
    assert list(ready.feed(stream)) == list(late.feed(stream))
    # A prepared reply serves one call. The next call of the target gets another.
    assert built[0].start_reply(content_type) is not ready
