"""Calls of the gateway's own tools: taken out, run, answered; the client sees one legal reply."""

import asyncio
import gc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.accounts.keys import Caller
from dragoman.accounts.limits import BudgetUse, Limits, Unit
from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.tools import ToolsSettings
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import Exchange
from dragoman.gateway_tools.tool import GatewayTool, ToolFailed, ToolOffer, ToolOutcome, ToolRun
from dragoman.hub.blocks import Citation, Reasoning, Text, ToolCall
from dragoman.hub.request import Request
from dragoman.hub.usage import Usage
from dragoman.providers.profile import TargetFacts
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import JSON, Ask, Bench, Script, ScriptedUpstream, provider
from tests.exchange.governing import Json, governed, question, script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import (
    NAME,
    SECRET,
    LookUp,
    check_history,
    events_of_round,
    read_asked,
    texts_of_results,
    use_tools,
)
from tests.sse import collect_sse, explode_sse

replace = msgspec.structs.replace
Block = Text | Reasoning | ToolCall
OWN = "Read"


def call(name: str, number: int) -> ToolCall:
    key = "query" if name == NAME else "path"
    return ToolCall(id=f"call_{number}abcdefgh", name=name, arguments=f'{{"{key}":"q{number}"}}')


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Block]]:
    """The answers of a model: text, reasoning, calls of the gateway's tool and of the client's tool."""
    rounds: list[list[Block]] = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        blocks: list[Block] = []
        for kind in draw(st.lists(st.sampled_from(("text", "reasoning", NAME, OWN)), min_size=1, max_size=4)):
            number += 1
            if kind == "text":
                blocks.append(Text(text=f"text {number}. "))
            elif kind == "reasoning":
                blocks.append(Reasoning(parts=(f"thought {number}. ",), raw=True))
            else:
                blocks.append(call(kind, number))
        if all(isinstance(block, Reasoning) for block in blocks):
            # A reply without an answer is a failure.
            blocks.append(Text(text=f"answer {number}. "))
        rounds.append(blocks)
    rounds.append([Text(text="The end.")])
    return rounds


def find_shown(rounds: list[list[Block]]) -> list[list[Block]]:
    """The rounds up to the one that ends the reply: without a hidden call, or with a call of the client's."""
    for number, blocks in enumerate(rounds, 1):
        names = [block.name for block in blocks if isinstance(block, ToolCall)]
        if NAME not in names or OWN in names:
            return rounds[:number]
    return rounds


