"""What a refusal does not prove is not learned, and what a client means is not changed."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.provider import FactLayer, TargetName
from dragoman.governance.settings import read_governance
from dragoman.healing.corrections import Removal
from dragoman.healing.learned import merge_learned_facts
from dragoman.healing.refusals import find_correction
from dragoman.hub.errors import Failure
from dragoman.storage.sqlite import SqliteStorage
from tests.exchange.clock import run
from tests.exchange.fakes import JSON, ExchangeResult, Script, ScriptedAnswer
from tests.exchange.governing import events_of, write_stream
from tests.healing.vendor import Bench, Json, RefusingUpstream, Test, ask, has, provider, write_error

TARGET = TargetName("up", "model")
ADDRESS = "http://upstream.invalid"
CHAT: Json = {"messages": [{"role": "user", "content": "hi"}]}
CLAUDE: Json = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9000}
TOOLS = [{"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": {}}}}]
CLAUDE_TOOLS = [{"name": "w", "input_schema": {"type": "object", "properties": {}}}]


def write_claude(message: str) -> bytes:
    return msgspec.json.encode(
        {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    )


def build(
    dialect: str, refuses: Test, message: str, code: str | None = None, **values: Any
) -> tuple[RefusingUpstream, Bench]:
    error = write_claude(message) if dialect == "anthropic" else write_error(message, code)
    upstream = RefusingUpstream(dialect, refuses, 400, error)
    return upstream, Bench({"up": upstream}, {"up": provider("up", dialect, **values)})


def list_facts(bench: Bench) -> dict[str, object]:
    return merge_learned_facts(bench.gateway.learned.find(TARGET, ADDRESS))


def correct(message: str, body: Json | None = None, code: str = "", param: str = "") -> Any:
    failure = Failure(kind="invalid_request", status=400, message=message, code=code, param=param)
    return find_correction(failure, msgspec.json.encode(body or {}))


def send(bench: Bench, dialect: str, *bodies: Json, stream: bool = True) -> list[ExchangeResult]:
    async def scenario() -> list[ExchangeResult]:
        return [await bench.run_exchange(ask(dialect, body, stream=stream)) for body in bodies]

    return run(scenario())


# Limits that no model has.


def build_calls(count: int) -> Json:
    calls = [
        {"id": f"call{n:06d}", "type": "function", "function": {"name": "w", "arguments": "{}"}}
        for n in range(count)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "A"} for call in calls]
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
    ]
    return {"messages": [*messages, *results]}


@pytest.mark.parametrize(
    "message",
    [
        "tool call id was c but must be a-z, A-Z, 0-9, with a length of 1",
        "messages[1].tool_calls[0].id': string too long. expected a string with maximum length 1",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 2",
        "max_tokens: 9 > 1, which is the maximum allowed number of output tokens",
        "max_tokens must be at most 31 output tokens: prompt has 4065 tokens",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 9000000",
    ],
)
def test_an_implausible_limit_is_not_applied(message: str) -> None:
    assert correct(message) is None
    upstream, bench = build("openai_chat", lambda body: True, message)
    (result,) = send(bench, "openai_chat", {**build_calls(100), "tools": TOOLS, "max_tokens": 9})
    assert (result.client.status, len(upstream.calls)) == (400, 1)
    assert message in result.client.body.decode()


@pytest.mark.parametrize("fact", [{"call_id_exact": 1}, {"call_id_limit": 1}, {"tool_name_limit": 2}])
def test_a_limit_without_room_for_the_request_is_an_error_and_no_endless_loop(fact: Json) -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("alpha", "alpine")]
    _, bench = build("openai_chat", lambda body: False, "", models={"model": fact})
    (result,) = send(bench, "openai_chat", {**build_calls(100), "tools": tools})
    assert result.client.status >= 400
    assert "leave no room" in result.client.body.decode()


def test_a_refusal_stays_the_vendors_if_its_correction_cannot_be_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dragoman.exchange import healer
    from dragoman.healing.corrections import Correction

    correction = Correction({"tool_name_limit": 2})
    monkeypatch.setattr(healer, "find_correction", lambda failure, body: correction)
    _, bench = build("openai_chat", has("tools"), "the name is too long")
    tools = [{"type": "function", "function": {"name": name}} for name in ("alpha", "alpine")]
    (result,) = send(bench, "openai_chat", {**CHAT, "tools": tools})
    assert result.client.status == 400
    assert "the name is too long" in result.client.body.decode()
    assert not list_facts(bench)


# Texts of the client that an error repeats.

REPEATED: list[tuple[str, Json, str]] = [
    (
        "openai_chat",
        {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://x.invalid/is not a multimodal model.png"}}
        ]}]},
        "Error while downloading https://x.invalid/is not a multimodal model.png.",
    ),
    (
        "anthropic",
        {**CLAUDE, "tools": [{**CLAUDE_TOOLS[0], "does not support tools": 1}]},
        "tools.0.custom.does not support tools: Extra inputs are not permitted",
    ),
    (
        "openai_chat",
        {**CHAT, "tools": [{**TOOLS[0], "strict": "`tools` is not supported"}]},
        "Invalid value: '`tools` is not supported'. Expected a boolean.",
    ),
    (
        "openai_chat",
        {**CHAT, "max_tokens": "at most 600 output tokens"},
        "max_tokens: expected an integer, got 'at most 600 output tokens'",
    ),
    (
        "anthropic",
        {**CLAUDE, "call_id': string too long. expected a string with maximum length 20": 1},
        "call_id': string too long. expected a string with maximum length 20: Extra inputs are not permitted",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "body", "message"), REPEATED)
def test_a_text_of_the_client_in_an_error_changes_nothing(dialect: str, body: Json, message: str) -> None:
    upstream, bench = build(dialect, lambda body: True, message)
    send(bench, dialect, body)
    assert len(upstream.calls) == 1
    upstream.refuses = lambda body: False
    send(bench, dialect, {**body, "n": 1})
    assert not list_facts(bench)
    # The same message about a request without the text is a refusal.
    assert correct(message, CHAT) is not None


def test_an_escaped_text_of_the_client_is_recognized() -> None:
    failure = Failure(kind="invalid_request", status=400, message="bad: it does not support tools.")
    assert find_correction(failure, b'{"a":[{"it \\u0064oes not support tools":1}]}') is None
    assert find_correction(failure, b"no JSON: it does not support tools") is None


# Errors about an account, a plan, a policy, a size.


@pytest.mark.parametrize(
    "message",
    [
        "This model does not support images larger than 20 megapixels",
        "The model does not support document files larger than 10 MB",
        "This model does not support PDFs with more than 100 pages",
        "This model does not support images of type image/tiff",
        "model does not support tools with more than 128 functions",
        "This model does not support tool use in streaming mode",
        "does not support reasoning summaries",
        "does not support thinking budgets above 32000",
        "image_url is only supported by certain models up to 20MB",
        "does not support audio files longer than an hour",
    ],
)
def test_a_statement_about_some_images_or_tools_is_none_about_all(message: str) -> None:
    assert correct(message) is None


# Fields without which the request means something else.


@pytest.mark.parametrize(
    ("dialect", "field", "value"),
    [
        ("openai_responses", "previous_response_id", "resp_abc"),
        ("openai_responses", "conversation", "conv_abc"),
        ("openai_responses", "background", True),
        ("openai_responses", "store", False),
        ("openai_chat", "service_tier", "flex"),
        ("gemini", "cachedContent", "cachedContents/1"),
        ("gemini", "safetySettings", []),
        ("anthropic", "thread", {"type": "continue", "id": "th_1"}),
        ("anthropic", "safeguards", {"level": "high"}),
        ("anthropic", "container", "c_1"),
        ("anthropic", "mcp_servers", []),
    ],
)
def test_a_field_that_the_request_depends_on_is_never_removed(dialect: str, field: str, value: Any) -> None:
    bases: dict[str, Json] = {
        "openai_responses": {"input": "yes, delete them"},
        "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        "anthropic": CLAUDE,
        "openai_chat": CHAT,
    }
    for message in (
        f"Unsupported parameter: '{field}' is not supported with this model.",
        f"{field}: Extra inputs are not permitted",
        f"{field}.level: Extra inputs are not permitted",
        f'Invalid JSON payload received. Unknown name "{field}": Cannot find field.',
    ):
        upstream, bench = build(dialect, has(field), message)
        (result,) = send(bench, dialect, {**bases[dialect], field: value})
        assert (len(upstream.calls), result.client.status) == (1, 400)
    assert correct("no", code="unsupported_value", param=field) is None


# Facts about one combination of settings.

JSON_OUTPUT = {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}}
CONTENTS = [{"role": "user", "parts": [{"text": "hi"}]}]
PICTURE = [{"type": "image_url", "image_url": {"url": "https://a.invalid/b.png"}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
GEMINI_TOOLS = [{"functionDeclarations": [{"name": "w", "description": "d"}]}]
PICTURE_IN_RESULT = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": PICTURE},
]
PREFILL = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "It "}]


@pytest.mark.parametrize(
    ("dialect", "message", "refused", "stream"),
    [
        (
            "openai_chat",
            "Requests with max_tokens > 4096 must have stream=true",
            {**CHAT, "max_tokens": 32000},
            False,
        ),
        (
            "openai_chat",
            "The tool_choice parameter does not support being set to required or object in thinking mode",
            {**CHAT, "tools": TOOLS, "tool_choice": "required", "reasoning_effort": "high"},
            True,
        ),
        (
            "gemini",
            "Function calling with a response mime type: 'application/json' is unsupported",
            {"contents": CONTENTS, "tools": GEMINI_TOOLS, "generationConfig": JSON_OUTPUT},
            True,
        ),
        (
            "anthropic",
            "messages: final assistant content cannot end with trailing whitespace",
            {**CLAUDE, "messages": PREFILL},
            True,
        ),
        (
            "openai_chat",
            "Assistant response prefill is incompatible with enable_thinking.",
            {"messages": PREFILL},
            True,
        ),
        (
            "anthropic",
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
            {**CLAUDE, "max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": 4000}},
            True,
        ),
        (
            "openai_chat",
            "messages[2]: unknown variant `image_url`, expected `text` at line 1",
            {"messages": PICTURE_IN_RESULT},
            True,
        ),
        (
            "openai_chat",
            "'tools' is not supported when stream is true",
            {**CHAT, "tools": TOOLS},
            True,
        ),
        (
            "openai_responses",
            "Hosted tool 'web_search' is not supported with gpt-5-codex.",
            {"input": "hi", "tools": [{"type": "web_search"}, {"type": "function", "name": "w"}]},
            True,
        ),
    ],
)
def test_a_fact_about_a_combination_changes_one_request(
    dialect: str, message: str, refused: Json, stream: bool
) -> None:
    upstream, bench = build(dialect, lambda body: len(upstream.calls) == 1, message)
    (result,) = send(bench, dialect, refused, stream=stream)
    assert (result.client.status, len(upstream.calls)) == (200, 2)
    assert upstream.bodies[0] != upstream.bodies[1]
    assert "x-dragoman-losses" in result.client.headers
    assert not list_facts(bench)
    send(bench, dialect, refused, stream=stream)
    assert upstream.bodies[2] == upstream.bodies[0]


def test_a_forced_call_without_reasoning_stays_forced() -> None:
    def refuses(body: Json) -> bool:
        return body.get("thinking", {}).get("type") == "enabled" and "tool_choice" in body

    upstream, bench = build(
        "anthropic", refuses, "Thinking may not be enabled when tool_choice forces tool use."
    )
    forced = {**CLAUDE, "tools": CLAUDE_TOOLS, "tool_choice": {"type": "tool", "name": "w"}}
    send(bench, "anthropic", {**forced, "thinking": {"type": "enabled", "budget_tokens": 2048}}, forced)
    assert [body["tool_choice"]["type"] for body in upstream.bodies] == ["tool"] * 3


def test_the_other_hosted_tools_of_a_request_stay() -> None:
    upstream, bench = build(
        "openai_responses",
        has("tools.*.type", lambda value: value == "web_search"),
        "Hosted tool 'web_search' is not supported with gpt-5-codex.",
    )
    search = {"type": "file_search", "vector_store_ids": ["v"]}
    send(bench, "openai_responses", {"input": "x", "tools": [{"type": "web_search"}, search]})
    assert [tool["type"] for tool in upstream.bodies[-1]["tools"]] == ["file_search"]


def test_the_values_of_a_tool_choice_are_no_efforts() -> None:
    assert correct("In reasoning mode tool_choice must be one of 'none' or 'auto'.") is None


def test_a_field_with_tools_is_learned_for_a_short_time() -> None:
    assert correct("Unsupported parameter: 'tools' is not supported with this model.").lifetime == 3600.0
    assert correct("Unsupported parameter: 'seed' is not supported with this model.").lifetime > 86400.0


@pytest.mark.parametrize(
    ("dialect", "message", "body"),
    [
        (
            "anthropic",
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"',
            {**CLAUDE, "thinking": {"type": "enabled", "budget_tokens": 6000}},
        ),
        (
            "gemini",
            "The thinking budget 60000 is invalid. Please choose a value between 512 and 24576.",
            {"contents": CONTENTS, "generationConfig": {"thinkingConfig": {"thinkingBudget": 60_000}}},
        ),
    ],
)
def test_a_changed_budget_is_a_loss_of_later_requests_too(dialect: str, message: str, body: Json) -> None:
    upstream, bench = build(dialect, lambda body: len(upstream.calls) == 1, message)
    _, later = send(bench, dialect, body, body)
    assert upstream.bodies[1] == upstream.bodies[2] != upstream.bodies[0]
    assert "budget" in later.client.headers["x-dragoman-losses"]


# Facts end one by one.


def test_each_refused_field_ends_by_itself() -> None:
    async def scenario() -> None:
        upstream, bench = build("openai_chat", has("user"), "property 'user' is unsupported")
        await bench.run_exchange(ask("openai_chat", {**CHAT, "user": "ann"}))
        for field in ("x_a", "x_b"):
            bench.now += 4 * 86400
            upstream.refuses, upstream.body = has(field), write_error(f"property '{field}' is unsupported")
            await bench.run_exchange(ask("openai_chat", {**CHAT, field: 1}))
        await bench.run_exchange(ask("openai_chat", {**CHAT, "user": "ann", "x_a": 1, "x_b": 1}))
        assert upstream.bodies[-1].keys() == {*CHAT, "user", "model", "stream", "stream_options"}
        facts = bench.gateway.learned.find(TARGET, ADDRESS)
        assert [(fact.value, "x_" in fact.message) for fact in facts] == [(("x_a",), True), (("x_b",), True)]

    run(scenario())


def test_a_removal_makes_a_known_set_smaller() -> None:
    async def scenario() -> None:
        _, bench = build("openai_chat", lambda body: False, "")
        learned = bench.gateway.learned
        learned.remember(TARGET, ADDRESS, {"outputs": frozenset({"json_schema", "text"})}, "a", 60.0)
        learned.remember(TARGET, ADDRESS, {"outputs": Removal(frozenset({"json_schema"}))}, "b", 60.0)
        assert list_facts(bench) == {"outputs": frozenset({"text"})}

    run(scenario())


def test_an_unrelated_refusal_leaves_learned_facts() -> None:
    upstream, bench = build("openai_chat", has("user"), "property 'user' is unsupported")
    send(bench, "openai_chat", {**CHAT, "user": "ann"})
    assert list_facts(bench) == {"refused_fields": ("user",)}
    upstream.refuses = lambda body: True
    upstream.body = write_error("'gpt_fast' is not available")
    send(bench, "openai_chat", CHAT)
    assert list_facts(bench) == {"refused_fields": ("user",)}


def test_a_large_request_after_a_fact_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = RefusingUpstream("openai_chat", lambda body: False, 400, b"")
        storage = SqliteStorage(tmp_path / "state.db")
        bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat")}, storage=storage)
        await bench.gateway.learned.load()
        bench.gateway.learned.remember(TARGET, ADDRESS, {"images": False}, "no", 3600.0)
        bench.now += 4000
        large = {"messages": [{"role": "user", "content": "x y " * 300_000}]}
        result = await bench.run_exchange(ask("openai_chat", large))
        assert result.client.status == 200
        await bench.gateway.close()

    asyncio.run(scenario())


# Forwarded clients.

CATALOGUE = FactLayer(
    source="catalogue",
    models={"*": {"max_output_tokens": 4096, "reasoning": "none", "images": False, "sampling": ["top_p"]}},
    is_stated=False,
)


def test_a_learned_fact_does_not_apply_the_catalogue() -> None:
    upstream, bench = build(
        "openai_chat",
        has("seed"),
        "Unsupported parameter: 'seed' is not supported with this model.",
        layers=(CATALOGUE,),
    )
    rich = {
        "messages": [{"role": "user", "content": PICTURE}],
        "max_tokens": 50000,
        "reasoning_effort": "high",
        "temperature": 0.3,
    }
    send(bench, "openai_chat", rich, {**CHAT, "seed": 1}, rich, {**rich, "seed": 1})
    assert upstream.bodies[0] == upstream.bodies[3] == upstream.bodies[4]


def test_a_learned_fact_and_the_catalogue_hold_together_behind_an_alias() -> None:
    upstream, bench = build(
        "openai_chat",
        has("top_p"),
        "Unsupported parameter: 'top_p' is not supported with this model.",
        layers=(CATALOGUE,),
    )
    claude = {**CLAUDE, "top_p": 0.5, "temperature": 0.3}
    send(bench, "anthropic", claude, claude)
    assert len(upstream.calls) == 3
    assert {"top_p", "temperature"}.isdisjoint(upstream.bodies[-1])
    assert upstream.bodies[-1].get("max_tokens", upstream.bodies[-1].get("max_completion_tokens")) == 4096


SEALED: Json = {
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "h", "signature": "c2ln"},
                {"type": "text", "text": "x"},
            ],
        },
        {"role": "user", "content": "go"},
    ],
    "max_tokens": 100,
}


def test_refused_seals_change_only_requests_that_contain_one() -> None:
    upstream, bench = build(
        "anthropic",
        has("messages.*.content.*.signature"),
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        layers=(CATALOGUE,),
    )
    other = {**CLAUDE, "max_tokens": 64000, "thinking": {"type": "enabled", "budget_tokens": 20000}}
    send(bench, "anthropic", other, SEALED, other, {**other, "temperature": "0.5"})
    assert len(upstream.calls) == 5
    assert upstream.bodies[0] == upstream.bodies[3]
    assert upstream.bodies[4]["temperature"] == "0.5"


def test_a_request_that_only_the_server_can_read_is_forwarded_in_spite_of_a_learned_fact() -> None:
    message = "Unsupported parameter: 'top_p' is not supported with this model."
    upstream, bench = build("openai_chat", has("top_p"), message)
    odd = {**CHAT, "temperature": "0.5"}
    results = send(bench, "openai_chat", odd, {**CHAT, "top_p": 0.5}, odd, {**odd, "top_p": 0.5})
    assert [result.client.status for result in results] == [200, 200, 200, 400]
    assert upstream.bodies[3]["temperature"] == "0.5"
    # A refusal of a request to which the fact was not applied proves nothing against it.
    assert message in results[-1].client.body.decode()
    assert list_facts(bench)


def test_an_answered_round_is_not_repeated() -> None:
    """A governed reply of two rounds: the second is refused after the first was paid."""

    class TwoRounds:
        def __init__(self) -> None:
            self.bodies: list[Json] = []

        async def send(self, call: Any) -> ScriptedAnswer:
            body = msgspec.json.decode(call.body)
            self.bodies.append(body)
            if any(message["role"] == "tool" for message in body["messages"]):
                error = write_error("Unsupported parameter: 'temperature' is not supported with this model.")
                return ScriptedAnswer(Script(status=400, pieces=[error], headers={"content-type": JSON}))
            call_events = events_of(("shell", '{"command":"git push --force"}'), cause="tool_calls")
            return ScriptedAnswer(Script(pieces=write_stream("openai_chat", call_events)))

        async def close(self) -> None:
            """Nothing is open."""

    upstream = TwoRounds()
    governance = read_governance({"guard": ["git_destructive"], "on_denied": "model"})
    bench = Bench({"up": upstream}, {"up": provider("up", "openai_chat", governance=governance)})
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "shell", "parameters": parameters}}]
    send(bench, "openai_chat", {**CHAT, "tools": tools, "temperature": 0.3})
    assert [any(m["role"] == "tool" for m in body["messages"]) for body in upstream.bodies] == [False, True]
