"""The keys of the structs are complete, agree with the values, and are the documented ones."""

import msgspec
import pytest

from dragoman.config.config import list_tables
from dragoman.config.load import load
from dragoman.config.provider import list_dialects
from dragoman.config.value_kinds import Kind, read_keys
from dragoman.providers.facts import Facts
from dragoman.providers.presets import load_presets
from tools.config_docs import DOCS, FACTS_HEAD, KEYS_HEAD, PAGES

PAGE = (DOCS / "configuration.md").read_text("utf-8")
FACTS = read_keys(Facts)
EXAMPLES: tuple[object, ...] = (True, 3, 1.5, "word", [3, 4], ["word"], [])


@pytest.mark.parametrize("name", list(PAGES))
def test_the_documentation_has_every_key_and_fact_as_the_code_does(name: str) -> None:
    page = (DOCS / name).read_text("utf-8")
    assert PAGES[name](page) == page, "python -m tools.config_docs writes the tables"


def test_the_documentation_has_a_table_of_keys_for_every_table_of_the_file() -> None:
    assert PAGE.count(KEYS_HEAD) == len(list_tables())
    assert FACTS_HEAD in (DOCS / "models.md").read_text("utf-8")


def test_every_table_has_its_place_in_the_documentation() -> None:
    assert [table.heading for table in list_tables() if table.heading not in PAGE] == []


def test_the_documentation_lists_every_preset() -> None:
    for name, preset in load_presets().items():
        variable = f"`{preset.key}`" if preset.key else ""
        address = preset.base_url or "none"
        assert f"| `{name}` | `{preset.dialect}` | {address} | {variable} |" in PAGE.splitlines()


def test_the_examples_in_the_documentation_work_as_they_stand() -> None:
    examples = [part.split("```")[0] for part in PAGE.split("```toml\n")[1:]]
    assert len(examples) >= 3
    variables = {"LOCAL_KEY": "k", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "DRAGOMAN_KEY": "k"}
    for example in examples:
        load(example, "docs/configuration.md", variables | {"FIRST_KEY": "k", "SECOND_KEY": "k", "TEAM": "k"})


def test_every_key_is_explained_and_no_other() -> None:
    for table in list_tables():
        assert [name for name, key in table.keys.items() if not key.about.endswith(".")] == []


@pytest.mark.parametrize("value", EXAMPLES, ids=repr)
@pytest.mark.parametrize("name", list(FACTS))
def test_a_fact_accepts_what_a_profile_accepts(name: str, value: object) -> None:
    kind: Kind = FACTS[name].kind
    value = kind.choices[0] if value == "word" and kind.choices else value
    value = [kind.choices[0]] if value == ["word"] and kind.choices else value
    try:
        msgspec.convert({name: value}, Facts)
    except msgspec.ValidationError:
        assert not kind.accepts(value)
    else:
        assert kind.accepts(value)


def test_every_preset_has_a_known_dialect_and_known_facts() -> None:
    for preset in load_presets().values():
        assert preset.dialect in list_dialects()
        assert set(preset.facts) <= set(FACTS)
        assert [name for name, value in preset.facts.items() if not FACTS[name].kind.accepts(value)] == []


@pytest.mark.parametrize("name", list(load_presets()))
def test_a_provider_named_after_a_preset_needs_only_its_key(name: str) -> None:
    preset = load_presets()[name]
    config = load(f"[providers.{name}]\n", "dragoman.toml", {preset.key: "k"} if preset.key else {})
    provider = config.providers[name]
    assert provider.dialect == preset.dialect
    assert len(provider.keys) == bool(preset.key)
    assert provider.build_profile("any").dialect == provider.wire_dialect


def test_widely_used_providers_have_presets() -> None:
    wanted = "openai anthropic gemini openrouter deepseek groq mistral moonshot zhipu qwen xai"
    local = "ollama lmstudio vllm llamacpp embedded claude-code"
    assert set(load_presets()) == {*wanted.split(), *local.split()}
