"""Each fact is explained with the strongest source that states it."""

from pathlib import Path

import pytest

from dragoman.config.load import load
from dragoman.config.model_facts import ExplainedFact, SourcedValue, explain_facts
from dragoman.config.provider import Provider
from dragoman.hub.errors import ConfigError

TEXT = '[providers.deepseek]\napi_key = "k"\n[providers.deepseek.models."*"]\nimages = true\nstop_limit = 4\n'


def provider(**learned: object) -> Provider:
    config = load(TEXT, "dragoman.toml", {}, learned={"deepseek": {"deepseek-v4-pro": learned}})
    return config.providers["deepseek"]


def facts(*, include_dialect: bool = False, **learned: object) -> dict[str, ExplainedFact]:
    explained = explain_facts(provider(**learned), "deepseek-v4-pro", include_dialect=include_dialect)
    return {fact.name: fact for fact in explained}


def test_a_fact_has_its_strongest_source_and_the_value_that_it_replaces() -> None:
    known = facts(images=False)["images"]
    assert (known.value, known.source) == (True, "config")
    assert known.instead_of == SourcedValue(False, "learned")


def test_a_value_on_which_all_sources_agree_replaces_none() -> None:
    known = facts(stop_limit=4)["stop_limit"]
    assert (known.source, known.instead_of) == ("config", None)


def test_facts_come_in_the_order_of_the_documentation_and_plain() -> None:
    known = facts(include_dialect=True)
    assert list(known)[:3] == ["images", "documents", "audio"]
    assert known["choices"].value == ["auto", "named", "none", "required"]
    assert known["choices"].source == "dialect openai_chat"


@pytest.mark.rule("C24")
def test_instructions_come_from_a_file_beside_the_configuration(tmp_path: Path) -> None:
    text = """
[providers.plan]
dialect = "openai_responses"
base_url = "http://127.0.0.1:9"
[providers.plan.models."*"]
instructions = "file:codex.md"
"""
    path = str(tmp_path / "dragoman.toml")
    with pytest.raises(ConfigError, match=r"line 6: .*instructions: cannot read the file"):
        load(text, path, {})
    (tmp_path / "codex.md").write_text(" \n", "utf-8")
    with pytest.raises(ConfigError, match="the file is empty"):
        load(text, path, {})
    (tmp_path / "codex.md").write_text("You are Codex.\n", "utf-8")
    profile = load(text, path, {}).providers["plan"].build_profile("gpt-6")
    assert profile.facts.instructions == "You are Codex.\n"


def test_facts_of_the_dialect_alone_are_left_out_by_default() -> None:
    assert "choices" not in facts()
