"""Payload rules are checked when the file is read: every error has a line and a hint."""

import tomllib

import pytest

from dragoman.config.effective import describe_config, write_toml
from dragoman.config.load import load
from dragoman.hub.errors import ConfigError

HEAD = """[providers.p]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
[[providers.p.payload]]
"""
MISTAKES = {
    "no edit": ("models = 'glm-*'", 4, "expected at least one of `set`, `default` and `remove`"),
    "an unknown key": ("\nadd = {a = 1}", 6, "unknown key"),
    "an empty step": ("set = {'thinking..type' = 1}", 5, "expected a path"),
    "an empty condition step": ("remove = ['a']\nwhen_present = 'a.'", 6, "expected a path"),
    "an empty path to remove": ("remove = [\n'a',\n'']", 7, "expected a path"),
    "a path that is too deep": (f"set = {{'{'.'.join('a' * 51)}' = 1}}", 5, "at most 50 names"),
    "the model": ("set = {model = 'm'}", 5, "cannot change this member"),
    "the stream": ("remove = ['stream']", 5, "cannot change this member"),
    "a date": ("default = {a = [2020-01-01]}", 5, "JSON can express, got a date or time"),
    "no number": ("set = {a = {b = nan}}", 5, "JSON can express, got nan"),
    "no table": ("set = ['a']", 5, "expected a table"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_explained_with_its_line(case: str) -> None:
    rule, line, message = MISTAKES[case]
    with pytest.raises(ConfigError) as caught:
        load(HEAD + rule, "dragoman.toml", {})
    assert caught.value.line == line
    assert message in caught.value.message


def test_rules_are_chosen_by_model_and_keep_their_order() -> None:
    second = "[[providers.p.payload]]\ndefault = {temperature = 0.2}"
    config = load(f"{HEAD}models = 'glm-*'\nset = {{'thinking.type' = 'enabled'}}\n{second}", "f", {})
    provider = config.providers["p"]
    assert [rule.set for rule in provider.find_payload("glm-5")] == [{"thinking.type": "enabled"}, {}]
    assert [rule.default for rule in provider.find_payload("qwen")] == [{"temperature": 0.2}]


def test_the_effective_configuration_has_the_rules_as_toml() -> None:
    text = HEAD + "set = {'a.b' = [1, {c = [true], 'd e' = {}}], f = [{g = 1.5}]}\ndefault = {h = {i = 'x'}}"
    shown = tomllib.loads("\n".join(write_toml(describe_config(load(text, "f", {})))))
    (rule,) = tomllib.loads(text)["providers"]["p"]["payload"]
    assert shown["providers"]["p"]["payload"] == [{"models": "*", **rule}]
