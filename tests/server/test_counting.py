"""Token counts are those of the model that would answer."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from dragoman.accounts.keys import ANONYMOUS
from dragoman.config.config import Config, Route
from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule
from dragoman.config.tools import ToolsSettings
from dragoman.dialects.interfaces import Json
from dragoman.exchange.gateway import Gateway
from dragoman.gateway_tools.tool import GatewayTool
from dragoman.gateway_tools.toolbox import Toolbox
from dragoman.routing.choose import ModelNotFound
from dragoman.server.counting import count_tokens
from dragoman.server.paths import Endpoint, find_endpoint
from tests.gateway_tools.running import LookUp

CONFIG = load(
    """
    [providers.local]
    dialect = "openai_chat"
    base_url = "http://127.0.0.1:1/v1"
    [providers.google]
    dialect = "gemini"
    base_url = "http://127.0.0.1:2"
    [providers.embedded]
    [[routes]]
    match = "claude-opus-5-5"
    target = ["local/gpt-5", "google/gemini-3"]
    [[routes]]
    match = "try"
    target = "embedded"
    """,
    "dragoman.toml",
    {},
)
TEXT = "A word or two of instruction, repeated until it can be told apart. " * 20


def ask(config: Config, endpoint: Endpoint, body: Mapping[str, object], *tools: GatewayTool) -> Json:
    gateway = Gateway(config)
    gateway.snapshot.toolbox = (
        Toolbox(ToolsSettings(), dict(zip(("tool",), tools, strict=True))) if tools else None
    )
    return asyncio.run(count_tokens(gateway, endpoint, msgspec.json.encode(body), ANONYMOUS))


def counted(model: str, path: str = "/v1/messages/count_tokens", **body: object) -> int:
    endpoint = find_endpoint(path)
    assert endpoint is not None
    content = body or {"model": model, "messages": [{"role": "user", "content": TEXT}]}
    answer = ask(CONFIG, endpoint, content)
    return _read(answer)


@pytest.mark.rule("H69")
def test_the_model_behind_the_first_target_decides() -> None:
    assert counted("claude-opus-5-5") == counted("local/gpt-5")
    assert counted("claude-opus-5-5") < counted("local/claude-opus-5-5")


def test_the_embedded_model_is_counted_as_what_it_stands_in_for() -> None:
    assert counted("embedded/claude-opus-5-5") == counted("local/claude-opus-5-5")


@pytest.mark.rule("R131")
def test_a_model_without_a_route_is_not_found() -> None:
    with pytest.raises(ModelNotFound):
        counted("unknown")


@pytest.mark.rule("R131")
def test_a_model_that_only_rules_serve_is_counted_by_its_own_name() -> None:
    rule = Rule(name="all", targets=(TargetName("local", "gpt-5"),))
    config = msgspec.structs.replace(CONFIG, rules=(rule,))
    endpoint = find_endpoint("/v1/messages/count_tokens")
    assert endpoint is not None
    body = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": TEXT}]}
    answer = ask(config, endpoint, body)
    assert answer["input_tokens"] == counted("local/claude-sonnet-5-5")


def test_a_request_that_names_no_model_is_counted_by_its_dialect() -> None:
    assert counted("", "/v1/responses/input_tokens", input=TEXT) > 100


def test_the_url_names_the_model_for_gemini() -> None:
    contents = [{"role": "user", "parts": [{"text": TEXT}]}]
    assert counted("", "/v1beta/models/try:countTokens", contents=contents) > 100


PARTS: dict[str, tuple[str, dict[str, object]]] = {
    "anthropic": (
        "/v1/messages/count_tokens",
        {
            "model": "local/gpt-5",
            "messages": [{"role": "user", "content": TEXT}],
            "system": "Be brief.",
            "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
        },
    ),
    "openai_responses": (
        "/v1/responses/input_tokens",
        {
            "model": "local/gpt-5",
            "input": TEXT,
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "Read", "parameters": {"type": "object"}}],
        },
    ),
}
PARTS["gemini"] = (
    "/v1beta/models/local/gpt-5:countTokens",
    {
        "generateContentRequest": {
            "contents": [{"role": "user", "parts": [{"text": TEXT}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{"name": "Read"}]}],
        }
    },
)


@pytest.mark.rule("H69", "R77")
@pytest.mark.parametrize("client", PARTS)
def test_a_whole_request_is_counted_with_the_functions_of_the_gateway(client: str) -> None:
    path, body = PARTS[client]
    endpoint = find_endpoint(path)
    assert endpoint is not None
    plain, more = (_read(ask(CONFIG, endpoint, body, *tools)) for tools in ((), (LookUp(),)))
    assert 10 < more - plain < 100


@pytest.mark.parametrize("missing", ["system", "tools"])
def test_a_part_of_a_request_is_counted_alone(missing: str) -> None:
    """Agents count single results and single tools."""
    path, body = PARTS["anthropic"]
    endpoint = find_endpoint(path)
    assert endpoint is not None
    part = {name: value for name, value in body.items() if name != missing}
    assert ask(CONFIG, endpoint, part) == ask(CONFIG, endpoint, part, LookUp())


def test_tools_that_the_route_leaves_out_are_not_counted() -> None:
    path, body = PARTS["anthropic"]
    endpoint = find_endpoint(path)
    assert endpoint is not None
    route = Route(match="local/gpt-5", targets=(TargetName("local", "gpt-5"),), tools=())
    config = msgspec.structs.replace(CONFIG, routes=(route, *CONFIG.routes))
    assert ask(config, endpoint, body) == ask(config, endpoint, body, LookUp())


def _read(answer: Json) -> int:
    tokens = answer.get("input_tokens", answer.get("totalTokens"))
    assert isinstance(tokens, int)
    return tokens
