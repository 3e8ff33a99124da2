"""Rules and `auth` are checked when the file is read: every error has a line and a hint."""

import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.rules import PRESETS
from dragoman.hub.errors import ConfigError

HEAD = """
[providers.p]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
[[routes]]
match = "big"
target = "p/large"
"""


def read(rules: str) -> Config:
    return load(HEAD + rules, "dragoman.toml", {})


MISTAKES = {
    "no result": ("[[rules]]\nname = 'a'", "expected one of `target`, `route`, `answer` and `function`"),
    "two results": ("[[rules]]\ntarget = 'p'\nroute = 'big'", "got `target` and `route`"),
    "a tag and a target": ("[[rules]]\npreset = 'tag'\ntarget = 'p'", "the tag names the target"),
    "an unknown route": ("[[rules]]\nroute = 'bigg'", 'no route "bigg"'),
    "an unknown provider": ("[[rules]]\ntarget = 'q/x'", 'no provider "q"'),
    "an unknown role": ("[[rules]]\ntarget = 'p'\nwhen.role = 'boss'", 'no role "boss"'),
    "an unknown class": ("[[rules]]\ntarget = 'p'\nwhen.class = 'chat'", "rules[0].when.class"),
    "an unknown preset": ("[[rules]]\ntarget = 'p'\npreset = 'thinks'", "preset"),
    "an unknown condition": ("[[rules]]\ntarget = 'p'\nwhen.modell = 'x'", "modell"),
    "an entry of an API": ("[[rules]]\ntarget = 'p'\nwhen.path = '/v1'", "no API uses"),
    "an entry of two segments": ("[[rules]]\ntarget = 'p'\nwhen.path = '/a/b'", "no API uses"),
    "wrong hours": ("[[rules]]\ntarget = 'p'\nwhen.hours = '25:00-3'", "expected two times"),
    "a wrong version": ("[[rules]]\ntarget = 'p'\nwhen.agent_version = '=> 2 1'", "expected a version"),
    "a credential": (
        "[[rules]]\ntarget = 'p'\nwhen.headers = {Authorization = '*'}",
        "do not see credentials",
    ),
    "no file": ("[[rules]]\nfunction = 'nowhere.py:choose'", "there is no file"),
    "no function": ("[[rules]]\nfunction = 'nowhere'", "expected FILE.py:NAME"),
    "the same name": (
        "[[rules]]\nname='a'\ntarget = 'p'\n[[rules]]\nname='a'\ntarget = 'p'",
        "an earlier rule",
    ),
    "an empty marker": ("[roles]\nlead = ''", "expected a text"),
    "an empty pattern": ("[[rules]]\ntarget = 'p'\nwhen.model = ['']", "not empty"),
    "no number of tokens": (
        "[[rules]]\ntarget = 'p'\nwhen = {tokens_over = 9, tokens_under = 9}",
        "no number of tokens",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_explained_with_its_line(case: str) -> None:
    rules, message = MISTAKES[case]
    with pytest.raises(ConfigError, match="line") as caught:
        read(rules)
    assert message in str(caught.value)


def test_a_rule_after_one_that_always_holds_is_a_warning() -> None:
    config = read("[[rules]]\npreset = 'default'\ntarget = 'p'\n[[rules]]\npreset = 'think'\ntarget = 'p'")
    assert [str(warning) for warning in config.warnings if "never used" in str(warning)] == [
        'dragoman.toml, line 8: rules[0]: always holds, so these rules are never used: "think"'
    ]


def test_conditions_replace_those_of_the_preset() -> None:
    (rule,) = read("[[rules]]\npreset = 'longContext'\ntarget = 'p'\nwhen.tokens_over = 5").rules
    assert (rule.name, rule.when.tokens_over) == ("longContext", 5)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_used(preset: str) -> None:
    result = "" if preset == "tag" else "target = 'p/m'"
    (rule,) = read(f"[[rules]]\npreset = '{preset}'\n{result}").rules
    assert (rule.name, rule.when) == (preset, PRESETS[preset])


CONTRADICTIONS = {
    "a key": ("api_key = 'k'", "the client's credential is sent, not this key"),
    "a header": ("headers = {Authorization = 'x'}", "this header is the client's"),
    "an open address": ("base_url = 'http://api.example/v1'", "would cross the network unprotected"),
    "a proxy that reads it": (
        "base_url = 'http://127.0.0.1:9/v1'\nproxy = 'http://proxy.example:3128'",
        "the proxy would read",
    ),
}


@pytest.mark.rule("R120")
@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_settings_that_contradict_the_clients_credential_are_refused(case: str) -> None:
    line, message = CONTRADICTIONS[case]
    address = "" if "base_url" in line else "base_url = 'https://api.example/v1'"
    with pytest.raises(ConfigError, match=message):
        load(f"[providers.p]\ndialect = 'anthropic'\nauth = 'client'\n{address}\n{line}", "d.toml", {})


@pytest.mark.rule("R120")
def test_the_preset_reads_no_key_for_a_provider_with_the_clients_credential() -> None:
    config = load("[providers.anthropic]\nauth = 'client'", "d.toml", {"ANTHROPIC_API_KEY": "sk-mine"})
    assert config.providers["anthropic"].keys == ()
    assert not config.providers["anthropic"].obstacle