def answer_calls(dialect: str, body: Json, reply: dict[str, Any]) -> Json:
    """The client's next request: the reply it got, and a result for each of its calls."""
    match dialect:
        case "anthropic":
            content = reply["content"]
            ids = [each["id"] for each in content if each["type"] == "tool_use"]
            results: list[object] = [
                {"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in ids
            ]
            messages = [
                {"role": "assistant", "content": content},
                {"role": "user", "content": results or "And?"},
            ]
        case "openai_chat":
            message = reply["choices"][0]["message"]
            ids = [each["id"] for each in message.get("tool_calls") or ()]
            messages = [message, *({"role": "tool", "tool_call_id": each, "content": "ok"} for each in ids)]
            messages += [] if ids else [{"role": "user", "content": "And?"}]
        case "openai_responses":
            output = reply["output"]
            ids = [each["call_id"] for each in output if each["type"] == "function_call"]
            items = [{"type": "function_call_output", "call_id": each, "output": "ok"} for each in ids]
            first: list[Json] = [{"role": "user", "content": "Hi"}]
            return {**body, "input": [*first, *output, *(items or [{"role": "user", "content": "And?"}])]}
        case _:
            content = reply["candidates"][0]["content"]
            parts = content["parts"]
            answers: list[object] = [
                {"functionResponse": {"name": OWN, "response": {"output": "ok"}, **_id(part["functionCall"])}}
                for part in parts
                if "functionCall" in part
            ]
            contents = body["contents"]
            assert isinstance(contents, list)
            return {
                **body,
                "contents": [
                    *contents,
                    content,
                    {"role": "user", "parts": answers or [{"text": "And?"}]},
                ],
            }
    earlier = body["messages"]
    assert isinstance(earlier, list)
    return {**body, "messages": [*earlier, *messages]}


def _id(function_call: Json) -> Json:
    return {"id": function_call["id"]} if "id" in function_call else {}


#: Micro-dollars per token.
PRICES = {"price_input": 10.0, "price_cache_read": 1.0, "price_output": 100.0}


@pytest.mark.rule("R77", "R78")
@settings(max_examples=80, deadline=None)
@given(
    rounds=conversations(),
    client=st.sampled_from(DIALECTS),
    upstream=st.sampled_from(DIALECTS),
    stream=st.booleans(),
)
def test_any_interleaving_is_one_legal_reply_and_a_legal_history(
    rounds: list[list[Block]], client: str, upstream: str, stream: bool
) -> None:
    shown = find_shown(rounds)
    usage = Usage(input=100, output=7, cache_read=60)
    scripts = [
        script(upstream, events_of_round(n, blocks, usage), stream=stream) for n, blocks in enumerate(rounds)
    ]
    scripted = ScriptedUpstream(*scripts)
    tool = LookUp()
    priced = msgspec.structs.replace(provider("up", upstream), models={"*": PRICES})
    bench = use_tools(Bench({"up": scripted}, [priced]), tool=tool)
    # Clients of Gemini get thoughts only on request.
    thinking = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    asked = question(client, tools=(OWN,), stream=stream, more=thinking if client == "gemini" else {})
    result = run(bench.run_exchange(asked))
    assert result.client.status == 200, result.client.body
    stream_body = result.client.body if stream else explode_sse(dialect_named(client), result.client.json())
    assert not stream or dialect_named(client).check_stream(stream_body) == []
    # Complete, in order, and free of what is hidden.
    essence = read_essence(client, stream_body)
    blocks = [block for each in shown for block in each]
    assert essence.text == "".join(block.text for block in blocks if isinstance(block, Text))
    thoughts = "".join(block.text for block in blocks if isinstance(block, Reasoning))
    assert essence.thoughts.replace("\n", "") == thoughts
    own = [block for block in blocks if isinstance(block, ToolCall) and block.name == OWN]
    assert [name for name, _ in essence.calls] == [OWN] * len(own)
    assert SECRET.encode() not in result.client.body
    assert NAME.encode() not in result.client.body
    # Every hidden call ran, and the upstream's histories are legal.
    hidden = [block for block in blocks if isinstance(block, ToolCall) and block.name == NAME]
    assert [each.arguments for each in tool.runs] == [msgspec.json.decode(each.arguments) for each in hidden]
    assert len(scripted.calls) == len(shown)
    for each in scripted.calls:
        check_history(read_asked(upstream, each))
    # What was generated adds up, and the account is charged for every prompt, its cached part at its price.
    record = result.record
    assert record.tally is not None
    count = len(shown)
    reported = record.tally.usage or Usage()
    assert (reported.input, reported.cache_read, reported.output) == (100, 60, 7 * count)
    assert (record.used.input, record.used.cache_read) == (100 * count, 60 * count)
    assert record.used.output == 7 * count
    assert record.cost == count * (40 * 10 + 60 * 1 + 7 * 100)
    _check_next_request(
        bench, scripted, asked, collect_sse(dialect_named(client), stream_body), client, upstream, len(hidden)
    )


def _check_next_request(
    bench: Bench, scripted: ScriptedUpstream, asked: Ask, reply: Json, client: str, upstream: str, hidden: int
) -> None:
    """The client knows nothing of the hidden calls. Its next request is a legal history upstream."""
    scripted.calls.clear()
    body = answer_calls(client, msgspec.json.decode(asked.body), reply)
    again = Ask(metadata=asked.metadata, body=msgspec.json.encode(body))
    result = run(bench.run_exchange(again))
    assert result.client.status == 200, result.client.body
    request = read_asked(upstream, scripted.calls[0])
    check_history(request)
    assert sum(SECRET in text for text in texts_of_results(request)) <= hidden


@pytest.mark.rule("R78")
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_model_still_knows_hidden_results_in_the_next_request(client: str, upstream: str) -> None:
    rounds: list[list[Block]] = [
        [Text(text="First."), call(NAME, 1)],
        [call(NAME, 2), call(OWN, 3)],
        [Text(text="Done.")],
    ]
    scripted = ScriptedUpstream(
        *(
            script(upstream, events_of_round(n, blocks, Usage(input=1, output=1)))
            for n, blocks in enumerate(rounds)
        )
    )
    bench = use_tools(Bench({"up": scripted}, [provider("up", upstream)]), tool=LookUp())
    asked = question(client, tools=(OWN,))
    result = run(bench.run_exchange(asked))
    reply = collect_sse(dialect_named(client), result.client.body)
    body = answer_calls(client, msgspec.json.decode(asked.body), reply)
    run(bench.run_exchange(Ask(metadata=asked.metadata, body=msgspec.json.encode(body))))
    request = read_asked(upstream, scripted.calls[-1])
    check_history(request)
    assert sum(SECRET in text for text in texts_of_results(request)) == 2
    calls = [
        block.name for message in request.messages for block in message.blocks if isinstance(block, ToolCall)
    ]
    assert calls == [NAME, NAME, OWN]
    # Another caller with the same conversation gets none of it.
    bench.gateway.tool_memory.remember("another conversation", ())
    other = msgspec.structs.replace(asked, body=msgspec.json.encode(body).replace(b'"Hi"', b'"Other"'))
    run(bench.run_exchange(other))
    assert SECRET not in str(texts_of_results(read_asked(upstream, scripted.calls[-1])))


def ask_with(
    tool: GatewayTool, *rounds: list[Block], settings_: ToolsSettings | None = None
) -> tuple[str, Request, int]:
    """What the client reads, the last request to the upstream, and the number of requests."""
    scripted = ScriptedUpstream(
        *(
            script("openai_chat", events_of_round(n, each, Usage(input=9, output=1)))
            for n, each in enumerate(rounds)
        )
    )
    bench = use_tools(Bench({"up": scripted}), settings_, tool=tool)
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert dialect_named("anthropic").check_stream(result.client.body) == []
    text = read_essence("anthropic", result.client.body).text
    return text, read_asked("openai_chat", scripted.calls[-1]), len(scripted.calls)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (ToolFailed("no such page"), "Error: no such page."),
        (KeyError("internal detail"), "Error: the tool failed (KeyError)."),
        (TimeoutError(), "Error: the tool took too long."),
    ],
)
def test_a_failure_is_an_error_for_the_model(failure: Exception, expected: str) -> None:
    text, request, _ = ask_with(LookUp(failure), [call(NAME, 1)], [Text(text="Sorry.")])
    assert text == "Sorry."
    (result,) = texts_of_results(request)
    assert expected in result
    assert "internal detail" not in result


