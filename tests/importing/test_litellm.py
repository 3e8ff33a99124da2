"""The LiteLLM proxy's configuration becomes one that works, and nothing in it is dropped in silence."""

import sys
from pathlib import Path

import pytest

from dragoman.config.load import load
from dragoman.config.model_facts import find_prices
from dragoman.config.provider import TargetName
from dragoman.hub.errors import ConfigError
from dragoman.importing.draft import ConfigDraft
from dragoman.importing.litellm import import_litellm
from dragoman.routing.choose import choose
from tests.importing.drafts import loaded, noted

FILE = Path(__file__).with_name("litellm.yaml")
VARIABLES = {"TEAM_BASE": "https://llm.team.example/v1"}


def imported(text: str = "", variables: dict[str, str] | None = None) -> ConfigDraft:
    text = text or FILE.read_text("utf-8")
    return import_litellm(text, "config.yaml", VARIABLES if variables is None else variables)


CONFIG = loaded(imported())


@pytest.mark.parametrize(
    ("asked", "targets"),
    [
        ("gpt-5", ["openai/gpt-5", "azure/team-gpt5", "anthropic/claude-opus-5"]),
        ("gpt-4o", ["openai/gpt-5", "azure/team-gpt5", "anthropic/claude-opus-5"]),
        ("claude", ["anthropic/claude-opus-5"]),
        ("smart", ["anthropic/claude-opus-5"]),
        ("local", ["ollama/qwen3-coder:30b", "openai/gpt-5", "azure/team-gpt5"]),
        ("team-llm", ["openai-2/our-finetune"]),
        ("fast", ["cerebras/llama-4-scout"]),
        ("claude-sonnet-5", ["anthropic/claude-sonnet-5"]),
        ("gemini/gemini-3.5-flash", ["gemini/gemini-3.5-flash"]),
    ],
)
def test_models_go_where_they_went_and_fall_back_as_they_did(asked: str, targets: list[str]) -> None:
    assert [str(found) for found in choose(CONFIG, asked).targets] == targets


def test_providers_keep_their_addresses_and_dialects() -> None:
    assert {name: (each.dialect, each.base_url) for name, each in CONFIG.providers.items()} == {
        "openai": ("openai_responses", "https://api.openai.com/v1"),
        "azure": ("openai_chat", "https://team-eu.openai.azure.com/openai/v1"),
        "anthropic": ("anthropic", "https://api.anthropic.com"),
        "ollama": ("openai_chat", "http://gpu-box.example:11434/v1"),
        "openai-2": ("openai_chat", "https://llm.team.example/v1"),
        "cerebras": ("openai_chat", "https://api.cerebras.ai/v1"),
        "gemini": ("gemini", "https://generativelanguage.googleapis.com"),
    }


def test_one_model_with_two_keys_is_one_provider_with_two_keys() -> None:
    assert [key.variable for key in CONFIG.providers["openai"].keys] == ["OPENAI_API_KEY", "OPENAI_API_KEY_2"]


def test_settings_of_deployments_and_of_all_are_kept() -> None:
    azure, team, openai = (CONFIG.providers[name] for name in ("azure", "openai-2", "openai"))
    assert (azure.timeouts.total, azure.timeouts.first_byte) == (120.0, 30.0)
    assert (team.retries, openai.retries, openai.timeouts.total) == (4, 3, 600.0)
    assert {name: value.variable for name, value in team.headers.items()} == {
        "x-team": "",
        "x-auth-token": "X_AUTH_TOKEN",
    }


def test_what_is_known_of_models_is_kept() -> None:
    profile = CONFIG.providers["ollama"].build_profile("qwen3-coder:30b")
    assert (profile.facts.context_tokens, profile.facts.max_output_tokens, profile.facts.images) == (
        65_536,
        8_192,
        False,
    )
    prices = find_prices(CONFIG, TargetName("ollama", "qwen3-coder:30b"))
    assert prices is not None
    assert (prices.per_token.input, prices.per_token.output) == (0.1, 0.4)


def test_secrets_become_variables_and_stand_nowhere() -> None:
    draft = imported()
    assert "literal-secret" not in draft.build_text("a test") + noted(draft) + str(draft.variables)
    assert draft.variables["DRAGOMAN_KEY"] == "general_settings.master_key"
    assert draft.variables["OPENAI_API_KEY"] == ""
    assert "api_key" in draft.variables["OPENAI_API_KEY_2"]


