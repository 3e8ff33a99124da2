"""Each fact is told with the strongest source that states it."""

from dragoman.config.load import load
from dragoman.config.model import Provider
from dragoman.config.model_facts import ExplainedFact, SourcedValue, explain_facts

TEXT = '[providers.deepseek]\napi_key = "k"\n[providers.deepseek.models."*"]\nimages = true\nstop_limit = 4\n'


def provider(**learned: object) -> Provider:
    config = load(TEXT, "dragoman.toml", {}, learned={"deepseek": {"deepseek-v4-pro": learned}})
    return config.providers["deepseek"]


def facts(*, include_dialect: bool = False, **learned: object) -> dict[str, ExplainedFact]:
    told = explain_facts(provider(**learned), "deepseek-v4-pro", include_dialect=include_dialect)
    return {fact.name: fact for fact in told}


def test_the_strongest_source_is_told_and_what_it_overrules() -> None:
    known = facts(images=False)["images"]
    assert (known.value, known.source) == (True, "config")
    assert known.instead_of == SourcedValue(False, "learned")


def test_what_all_sources_agree_on_overrules_nobody() -> None:
    known = facts(stop_limit=4)["stop_limit"]
    assert (known.source, known.instead_of) == ("config", None)


def test_facts_come_in_the_order_of_the_documentation_and_plain() -> None:
    known = facts(include_dialect=True)
    assert list(known)[:3] == ["images", "documents", "audio"]
    assert known["choices"].value == ["auto", "named", "none", "required"]
    assert known["choices"].source == "dialect openai_chat"


def test_what_only_the_dialect_says_is_left_out_unless_wanted() -> None:
    assert "choices" not in facts()
