"""The shipped catalogue has known facts with accepted values."""

import pytest

from dragoman.config.load import load
from dragoman.config.model_facts import find_prices
from dragoman.config.provider import TargetName
from dragoman.config.value_kinds import read_keys
from dragoman.governance.harvest import families
from dragoman.providers.facts import Facts
from dragoman.providers.presets import Catalogue, list_catalogues, load_catalogue, load_presets

NAMES = list_catalogues()


def shipped(name: str) -> Catalogue:
    found = load_catalogue(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_states_known_facts_of_the_right_kind(name: str) -> None:
    for pattern, stated in shipped(name).models.items():
        assert stated, pattern
        assert [
            fact for fact, value in stated.items() if not read_keys(Facts)[fact].kind.accepts(value)
        ] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_file_belongs_to_a_preset_and_is_dated(name: str) -> None:
    assert name in {preset.catalogue or own for own, preset in load_presets().items()}
    assert shipped(name).checked.year >= 2026


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_has_both_prices_or_none_and_no_answer_longer_than_the_context(name: str) -> None:
    for pattern, stated in shipped(name).models.items():
        assert ("price_input" in stated) == ("price_output" in stated), pattern
        assert ("long_prompt" in stated) == ("long_price_input" in stated), pattern
        known = {fact: value for fact, value in stated.items() if isinstance(value, int)}
        if "context_tokens" in known:
            assert known.get("max_output_tokens", 0) <= known["context_tokens"], pattern


@pytest.mark.parametrize("name", NAMES)
def test_every_way_of_writing_calls_is_one_that_can_be_harvested(name: str) -> None:
    used = {str(stated["call_family"]) for stated in shipped(name).models.values() if "call_family" in stated}
    assert used <= set(families())


def test_a_vendor_without_a_file_is_not_known() -> None:
    assert load_catalogue("nobody") is None


CONFIG = load("[providers.anthropic]\n[providers.ollama]\n", "dragoman.toml", {"ANTHROPIC_API_KEY": "k"})


def test_the_prices_of_a_target_are_those_of_its_model() -> None:
    found = find_prices(CONFIG, TargetName("anthropic", "claude-haiku-4-5-20251001"))
    assert found is not None
    assert (found.per_token.input, found.per_token.output, found.per_token.cache_read) == (1.0, 5.0, 0.1)


def test_an_unknown_target_has_no_prices() -> None:
    assert find_prices(CONFIG, TargetName("anthropic", "a-model-of-tomorrow")) is None
    assert find_prices(CONFIG, TargetName("ollama", "qwen3-coder:30b")) is None
    assert find_prices(CONFIG, TargetName("nobody", "at-all")) is None


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("qwen3-coder:30b", "qwen3_coder"),
        ("qwen2.5-coder:7b", "bare_json"),
        ("qwen3.5:35b", "qwen35"),
        ("zai-org/GLM-4.7", "glm_thinking"),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3_coder"),
        ("qwen2.5:7b", "hermes"),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3_thinking"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek_v31"),
        ("gpt-oss:20b", "gpt_oss"),
        ("llama3.1:8b", "llama3"),
        ("something-else", None),
    ],
)
def test_models_that_users_host_have_the_call_format_of_their_family(model: str, family: str | None) -> None:
    assert CONFIG.providers["ollama"].build_profile(model).facts.call_family == (family or "")
