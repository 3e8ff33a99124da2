"""Common mistakes in a configuration file, and their messages."""

from pathlib import Path

import pytest

from dragoman.config.load import load, load_file
from dragoman.config.mistakes import ConfigWarning, list_mistakes
from dragoman.hub.errors import ConfigError

PROVIDER = '[providers.local]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'


def mistakes(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load(text, "f.toml", {})
    return [(mistake.message, mistake.hint) for mistake in list_mistakes(caught.value)]


def warnings(text: str) -> tuple[ConfigWarning, ...]:
    return load(text, "f.toml", {}).warnings


@pytest.mark.rule("M25")
def test_all_mistakes_are_reported_in_the_order_of_their_lines() -> None:
    text = """\
[server]
prot = 1
log = "xml"
[providers.a]
dialect = "openai_chat"
base_url = "localhost:1"
api_key = "$KEY"
[providers.b]
preset = "olama"
[[routes]]
match = "x"
target = "c/m"
[[routes]]
match = "y"
[telemetry]
metrics = 1
"""
    lines = [message.partition(":")[0] for message, _ in mistakes(text)]
    assert lines == [f"f.toml, line {line}" for line in (2, 3, 6, 7, 9, 12, 13, 16)]


@pytest.mark.rule("M25")
def test_several_mistakes_of_one_table_are_reported_together() -> None:
    text = """\
[providers.a]
dialect = "openai-chat"
base_url = "localhost:1"
[[routes]]
match = "gpt-[45"
target = []
colour = 1
[[routes]]
match = "x["
target = "b/m"
[[routes]]
match = 1
target = "a/m"
[[routes]]
match = ""
target = "a/m"
"""
    lines = [message.partition(":")[0] for message, _ in mistakes(text)]
    assert lines == [f"f.toml, line {line}" for line in (2, 3, 5, 6, 7, 9, 10, 12, 14)]


@pytest.mark.rule("M25")
def test_a_route_to_a_provider_with_a_mistake_is_no_second_mistake() -> None:
    text = '[providers.a]\ndialect = "openai"\n[[routes]]\nmatch = "x"\ntarget = "a/m"\n'
    assert len(mistakes(text)) == 1


@pytest.mark.rule("M9")
@pytest.mark.parametrize(
    ("dialect", "url", "hint"),
    [
        ("openai_chat", "http://h:1/v1/chat/completions", 'base_url = "http://h:1/v1"'),
        ("openai_chat", "http://h:1/v1/chat/completions/", 'base_url = "http://h:1/v1"'),
        ("openai_responses", "http://h/v1/responses", 'base_url = "http://h/v1"'),
        ("anthropic", "https://h/api/v1/messages", 'base_url = "https://h/api/v1"'),
        ("gemini", "https://h/v1beta/models/g-1:generateContent", 'base_url = "https://h/v1beta"'),
        ("gemini", "https://h/v1beta/models", 'base_url = "https://h/v1beta"'),
        ("openai_chat", "http://h/v1/models", 'base_url = "http://h/v1"'),
        (
            "anthropic",
            "http://h/v1/chat/completions",
            'base_url = "http://h/v1", and dialect = "openai_chat"',
        ),
    ],
)
def test_the_address_of_an_endpoint_is_refused_with_the_right_one(dialect: str, url: str, hint: str) -> None:
    ((message, shown),) = mistakes(f'[providers.a]\ndialect = "{dialect}"\nbase_url = "{url}"\n')
    assert message.startswith("f.toml, line 3: providers.a.base_url: expected the root of the API")
    assert shown == hint


@pytest.mark.rule("M12")
@pytest.mark.parametrize("value", ["$MY_KEY", "${MY_KEY}", "%MY_KEY%", "os.environ/MY_KEY", "{env:MY_KEY}"])
@pytest.mark.parametrize("line", ['api_key = "{}"', 'api_key = ["{}"]', 'headers = {{ x-key = "{}" }}'])
def test_another_notation_of_a_variable_is_refused(value: str, line: str) -> None:
    ((message, hint),) = mistakes(PROVIDER + line.format(value))
    assert message.startswith("f.toml, line 4: providers.local.")
    assert hint == 'write "env:MY_KEY"'


@pytest.mark.rule("M28")
def test_a_provider_without_its_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[providers.agent]\ndialect = "claude_code"\n'
    monkeypatch.setattr("dragoman.config.load_provider.find_spec", lambda name: None)
    (warning,) = warnings(text)
    assert warning.message == "f.toml, line 1: providers.agent: the extra claude-code is not installed"
    monkeypatch.setattr("dragoman.config.load_provider.find_spec", lambda name: name)
    assert warnings(text) == ()


@pytest.mark.rule("M35")
@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ('default = "anthropic"\n[providers.anthropic]\napi_key = "k"\n', 1, "gemini-2.0"),
        ('default = "ollama"\n[providers.ollama]\n', 1, "claude-opus-5"),
        ('[providers.ollama]\n[[routes]]\nmatch = "gpt-*"\ntarget = "ollama"\n', 4, "gpt-4o"),
        ('[providers.ollama]\n[[routes]]\nmatch = "gpt-5-mini"\ntarget = "ollama"\n', 4, "gpt-5-mini"),
        ('[providers.ollama]\n[[routes]]\nmatch = "x"\ntarget = "ollama/gpt-5-mini"\n', 4, "gpt-5-mini"),
    ],
)
def test_a_name_that_its_provider_does_not_have_is_reported(text: str, line: int, name: str) -> None:
    (warning,) = warnings(text)
    assert warning.line == line
    assert f"has no model such as {name}" in warning.message
    assert '/MODEL"' in warning.hint


