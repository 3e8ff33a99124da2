"""Rules and `auth` are checked when the file is read: every error has a line and a hint."""

import re
from pathlib import Path

import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.rules import PRESETS
from dragoman.hub.errors import ConfigError
from dragoman.server.paths import OWN_PATHS

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


#: The first parts of the gateway's own paths.
OWN_ENTRIES = dict.fromkeys(
    found[0] for pattern, _, _ in OWN_PATHS if (found := re.match(r"/[a-z]+", pattern)) is not None
)

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
    **{
        f"an entry of the gateway, {entry}": (
            f"[[rules]]\ntarget = 'p'\nwhen.path = '{entry}'",
            "no API uses",
        )
        for entry in OWN_ENTRIES
    },
    "an entry of two segments": ("[[rules]]\ntarget = 'p'\nwhen.path = '/a/b'", "no API uses"),
    "wrong hours": ("[[rules]]\ntarget = 'p'\nwhen.hours = '25:00-3'", "expected two different times"),
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
    "the same time twice": ("[[rules]]\ntarget = 'p'\nwhen.hours = '9:00-9:00'", "two different times"),
    "a time after the day": ("[[rules]]\ntarget = 'p'\nwhen.hours = '9:00-24:30'", "two different times"),
    "a compared pattern": ("[[rules]]\ntarget = 'p'\nwhen.agent_version = '>=2.*'", "expected a version"),
    "a compared word": ("[[rules]]\ntarget = 'p'\nwhen.agent_version = '>=new'", "expected a version"),
    "fewer than no tokens": ("[[rules]]\ntarget = 'p'\nwhen.tokens_under = 0", "fewer tokens than 0"),
    "no number with the preset": (
        "[[rules]]\ntarget = 'p'\npreset = 'longContext'\nwhen.tokens_under = 50",
        "over 60000 and under 50",
    ),
    "no markers": ("[roles]\nlead = []", "expected a text"),
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


def warned(rules: str, word: str) -> list[str]:
    return [str(warning) for warning in read(rules).warnings if word in str(warning)]


#: Two rules: the conditions of the first, of the second, and whether the first hides the second.
HIDDEN = [
    ("", "thinking = true", True),
    ("agent = 'codex'", "agent = 'codex'", True),
    ("agent = 'codex'", "agent = 'codex', sub_agent = true", True),
    ("agent = 'codex', sub_agent = true", "agent = 'codex'", False),
    ("agent = ['codex', 'opencode']", "agent = 'opencode'", True),
    ("agent = 'codex'", "agent = ['codex', 'opencode']", False),
    ("model = 'gpt-*'", "model = 'gpt-5*'", True),
    ("model = 'gpt-5*'", "model = 'gpt-*'", False),
    ("tokens_over = 100", "tokens_over = 200", True),
    ("tokens_over = 200", "tokens_over = 100", False),
    ("tokens_under = 200", "tokens_under = 100", True),
    ("images = 'any'", "images = 'new'", True),
    ("images = 'new'", "images = 'any'", False),
    ("thinking = false", "thinking = true", False),
    ("headers = {a = 'x'}", "headers = {a = 'x', b = 'y'}", True),
    ("headers = {a = 'x', b = 'y'}", "headers = {a = 'x'}", False),
    # A name that contains its provider passes the first rule.
    ("", "model = 'p/*'", False),
]


@pytest.mark.parametrize(("first", "second", "is_hidden"), HIDDEN)
def test_a_rule_that_an_earlier_one_hides_is_a_warning(first: str, second: str, is_hidden: bool) -> None:
    rule = "[[rules]]\nname='{}'\ntarget='p'\nwhen={{{}}}\n"
    rules = rule.format("a", first) + rule.format("b", second)
    expected = (
        'dragoman.toml, line 12: rules[1]: never used, because "a" above it holds for the same requests'
    )
    assert [each.partition(" (")[0] for each in warned(rules, "never used")] == [expected] * is_hidden


@pytest.mark.parametrize("result", ["preset = 'tag'", "function = 'os:getcwd'"])
def test_a_rule_that_may_decide_nothing_hides_no_other(result: str) -> None:
    assert warned(f"[[rules]]\n{result}\n[[rules]]\nname='b'\ntarget='p'", "never used") == []


@pytest.mark.parametrize(
    ("text", "function", "problem"),
    [
        ("def choose(request): return None", "mine.py:choose", ""),
        ("if True:\n    choose = print", "mine.py:choose", ""),
        ("from os import getcwd as choose", "mine.py:choose", ""),
        ("from os import *", "mine.py:choose", ""),
        (
            "def chose(request): return None",
            "mine.py:choose",
            'has no function choose (did you mean "chose"?)',
        ),
        ("def choose(:", "mine.py:choose", "the file cannot be read as Python"),
        ("\0", "mine.py:choose", "the file cannot be read as Python"),
        ("", "os.path:join", ""),
        ("", "no_such_module_here.inner:choose", "there is no module no_such_module_here here"),
    ],
)
def test_a_function_that_cannot_be_called_is_a_warning(
    text: str, function: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(text)
    config = load(f"{HEAD}[[rules]]\nfunction = '{function}'", str(tmp_path / "d.toml"), {})
    found = [str(warning) for warning in config.warnings if "decides nothing" in str(warning)]
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)


def test_names_that_are_probably_wrong_are_warnings() -> None:
    assert (
        'did you mean "claude-code"?'
        in warned("[[rules]]\ntarget='p'\nwhen.agent='claude'", "known")[0].lower()
    )
    assert (
        warned("[[rules]]\ntarget='p'\nwhen.agent=['claude-code', 'my-own-app', 'cl*']", "known agent") == []
    )
    assert len(warned("[roles]\nreviewer = 'be:reviewer'", "no rule uses this role")) == 1
    used = "[roles]\nreviewer = 'be:reviewer'\n[[rules]]\ntarget='p'\nwhen.role='reviewer'"
    assert warned(used, "no rule uses this role") == []


ROUTE = "[[routes]]\nmatch = 'a'\ntarget = ['p/x', 'p/y']\n"


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        (f"{ROUTE}sticky = 5", "`sticky` has no effect"),
        (f"{ROUTE}sticky = 5\norder = 'fastest'", ""),
        ("[[routes]]\nmatch = 'a'\ntarget = 'p/x'\norder = 'fastest'", "no effect with one target"),
        (f"{ROUTE}order = 'weighted'", "without `weights`"),
        (f"{ROUTE}order = 'cheapest'", "the price of p/x is unknown"),
    ],
)
def test_settings_of_the_order_without_an_effect_are_warnings(route: str, problem: str) -> None:
    found = [str(warning) for warning in read(route).warnings]
    assert [problem in each for each in found[:1]] == [True] * bool(problem)


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