@pytest.mark.parametrize(
    "place",
    [
        "model_list[0] (gpt-5): rpm",
        "model_list[2] (gpt-5): api_version",
        "model_list[3] (claude): temperature",
        "model_list[7] (on-aws)",
        "model_list[8] (embeddings)",
        "fallbacks of local",
        "model_name gpt-5",
        "litellm_settings.drop_params",
        "litellm_settings.context_window_fallbacks",
        "litellm_settings.success_callback",
        "router_settings.routing_strategy",
        "router_settings.redis_host",
        "router_settings.redis_password",
        "general_settings.database_url",
        "environment_variables.LANGFUSE_SECRET_KEY",
        "guardrails",
    ],
)
def test_what_has_no_equivalent_is_noted(place: str) -> None:
    assert place in [note.place for note in imported().notes]


def test_an_address_that_the_environment_does_not_report_is_noted() -> None:
    draft = imported(variables={})
    assert "team-llm" not in draft.routes
    assert "TEAM_BASE is not set" in noted(draft)


def deployment(model: str, *more: str, name: str = "m") -> str:
    lines = "".join(f"      {line}\n" for line in (f'model: "{model}"', *more))
    return f'model_list:\n  - model_name: "{name}"\n    litellm_params:\n{lines}'


@pytest.mark.parametrize(
    ("model", "provider", "target"),
    [
        ("gpt-5", "openai", "openai/gpt-5"),
        ("claude-opus-5", "anthropic", "anthropic/claude-opus-5"),
        ("openai/responses/gpt-5", "openai", "openai/gpt-5"),
        ("openrouter/anthropic/claude-opus-5", "openrouter", "openrouter/anthropic/claude-opus-5"),
        ("dashscope/qwen3-max", "qwen", "qwen/qwen3-max"),
        ("ollama/llama3.1", "ollama", "ollama/llama3.1"),
        ("hosted_vllm/some/model", "vllm", "vllm/some/model"),
        ("zai/glm-5", "zai", "zai/glm-5"),
    ],
)
def test_a_models_prefix_reports_its_provider(model: str, provider: str, target: str) -> None:
    draft = imported(deployment(model))
    assert list(draft.providers) == [provider]
    assert draft.routes == {"m": [target]}
    loaded(draft)


@pytest.mark.parametrize("model", ["vertex_ai/gemini-2.5-pro", "sagemaker/x", "azure/x", "unheard-of/model"])
def test_whom_dragoman_cannot_call_is_noted(model: str) -> None:
    draft = imported(deployment(model))
    assert draft.routes == {}
    assert "model_list[0] (m): left out" in noted(draft)


def test_azure_without_an_address_takes_that_of_litellms_variable() -> None:
    draft = imported(deployment("azure/x"), {})
    assert "AZURE_API_BASE is not set: `export AZURE_API_BASE=https://…`, then import again" in noted(draft)
    draft = imported(deployment("azure/x"), {"AZURE_API_BASE": "https://eu.openai.azure.com/"})
    assert draft.routes == {"m": ["azure/x"]}
    assert loaded(draft).providers["azure"].base_url == "https://eu.openai.azure.com/openai/v1"


def test_every_name_can_go_to_one_provider() -> None:
    draft = imported(deployment("openai/*", "api_base: http://127.0.0.1:8000/v1", name="*"))
    assert [str(target) for target in choose(loaded(draft), "anything").targets] == ["openai/anything"]


def test_a_pattern_that_changes_names_is_noted() -> None:
    draft = imported(deployment("anthropic/claude-*", name="my-*"))
    assert draft.routes == {}
    assert "my-*" in noted(draft)


def test_models_with_keys_of_their_own_stay_apart() -> None:
    entry = "  - model_name: {0}\n    litellm_params: {{model: openai/{0}, api_key: os.environ/{1}}}\n"
    draft = imported("model_list:\n" + entry.format("a", "ONE") + entry.format("b", "TWO"))
    assert draft.routes == {"a": ["openai/a"], "b": ["openai-2/b"]}


@pytest.mark.parametrize(
    "text",
    [
        "- 1",
        "just words",
        "a: [",
        "a: &x {b: *x}\nmodel_list: [*y]",
        "key: 'sk-secret\n  - {",
        "!!python/object:os.x {}",
    ],
)
def test_what_is_no_configuration_is_reported_without_its_words(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(text)
    assert "config.yaml" in caught.value.message
    assert "sk-secret" not in caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "model_list: 5\nlitellm_settings: []\nrouter_settings: no\n",
        "model_list:\n  - {}\n  - model_name: 5\n  - 7\n  - {model_name: x, litellm_params: 3}\n",
        "model_list:\n  - {model_name: x, litellm_params: {model: gpt-5, api_base: 5, timeout: never}}\n",
        "litellm_settings: {fallbacks: [{a: b}, 5], num_retries: many}\n",
    ],
)
def test_odd_files_give_a_configuration_all_the_same(text: str) -> None:
    loaded(imported(text))