@pytest.mark.rule("M35")
@pytest.mark.parametrize(
    "text",
    [
        '[providers.anthropic]\napi_key = "k"\n[[routes]]\nmatch = "claude-*"\ntarget = "anthropic"\n',
        'default = "ollama/qwen3-coder"\n[providers.ollama]\n',
        'default = "openrouter"\n[providers.openrouter]\napi_key = "k"\n',
        'default = "local"\n' + PROVIDER,
        '[providers.ollama]\n[[routes]]\nmatch = "gpt-oss*"\ntarget = "ollama"\n',
        'default = "embedded"\n[providers.embedded]\n',
    ],
)
def test_a_name_that_its_provider_may_have_is_not_reported(text: str) -> None:
    assert warnings(text) == ()


@pytest.mark.rule("M39")
@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            '[server]\nport = "8484"\n',
            "line 2: server.port: expected an integer",
            "without quotes: port = 8484",
        ),
        ('[server]\ndrain = "x"\n', "line 2: server.drain: expected a number", ""),
        ("[server]\nhost = 1\n", "line 2: server.host: expected a string", 'in quotes: host = "1"'),
        (
            PROVIDER.replace("http://127.0.0.1:1/v1", "localhost:11434"),
            "line 3: providers.local.base_url: expected an address such as",
            "begins with http:// or https://",
        ),
        (
            PROVIDER.replace(":1/", ":99999/"),
            "line 3: providers.local.base_url: expected a port from 1 to 65535",
            "",
        ),
        ("[provider.x]\na = 1\n", "line 1: provider: unknown key", 'did you mean "providers"?'),
        ("[[route]]\na = 1\n", "line 1: route: unknown key", 'did you mean "routes"?'),
        (
            PROVIDER + '[[routes]]\nmatch = "a"\ntarget = []\n',
            "line 6: routes[0].target: expected a string or a list of strings, got an empty list",
            "",
        ),
        (
            PROVIDER + '[[routes]]\nmatch = "a"\ntarget = "local,qwen3"\n',
            'line 6: routes[0].target: no provider "local,qwen3"',
            'write "local/qwen3"',
        ),
        (
            PROVIDER + '[[routes]]\nmatch = "gpt-[45"\ntarget = "local"\n',
            'line 5: routes[0].match: the pattern "gpt-[45" has a [ without a ]',
            "",
        ),
        (PROVIDER + "[[routes]]\nmatch = *\n", "line 5: not TOML: match: expected a value", 'match = "…"'),
        ("[server]\nport = 1\nport = 2\n", "line 3: not TOML: port: the key is there twice", "remove one"),
        ('{"Providers": []}', "not TOML: the file looks like JSON", "dragoman import ccr f.toml"),
        (
            "model_list:\n  - model_name: x\n",
            "not TOML: the file looks like YAML",
            "dragoman import litellm f.toml",
        ),
    ],
)
def test_the_message_names_the_line_the_cause_and_the_correction(text: str, message: str, hint: str) -> None:
    ((shown, shown_hint),) = mistakes(text)
    assert shown.startswith("f.toml")
    assert message in shown
    assert hint in shown_hint


@pytest.mark.rule("M39")
def test_routes_that_are_never_used_are_reported() -> None:
    routes = "".join(
        f'[[routes]]\nmatch = "{each}"\ntarget = "local/m"\n' for each in ("*", "gpt-*", "gpt-5")
    )
    found = warnings('default = "local/m"\n' + PROVIDER + routes)
    assert [(warning.line, warning.message.split(": ", 2)[1]) for warning in found] == [
        (1, "default"),
        (8, "routes[1]"),
    ]
    assert all("never used" in warning.message for warning in found)


@pytest.mark.rule("M39")
def test_routes_in_a_useful_order_are_not_reported() -> None:
    routes = "".join(
        f'[[routes]]\nmatch = "{each}"\ntarget = "local/m"\n' for each in ("gpt-?", "gpt-*", "*")
    )
    assert warnings(PROVIDER + routes) == ()


@pytest.mark.rule("M39")
def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_bytes(b"\xef\xbb\xbf" + PROVIDER.encode())
    assert list(load_file(str(file), {}).providers) == ["local"]


@pytest.mark.rule("M39")
def test_the_hint_about_a_folder_names_the_file_in_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder") as caught:
        load_file(str(tmp_path), {})
    assert str(tmp_path / "dragoman.toml") in caught.value.hint