@pytest.mark.parametrize(
    "outcome", [SystemExit(3), asyncio.CancelledError(), None, 5, {"text": "x"}], ids=repr
)
def test_a_tool_of_a_third_party_does_not_break_the_reply(outcome: object) -> None:
    class Odd(LookUp):
        async def run(self, run: ToolRun) -> Any:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

    text, request, _ = ask_with(Odd(), [call(NAME, 1)], [Text(text="Sorry.")])
    assert text == "Sorry."
    assert "the tool failed" in str(texts_of_results(request))


class OddOffer(LookUp):
    def offer(self, request: Request, target: TargetFacts) -> ToolOffer:
        raise SystemExit(3)


class OddPreparation(LookUp):
    async def prepare(self) -> None:
        raise KeyError("internal detail")


class CancelledPreparation(LookUp):
    async def prepare(self) -> None:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    "odd", [OddOffer(), OddPreparation(), CancelledPreparation()], ids=["offer", "prepare", "cancelled"]
)
def test_a_tool_that_fails_before_it_runs_is_left_out(
    odd: GatewayTool, caplog: pytest.LogCaptureFixture
) -> None:
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Hi.")], Usage())))
    bench = use_tools(Bench({"up": scripted}), odd=odd, tool=LookUp())
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert read_essence("anthropic", result.client.body).text == "Hi."
    assert scripted.calls[0].body.count(b"Looks it up") == 1
    assert f"the tool {type(odd).__name__} is left out" in caplog.text
    assert "internal detail" not in caplog.text