def test_without_the_library_it_states_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError) as caught:
        imported()
    assert "pip install pyyaml" in caught.value.hint


def test_all_models_of_a_vendor_are_asked_for_by_its_name_here() -> None:
    draft = imported(deployment("dashscope/*", name="dashscope/*"))
    assert draft.routes == {}
    assert "write qwen/MODEL here" in noted(draft)


def test_an_alias_of_nothing_is_noted() -> None:
    draft = imported(deployment("gpt-5") + "router_settings: {model_group_alias: {fast: nobody}}\n")
    assert list(draft.routes) == ["m"]
    assert "router_settings.model_group_alias.fast: left out: there is no 'nobody'" in noted(draft)


def test_what_is_tried_for_every_name_is_tried_for_names_without_their_own() -> None:
    entry = "  - model_name: {0}\n    litellm_params: {{model: openai/{0}}}\n"
    settings = "litellm_settings: {default_fallbacks: [c], fallbacks: [{a: [b]}]}\n"
    draft = imported("model_list:\n" + "".join(entry.format(name) for name in "abc") + settings)
    assert draft.routes == {"a": ["openai/a", "openai/b"], "b": ["openai/b", "openai/c"], "c": ["openai/c"]}


def test_an_organization_is_reported_to_openai() -> None:
    draft = imported(deployment("openai/gpt-5", "organization: os.environ/OPENAI_ORG"))
    assert draft.providers["openai"]["headers"] == {"openai-organization": "env:OPENAI_ORG"}


def test_a_vendor_can_be_named_apart_from_the_model() -> None:
    more = ("custom_llm_provider: openai", "api_base: http://127.0.0.1:8000/v1")
    draft = imported(deployment("our/finetune", *more))
    assert draft.routes == {"m": ["openai/our/finetune"]}


def test_a_key_for_a_server_of_ones_own_does_not_come_from_the_variable_of_openai() -> None:
    address = "api_base: https://llm.team.example/v1"
    draft = imported(deployment("openai/our-model", address, "api_key: a-literal"))
    assert draft.providers["openai"]["api_key"] == "env:LLM_TEAM_EXAMPLE_API_KEY"


@pytest.mark.parametrize("key", ["none", "EMPTY", "not-needed"])
def test_a_placeholder_is_no_key(key: str) -> None:
    draft = imported(deployment("openai/m", "api_base: http://gpu-box.example:8000/v1", f'api_key: "{key}"'))
    assert "api_key" not in draft.providers["openai"]
    assert draft.variables == {}


def test_equal_placeholders_of_two_vendors_get_two_variables() -> None:
    entry = "  - model_name: {0}\n    litellm_params: {{model: {0}/m, api_key: sk-xxx}}\n"
    draft = imported("model_list:\n" + entry.format("openai") + entry.format("anthropic"))
    assert list(draft.variables) == ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]


@pytest.mark.rule("M24")
@pytest.mark.parametrize("key", ["none", "EMPTY", "sk-no-key-required", ""])
def test_a_server_without_a_key_does_not_get_the_key_of_a_vendor(key: str) -> None:
    text = f"""
model_list:
  - model_name: local
    litellm_params: {{model: openai/qwen, api_base: "http://10.0.0.5:8000/v1", api_key: "{key}"}}
"""
    draft = imported(text)
    config = load(draft.build_text("a test"), "dragoman.toml", {"OPENAI_API_KEY": "real"})
    (provider,) = config.providers.values()
    assert provider.base_url == "http://10.0.0.5:8000/v1"
    assert provider.keys == ()


@pytest.mark.rule("M24")
def test_models_for_embeddings_are_left_out_and_noted() -> None:
    text = """
model_list:
  - model_name: vectors
    litellm_params: {model: openai/text-embedding-3-small}
  - model_name: chat
    litellm_params: {model: openai/gpt-5}
"""
    draft = imported(text)
    assert list(draft.routes) == ["chat"]
    assert "model_list[0] (vectors): left out: dragoman serves chat models" in noted(draft)
