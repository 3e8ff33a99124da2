"""The model list, in the form that each client expects."""

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.routing.choose import ModelNotFound, choose
from dragoman.server.models import build_models_body
from dragoman.server.paths import find_endpoint

CONFIG = load(
    """
    [providers.local]
    dialect = "openai_chat"
    base_url = "http://127.0.0.1:1/v1"
    [providers.local.models."large"]
    context_tokens = 128000
    max_output_tokens = 4096
    [[routes]]
    match = "via-chat"
    target = "local/large"
    [[routes]]
    match = "claude-*"
    target = "local/small"
    """,
    "dragoman.toml",
    {},
)


def listed(path: str, config: Config = CONFIG, **headers: str) -> dict[str, object]:
    endpoint = find_endpoint(path)
    assert endpoint is not None
    return build_models_body(
        config, endpoint, {name.replace("_", "-"): value for name, value in headers.items()}
    )


@pytest.mark.rule("H70", "M4")
def test_openai_clients_get_a_list_of_models() -> None:
    body = listed("/v1/models")
    assert body["object"] == "list"
    limits = {"context_length": 128000, "max_output_tokens": 4096}
    assert body["data"] == [
        {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "local", **known}
        for name, known in (("via-chat", limits), ("local/small", {}), ("local/large", limits))
    ]


@pytest.mark.rule("M21")
def test_claude_code_gets_names_that_its_menu_accepts_and_each_leads_to_its_model() -> None:
    body = listed(
        "/v1/models", anthropic_version="2023-06-01", user_agent="claude-cli/2.1.325 (external, cli)"
    )
    data = msgspec.convert(body["data"], list[dict[str, object]])
    assert [(entry["id"], entry["display_name"]) for entry in data] == [
        ("claude:via-chat", "via-chat"),
        ("claude:local/small", "local/small"),
        ("claude:local/large", "local/large"),
    ]
    for entry in data:
        assert choose(CONFIG, str(entry["id"])) == choose(CONFIG, str(entry["display_name"]))


@pytest.mark.rule("H70", "M4")
def test_anthropic_clients_get_a_page_of_models() -> None:
    body = listed("/v1/models", anthropic_version="2023-06-01")
    assert (body["has_more"], body["first_id"], body["last_id"]) == (False, "via-chat", "local/large")
    limits = {"max_input_tokens": 128000, "max_tokens": 4096}
    assert body["data"] == [
        {"type": "model", "id": name, "display_name": name, "created_at": "2023-11-14T22:13:20Z", **known}
        for name, known in (("via-chat", limits), ("local/small", {}), ("local/large", limits))
    ]


@pytest.mark.parametrize("header", ["x_goog_api_client", "x_goog_api_key"])
def test_googles_sdk_gets_its_shape_under_the_path_that_it_shares(header: str) -> None:
    assert listed("/v1/models", CONFIG, **{header: "x"}) == listed("/v1beta/models")
    assert listed("/v1/models/via-chat", CONFIG, **{header: "x"}) == listed("/v1beta/models/via-chat")


@pytest.mark.rule("H70")
def test_gemini_clients_get_models_with_their_limits() -> None:
    models = listed("/v1beta/models")["models"]
    assert isinstance(models, list)
    assert [model["name"] for model in models] == [
        "models/via-chat",
        "models/local/small",
        "models/local/large",
    ]
    assert (models[0]["inputTokenLimit"], models[0]["outputTokenLimit"]) == (128000, 4096)
    assert "inputTokenLimit" not in models[1]
    assert "countTokens" in models[0]["supportedGenerationMethods"]


def test_a_registry_without_names_is_an_empty_page() -> None:
    assert listed("/v1/models", Config(), anthropic_version="x") == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [("/v1/models/claude-9", "id", "claude-9"), ("/v1beta/models/local/any", "name", "models/local/any")],
)
def test_one_model_can_be_asked_for_by_any_name_that_is_served(path: str, key: str, value: str) -> None:
    assert listed(path)[key] == value


def test_a_model_that_is_not_served_is_not_found() -> None:
    with pytest.raises(ModelNotFound, match="via-chat"):
        listed("/v1/models/gpt-5")