def test_tools_with_one_name_get_different_names() -> None:
    one, other = LookUp("one"), LookUp("other")
    called = [call(f"gateway_{NAME}", 1), call(f"gateway_gateway_{NAME}", 2)]
    scripted = ScriptedUpstream(
        script("openai_chat", events_of_round(0, called, Usage())),
        script("openai_chat", events_of_round(1, [Text(text="So.")], Usage())),
    )
    bench = use_tools(Bench({"up": scripted}), one=one, other=other)
    run(bench.run_exchange(question("anthropic", tools=(NAME,))))
    assert (len(one.runs), len(other.runs)) == (1, 1)
    assert texts_of_results(read_asked("openai_chat", scripted.calls[1])) == ["one", "other"]


def test_arguments_that_cannot_be_read_are_an_error_for_the_model() -> None:
    broken = ToolCall(id="call_1abcdefgh", name=NAME, arguments='["no object"]')
    _, request, _ = ask_with(LookUp(), [broken], [Text(text="Sorry.")])
    assert "must be a JSON object" in str(texts_of_results(request))


class Finding(LookUp):
    """A tool with a source of its own for each query."""

    async def run(self, run: ToolRun) -> ToolOutcome:
        query = run.text("query")
        return ToolOutcome(sources=(Citation(url=f"https://{query}.example/", title=query),))


@pytest.mark.rule("R78")
def test_a_number_means_one_source_in_the_whole_conversation() -> None:
    rounds: list[list[Block]] = [
        [call(NAME, 1)],
        [Text(text="First [1].")],
        [call(NAME, 2)],
        [Text(text="Then [2], and before [1].")],
    ]
    scripted = ScriptedUpstream(
        *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
    )
    bench = use_tools(Bench({"up": scripted}), tool=Finding())
    asked = question("anthropic", tools=(OWN,))
    first = collect_sse(dialect_named("anthropic"), run(bench.run_exchange(asked)).client.body)
    again = answer_calls("anthropic", msgspec.json.decode(asked.body), first)
    result = run(bench.run_exchange(Ask(metadata=asked.metadata, body=msgspec.json.encode(again))))
    second: Any = collect_sse(dialect_named("anthropic"), result.client.body)
    cited = [each["url"] for block in second["content"] for each in block.get("citations", ())]
    assert cited == ["https://q2.example/", "https://q1.example/"]
    texts = texts_of_results(read_asked("openai_chat", scripted.calls[-1]))
    assert [("[1] q1" in each, "[2] q2" in each) for each in texts] == [(True, False), (False, True)]


@pytest.mark.rule("R78")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"query":"a",}', [{"query": "a"}]),
        ("{'query': 'a'} // why", [{"query": "a"}]),
        ('```json\n{query: "a"}\n```', [{"query": "a"}]),
        ("", [{}]),
        # Complete by the schema, which has no other argument.
        ('{"query":"a"', [{"query": "a"}]),
        # Half a call does not run.
        ('{"query":"a', []),
        ('{"query":', []),
        ("null and void", []),
    ],
)
def test_arguments_that_are_nearly_json_are_read(arguments: str, expected: list[Json]) -> None:
    tool = LookUp()
    asked = ToolCall(id="call_1abcdefgh", name=NAME, arguments=arguments)
    _, request, _ = ask_with(tool, [asked], [Text(text="So.")])
    assert [each.arguments for each in tool.runs] == expected
    check_history(request)


def test_rounds_are_bounded_and_the_model_is_informed_of_the_last() -> None:
    text, request, count = ask_with(LookUp(), [call(NAME, 1)], settings_=ToolsSettings(rounds=2))
    assert count == 3
    assert "the limit for its own tools is reached" in text
    assert NAME not in text
    assert "runs no further calls" in texts_of_results(request)[-1]


