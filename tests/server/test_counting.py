"""Token counts are those of the model that would answer."""

import msgspec
import pytest

from dragoman.config.load import load
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule
from dragoman.routing.choose import ModelNotFound
from dragoman.server.models import build_count_body
from dragoman.server.paths import find_endpoint

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


def counted(model: str, path: str = "/v1/messages/count_tokens", **body: object) -> int:
    endpoint = find_endpoint(path)
    assert endpoint is not None
    content = body or {"model": model, "messages": [{"role": "user", "content": TEXT}]}
    answer = build_count_body(CONFIG, endpoint, msgspec.json.encode(content))
    tokens = answer.get("input_tokens", answer.get("totalTokens"))
    assert isinstance(tokens, int)
    return tokens


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
    answer = build_count_body(config, endpoint, msgspec.json.encode(body))
    assert answer["input_tokens"] == counted("local/claude-sonnet-5-5")


def test_a_request_that_names_no_model_is_counted_by_its_dialect() -> None:
    assert counted("", "/v1/responses/input_tokens", input=TEXT) > 100


def test_the_url_names_the_model_for_gemini() -> None:
    contents = [{"role": "user", "parts": [{"text": TEXT}]}]
    assert counted("", "/v1beta/models/try:countTokens", contents=contents) > 100