def test_tokens_are_bounded() -> None:
    _, request, count = ask_with(LookUp(), [call(NAME, 1)], settings_=ToolsSettings(tokens=15))
    assert "the limit of time, tokens or money" in str(texts_of_results(request))
    assert count == 3


def test_a_long_result_is_cut() -> None:
    _, request, _ = ask_with(
        LookUp("x" * 500), [call(NAME, 1)], [Text(text="So.")], settings_=ToolsSettings(result_chars=100)
    )
    assert texts_of_results(request) == ["x" * 100 + "\n[cut: the result is too long]"]


class Slow(LookUp):
    """A tool that takes its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.is_cancelled = False

    async def run(self, run: ToolRun) -> str:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        return SECRET


def slow_bench(tool: Slow, settings_: ToolsSettings | None = None) -> Bench:
    rounds: list[list[Block]] = [[Text(text="Wait."), call(NAME, 1)], [Text(text="Here.")]]
    scripts = [script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds)]
    return use_tools(Bench({"up": ScriptedUpstream(*scripts)}), settings_, tool=tool)


def test_the_client_gets_pings_while_a_tool_runs_and_a_run_ends_at_its_limit() -> None:
    bench = slow_bench(Slow(100.0), ToolsSettings(run_seconds=45.0))
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert result.client.body.count(b"event: ping") >= 3
    assert read_essence("anthropic", result.client.body).text == "Wait.Here."
    (ran,) = result.record.tool_runs
    assert ran.is_error
    assert 44 < ran.seconds < 47
    assert result.record.line()["runs"] == f"{NAME} failed"


class Refusing(LookUp):
    """A tool that never applies."""

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:  # type: ignore[override]  # never an offer
        return None


def test_a_request_without_tools_of_the_gateway_is_forwarded_as_it_is() -> None:
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Hi.")], Usage())))
    asked = question("openai_chat", tools=(OWN,))
    for tool in (Refusing(), LookUp()):
        bench = use_tools(Bench({"up": scripted}), tool=tool)
        if isinstance(tool, Refusing):
            assert run(bench.run_exchange(asked)).record.lane == "forward"
        else:
            assert run(bench.run_exchange(asked)).record.lane == "translate"
    assert scripted.calls[0].body == asked.body


@pytest.mark.parametrize("names", [(), ("other",)])
def test_a_provider_selects_its_tools(names: tuple[str, ...]) -> None:
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Hi.")], Usage())))
    chosen = msgspec.structs.replace(provider("up"), tools=names)
    bench = use_tools(Bench({"up": scripted}, [chosen]), tool=LookUp())
    run(bench.run_exchange(question("anthropic")))
    assert NAME.encode() not in scripted.calls[0].body


def test_a_tool_of_the_client_with_the_same_name_stays_the_clients() -> None:
    blocks: list[list[Block]] = [[call(NAME, 1)]]
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, blocks[0], Usage())))
    tool = LookUp()
    bench = use_tools(Bench({"up": scripted}), tool=tool)
    result = run(bench.run_exchange(question("anthropic", tools=(NAME,))))
    assert [name for name, _ in read_essence("anthropic", result.client.body).calls] == [NAME]
    assert not tool.runs
    assert b"gateway_look_up" in scripted.calls[0].body


def test_a_denied_call_and_a_hidden_call_can_come_in_one_reply() -> None:
    rule = {"tools": [OWN], "pattern": "q2", "verdict": "deny", "reason": "not this one"}
    rounds: list[list[Block]] = [[call(NAME, 1)], [call(OWN, 2)], [Text(text="Then not.")]]
    scripted = ScriptedUpstream(
        *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
    )
    values = {"guard": [rule], "on_denied": "model", "validate": True}
    bench = use_tools(Bench({"up": scripted}, [governed("up", "openai_chat", values)]), tool=LookUp())
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert read_essence("anthropic", result.client.body).text == "Then not."
    request = read_asked("openai_chat", scripted.calls[-1])
    check_history(request)
    assert len(texts_of_results(request)) == 2


@pytest.mark.rule("R78")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("on_denied", ["model", "client"])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_denied_call_of_a_hidden_tool_is_hidden_beside_a_call_of_the_clients(
    client: str, on_denied: str, stream: bool
) -> None:
    values = {"guard": [{"tools": [NAME], "verdict": "deny"}], "on_denied": on_denied}
    rounds: list[list[Block]] = [[call(NAME, 1), call(OWN, 2)], [Text(text="So.")]]
    scripted = ScriptedUpstream(
        *(
            script("openai_chat", events_of_round(n, each, Usage()), stream=stream)
            for n, each in enumerate(rounds)
        )
    )
    bench = use_tools(Bench({"up": scripted}, [governed("up", "openai_chat", values)]), tool=LookUp())
    asked = question(client, tools=(OWN,), stream=stream)
    result = run(bench.run_exchange(asked))
    body = result.client.body if stream else explode_sse(dialect_named(client), result.client.json())
    essence = read_essence(client, body)
    assert [name for name, _ in essence.calls] == [OWN]
    assert essence.text == ""
    assert NAME.encode() not in body
    assert len(scripted.calls) == 1
    # The model learns of the denial in the next request.
    again = answer_calls(client, msgspec.json.decode(asked.body), collect_sse(dialect_named(client), body))
    run(bench.run_exchange(Ask(metadata=asked.metadata, body=msgspec.json.encode(again))))
    request = read_asked("openai_chat", scripted.calls[1])
    check_history(request)
    assert sum(f"`{NAME}` was denied" in text for text in texts_of_results(request)) == 1


@pytest.mark.parametrize("number", [1, 2])
def test_the_model_learns_of_a_denied_call_beside_a_hidden_one(number: int) -> None:
    values = {"guard": [{"tools": [OWN], "verdict": "deny"}], "on_denied": "model"}
    rounds: list[list[Block]] = [[call(NAME, number), call(OWN, 3 - number)], [Text(text="Then not.")]]
    scripted = ScriptedUpstream(
        *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
    )
    bench = use_tools(Bench({"up": scripted}, [governed("up", "openai_chat", values)]), tool=LookUp())
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert read_essence("anthropic", result.client.body).text == "Then not."
    request = read_asked("openai_chat", scripted.calls[1])
    check_history(request)
    denied, found = sorted(texts_of_results(request))
    assert (f"`{OWN}` was denied" in denied, found) == (True, SECRET)


def test_a_model_that_repeats_a_denied_call_of_a_hidden_tool_is_stopped() -> None:
    values = {"guard": [{"tools": [NAME], "verdict": "deny"}]}
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, [call(NAME, 1)], Usage())))
    bench = use_tools(Bench({"up": scripted}, [governed("up", "openai_chat", values)]), tool=LookUp())
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert "a call of its own tools was denied" in read_essence("anthropic", result.client.body).text
    assert NAME.encode() not in result.client.body
    assert len(scripted.calls) == 4


def test_an_exchange_with_runs_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        result = run(slow_bench(Slow(1.0)).run_exchange(question("anthropic", tools=(OWN,))))
        left = [each for each in gc.get_objects() if isinstance(each, Exchange)]
    finally:
        gc.enable()
    assert result.record.ending == "finished"
    assert left == []


@pytest.mark.rule("R78")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_an_id_that_a_server_uses_again_is_unique(client: str, upstream: str, stream: bool) -> None:
    again = [replace(call(NAME, number), id="call_0") for number in (1, 2, 3)]
    rounds: list[list[Block]] = [[again[0]], [again[1], again[2]], [Text(text="The end.")]]
    usage = Usage(input=1, output=1)
    scripted = ScriptedUpstream(
        *(script(upstream, events_of_round(n, each, usage), stream=stream) for n, each in enumerate(rounds))
    )
    tool = LookUp()
    bench = use_tools(Bench({"up": scripted}, [provider("up", upstream)]), tool=tool)
    result = run(bench.run_exchange(question(client, tools=(OWN,), stream=stream)))
    assert result.client.status == 200, result.client.body
    assert [each.arguments["query"] for each in tool.runs] == ["q1", "q2", "q3"]
    # The client may see the runs, so each has a name of its own.
    assert len({each.id for each in tool.runs}) == len(tool.runs)
    if client == upstream:
        # The server gets its own ids.
        return
    last = read_asked(upstream, scripted.calls[-1])
    check_history(last)
    ids = [block.id for message in last.messages for block in message.blocks if isinstance(block, ToolCall)]
    assert len(set(ids)) == len(ids) == 3


def test_a_server_that_needs_reasoning_in_every_message_gets_it_in_later_rounds() -> None:
    rounds: list[list[Block]] = [[call(NAME, 1)], [Text(text="The end.")]]
    scripted = ScriptedUpstream(
        *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
    )
    strict = replace(provider("up"), models={"*": {"turns_need_reasoning": True, "replay_reasoning": True}})
    bench = use_tools(Bench({"up": scripted}, [strict]), tool=LookUp())
    run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    (answer,) = (
        each for each in msgspec.json.decode(scripted.calls[1].body)["messages"] if "tool_calls" in each
    )
    assert answer["reasoning_content"] == " "


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 500])
def test_the_rounds_of_a_reply_that_begins_again_are_charged(status: int, stream: bool) -> None:
    usage = Usage(input=100, output=7)
    refusal = Script(status=status, headers={"content-type": JSON}, pieces=(b'{"error":{"message":"no"}}',))
    scripted = ScriptedUpstream(
        script("openai_chat", events_of_round(0, [call(NAME, 1)], usage), stream=stream),
        refusal,
        script("openai_chat", events_of_round(1, [Text(text="The end.")], usage), stream=stream),
    )
    bench = use_tools(Bench({"up": scripted}), tool=LookUp())
    result = run(bench.run_exchange(question("anthropic", tools=(OWN,), stream=stream)))
    answered = 2 if status == 500 else 1
    assert (result.record.used.input, result.record.used.output) == (answered * 100, answered * 7)


@pytest.mark.parametrize("status", [400, 500, 200])
def test_a_later_round_that_does_not_begin_is_not_charged(status: int) -> None:
    """The client has content of the first round, so the reply cannot begin again."""
    usage = Usage(input=100, output=7, cache_read=60)
    refusal = Script(status=status, headers={"content-type": JSON}, pieces=(b'{"error":{"message":"no"}}',))
    scripted = ScriptedUpstream(
        script("openai_chat", events_of_round(0, [Text(text="Wait. "), call(NAME, 1)], usage)), refusal
    )
    bench = use_tools(Bench({"up": scripted}), tool=LookUp())
    record = run(bench.run_exchange(question("anthropic", tools=(OWN,)))).record
    assert record.ending == "failed"
    assert (record.used.input, record.used.cache_read, record.used.output) == (100, 60, 7)


@pytest.mark.parametrize(("unit", "limit"), [("tokens", 107), ("cost", 1700)])
def test_a_budget_that_is_used_up_ends_the_runs(
    unit: Unit, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_model(usage: ExchangeUsage, model: str) -> None: ...

    async def reserve(usage: ExchangeUsage, request: object) -> None:
        usage.budgets = (BudgetUse(unit, "day", limit, 0, 0),)

    monkeypatch.setattr(ExchangeUsage, "check_model", check_model)
    monkeypatch.setattr(ExchangeUsage, "reserve", reserve)
    usage = Usage(input=100, output=7)
    scripted = ScriptedUpstream(script("openai_chat", events_of_round(0, [call(NAME, 1)], usage)))
    priced = replace(provider("up"), models={"*": PRICES})
    tool = LookUp()
    bench = use_tools(Bench({"up": scripted}, [priced]), tool=tool)
    asked = question("anthropic", tools=(OWN,))
    asked.caller = Caller(id="key", limits=Limits(cost_per_day=10**9))
    result = run(bench.run_exchange(asked))
    assert dialect_named("anthropic").check_stream(result.client.body) == []
    assert not tool.runs
    assert "the limit of time, tokens or money" in str(
        texts_of_results(read_asked("openai_chat", scripted.calls[1]))
    )
    # The model could answer once more, and tried to go on.
    assert len(scripted.calls) == 2
