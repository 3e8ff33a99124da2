"""A file becomes a configuration, or an error that names the place and the next step."""

from pathlib import Path

import pytest

from dragoman.config.config import Config
from dragoman.config.load import load, load_file
from dragoman.config.provider import TargetName
from dragoman.hub.errors import ConfigError

EXAMPLE = """\
[server]
host = "127.0.0.1"
port = 8484

[providers.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8901/v1"
api_key = "env:LOCAL_KEY"

[[routes]]
match = "via-chat"
target = "local/mock-large"
"""
ENVIRONMENT = {"LOCAL_KEY": "local-secret", "OPENAI_API_KEY": "openai-secret"}


def loaded(text: str, environment: dict[str, str] = ENVIRONMENT) -> Config:
    return load(text, "dragoman.toml", environment)


def refused(text: str, environment: dict[str, str] = ENVIRONMENT) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(text, environment)
    return caught.value


@pytest.mark.rule("R122", "R131")
def test_a_provider_and_a_route_are_all_that_a_file_needs() -> None:
    config = loaded(EXAMPLE)
    provider = config.providers["local"]
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8484)
    assert (provider.dialect, provider.base_url) == ("openai_chat", "http://127.0.0.1:8901/v1")
    assert [key.reveal() for key in provider.keys] == ["local-secret"]
    assert [(route.match, route.targets) for route in config.routes] == [
        ("via-chat", (TargetName("local", "mock-large"),))
    ]


@pytest.mark.rule("M29")
@pytest.mark.parametrize("text", ["", "[server]\nport = 1\n"])
def test_a_file_without_providers_is_a_configuration_with_a_warning(text: str) -> None:
    (warning,) = loaded(text).warnings
    assert "there are no providers, so every request is refused" in warning.message
    assert "dragoman setup" in warning.hint


def test_a_list_of_targets_keeps_its_order_and_a_route_can_be_strict() -> None:
    config = loaded(EXAMPLE + '[[routes]]\nmatch = "b"\ntarget = ["local/one", "local"]\nstrict = true\n')
    assert config.routes[1].targets == (TargetName("local", "one"), TargetName("local", "*"))
    assert [route.strict for route in config.routes] == [False, True]


def test_a_route_that_calls_a_second_target_must_have_two() -> None:
    assert (
        loaded(EXAMPLE.replace('"local/mock-large"', '["local/a", "local/b"]\nhedge = 2')).routes[0].hedge
        == 2
    )
    assert "routes[0].hedge: hedge has no effect with one target" in refused(EXAMPLE + "hedge = 2\n").message
    assert "routes[0].hedge" in refused(EXAMPLE + "hedge = -1\n").message


def test_a_file_of_certificates_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "trusted.pem"
    text = f'[providers.a]\npreset = "ollama"\nverify = "{file.as_posix()}"\n'
    assert "line 3: providers.a.verify: expected true, false or a file" in refused(text).message
    file.write_text("")
    assert loaded(text).providers["a"].verify == file.as_posix()


def test_several_keys_come_in_their_order() -> None:
    config = loaded(EXAMPLE.replace('"env:LOCAL_KEY"', '["env:LOCAL_KEY", "literal"]'))
    assert [key.reveal() for key in config.providers["local"].keys] == ["local-secret", "literal"]


def test_blanks_around_a_secret_are_no_part_of_it() -> None:
    config = loaded(EXAMPLE, {"LOCAL_KEY": " secret\n"})
    assert config.providers["local"].keys[0].reveal() == "secret"


def test_a_command_that_calls_no_provider_needs_no_secrets_but_gets_those_that_are_set() -> None:
    text = EXAMPLE + "[providers.openai]\n"
    config = load(text, "dragoman.toml", {"LOCAL_KEY": "local-secret"}, secrets_needed=False)
    assert [key.reveal() for key in config.providers["local"].keys] == ["local-secret"]
    assert [(key.variable, bool(key)) for key in config.providers["openai"].keys] == [
        ("OPENAI_API_KEY", False)
    ]


def test_headers_are_secrets_in_lower_case() -> None:
    config = loaded(EXAMPLE.replace('"env:LOCAL_KEY"', '"k"\nheaders = { X-Team = "env:LOCAL_KEY" }'))
    headers = config.providers["local"].headers
    assert {name: value.reveal() for name, value in headers.items()} == {"x-team": "local-secret"}


def test_host_names_are_kept_in_lower_case() -> None:
    assert loaded('[server]\nhosts = ["Gateway.Example"]').server.hosts == ("gateway.example",)


@pytest.mark.rule("R124")
def test_no_secret_is_ever_shown() -> None:
    text = EXAMPLE.replace('"env:LOCAL_KEY"', '"literal-secret"\nproxy = "http://me:proxy-secret@proxy:1"')
    shown = repr(loaded(text.replace("[server]", '[server]\nkeys = ["server-secret"]')))
    assert "secret" not in shown


@pytest.mark.rule("R124")
def test_the_usual_key_goes_to_the_usual_address() -> None:
    usual = loaded("[providers.openai]\n").providers["openai"]
    assert [key.reveal() for key in usual.keys] == ["openai-secret"]


@pytest.mark.rule("R124")
def test_the_usual_key_goes_to_no_other_address() -> None:
    elsewhere = loaded('[providers.openai]\nbase_url = "http://elsewhere.example/v1"\n').providers["openai"]
    assert elsewhere.keys == ()


def test_a_preset_can_be_changed_key_by_key() -> None:
    text = '[providers.mine]\npreset = "openai"\ndialect = "openai_chat"\nretries = 5\n'
    provider = loaded(text).providers["mine"]
    assert (provider.dialect, provider.base_url) == ("openai_chat", "https://api.openai.com/v1")
    assert provider.retries == 5


def test_a_provider_with_a_dialect_of_its_own_takes_nothing_from_a_preset_of_its_name() -> None:
    text = '[providers.mistral]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
    assert loaded(text).providers["mistral"].models == {}


def test_facts_of_a_name_override_facts_of_patterns() -> None:
    text = EXAMPLE.replace(
        "[[routes]]",
        '[providers.local.models."small-*"]\nimages = false\ncontext_tokens = 8000\n'
        '[providers.local.models."small-eyes"]\nimages = true\n[[routes]]',
        1,
    )
    provider = loaded(text).providers["local"]
    assert (
        provider.build_profile("small-x").facts.images,
        provider.build_profile("small-x").facts.context_tokens,
    ) == (
        False,
        8000,
    )
    assert (
        provider.build_profile("small-eyes").facts.images,
        provider.build_profile("small-eyes").facts.context_tokens,
    ) == (
        True,
        8000,
    )
    assert provider.merge_facts("large") == {}


def test_a_preset_knows_some_models_by_their_names() -> None:
    provider = loaded("[providers.openai]\n").providers["openai"]
    assert provider.build_profile("gpt-4o-mini").facts.max_output_tokens == 16_384
    assert "max_output_tokens" not in provider.merge_facts("a-model-of-tomorrow")


def test_the_catalogue_applies_to_a_preset_under_any_provider_name() -> None:
    text = '[providers.work]\npreset = "anthropic"\napi_key = "k"\n[providers.other]\n'
    text += 'dialect = "anthropic"\nbase_url = "https://gateway.example"\n'
    providers = loaded(text).providers
    assert providers["work"].build_profile("claude-haiku-4-5").facts.reasoning == "budget"
    assert providers["other"].merge_facts("claude-haiku-4-5") == {}


def test_facts_of_a_preset_give_way_to_the_file() -> None:
    text = '[providers.deepseek]\napi_key = "k"\n[providers.deepseek.models."*"]\nimages = true\n'
    profile = loaded(text).providers["deepseek"].build_profile("any")
    assert (profile.facts.images, profile.facts.replay_reasoning) == (True, True)


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "hint"),
    [
        ("port = 8484", "prot = 8484", 3, "server.prot: unknown key", 'did you mean "port"?'),
        ("port = 8484", "match = 1", 3, "server.match: unknown key", "it belongs in [[routes]]"),
        ("port = 8484", "xyzzy = 1", 3, "server.xyzzy: unknown key", "known keys: host, port"),
        ("port = 8484", 'port = "8484"', 3, 'an integer from 0 to 65535, got "8484"', ""),
        ("port = 8484", "port = 84840", 3, "an integer from 0 to 65535, got 84840", ""),
        ("port = 8484", "ping = nan", 3, "server.ping: expected a number from 0 on, got nan", ""),
        ("port = 8484", "ping = true", 3, "server.ping: expected a number from 0 on, got true or false", ""),
        ("port = 8484", 'log = "jsn"', 3, 'expected "text" or "json", got "jsn"', 'did you mean "json"?'),
        ("port = 8484", "hosts = [1]", 3, "server.hosts: expected a list of strings, got a list", ""),
        ("port = 8484", "port = 1979-05-27", 3, "got a date or time", ""),
        ("port = 8484", 'keys = [""]', 3, "server.keys[0]: expected a value, got an empty string", ""),
        ('host = "127.0.0.1"', 'host = ""', 2, "server.host: expected an address", ""),
        ("openai_chat", "opanai_chat", 6, "providers.local.dialect: expected", 'did you mean "openai_chat"?'),
        ("http://127", "ftp://127", 7, "providers.local.base_url: expected an address such as", ""),
        ("http://127.0.0.1:8901/v1", "http://[x/v1", 7, "base_url: expected an address such as", ""),
        ("http://127", "http://me:secret@127", 7, "without a user name", ""),
        (":8901/v1", ":8901/v1?key=secret", 7, "without `?`", ""),
        ('"env:LOCAL_KEY"', "5", 8, "api_key: expected a string or a list of strings, got an integer", ""),
        ('"env:LOCAL_KEY"', "[]", 8, "expected a string or a list of strings, got an empty list", ""),
        ('"env:LOCAL_KEY"', '"env:"', 8, "expected the name of a variable after env:", ""),
        (
            '"env:LOCAL_KEY"',
            '"env:sk-secret"',
            8,
            "expected the name of a variable after env:",
            "without env:",
        ),
        ('"env:LOCAL_KEY"', '"secret\\nhost: x"', 8, "visible ASCII characters only", ""),
        ("[providers.local]", "[providers.loc]", 12, 'no provider "local"', 'did you mean "loc"?'),
        ("[providers.local]", '[providers."a/b"]', 5, "expected a name of letters", ""),
        ("local/mock-large", "local/", 12, "expected a model after the slash", ""),
        ('match = "via-chat"', "", 10, "routes[0]: expected `match`", ""),
        ('target = "local/mock-large"', "", 10, "routes[0]: expected `target`", "for example"),
        ("[[routes]]", '[[routes]]\nmatch = "via-chat"\ntarget = "local"\n[[routes]]', 14, "same name", ""),
        ("[[routes]]", "[routes]", 10, "routes: expected a list of tables, got a table", ""),
        ("[[routes]]", '[providers.local.headers]\n"a b" = "c"\n[[routes]]', 11, "name of a header", ""),
        ("[[routes]]", "[providers.local.headers]\nhost = 1\n[[routes]]", 11, "expected a string", ""),
        ("[[routes]]", "[providers.local.timeouts]\nidel = 1\n[[routes]]", 11, "unknown key", '"idle"'),
        ("[[routes]]", "[providers.local.models]\nx = 1\n[[routes]]", 11, "expected a table", "models.NAME]"),
        ("[[routes]]", "[providers.local.models.x]\nimage = 1\n[[routes]]", 11, "unknown key", '"images"'),
        ("[[routes]]", '[providers.local.models.x]\nefforts = ["lo"]\n[[routes]]', 11, '"low"', ""),
    ],
)
def test_an_error_names_its_line(old: str, new: str, line: int, message: str, hint: str) -> None:
    assert old in EXAMPLE
    error = refused(EXAMPLE.replace(old, new, 1))
    assert error.message.startswith(f"dragoman.toml, line {line}: ")
    assert message in error.message
    assert hint in error.hint
    assert "secret" not in error.message


def test_the_address_of_a_collector_holds_no_password() -> None:
    error = refused('[telemetry]\ntraces = "http://me:secret@127.0.0.1:4318"\n')
    assert "telemetry.traces: expected an address without a user name" in error.message
    assert "OTEL_EXPORTER_OTLP_HEADERS" in error.hint
    assert "secret" not in error.message


def test_the_error_about_a_default_below_a_table_names_its_place() -> None:
    error = refused(EXAMPLE + 'default = "local"\n')
    assert "routes[0].default: unknown key" in error.message
    assert "above the first [table]" in error.hint


def test_a_provider_needs_a_dialect_or_a_preset() -> None:
    error = refused("[providers.opnai]\n")
    assert "expected `dialect` or `preset`" in error.message
    assert error.hint == 'did you mean "openai"?'


def test_the_error_about_an_unknown_preset_suggests_the_nearest() -> None:
    error = refused('[providers.a]\npreset = "olama"\n')
    assert (error.message, error.hint) == (
        'dragoman.toml, line 2: providers.a.preset: no preset "olama"',
        'did you mean "ollama"?',
    )


@pytest.mark.rule("M13")
@pytest.mark.parametrize(
    ("line", "variable"),
    [
        ("", "OPENAI_API_KEY"),
        ('api_key = "env:NO_KEY"', "NO_KEY"),
        ('api_key = "k"\nheaders = { x-team = "env:NO_TEAM" }', "NO_TEAM"),
        ('api_key = "k"\nproxy = "env:NO_PROXY_SET"', "NO_PROXY_SET"),
    ],
)
def test_a_missing_variable_concerns_one_provider(line: str, variable: str) -> None:
    config = loaded(f"[providers.openai]\n{line}\n[providers.ollama]\n", {})
    (warning,) = config.warnings
    assert f"the environment variable {variable} is not set" in warning.message
    assert f"export {variable}=…" in warning.hint
    assert config.providers["openai"].obstacle == f"the environment variable {variable} is not set"
    assert config.providers["ollama"].obstacle == ""


@pytest.mark.rule("M13")
def test_of_several_keys_those_that_are_set_are_used() -> None:
    text = EXAMPLE.replace('"env:LOCAL_KEY"', '["env:NO_KEY", "env:LOCAL_KEY"]')
    config = loaded(text)
    assert [key.reveal() for key in config.providers["local"].keys] == ["local-secret"]
    assert config.providers["local"].obstacle == ""
    assert "dragoman.toml, line 8: providers.local.api_key[0]: " in config.warnings[0].message


def test_a_client_key_whose_variable_is_not_set_is_a_mistake() -> None:
    """Otherwise a gateway that should ask for a key would serve every client."""
    error = refused('[server]\nkeys = ["env:NO_KEY"]\n')
    assert "line 2: server.keys[0]: the environment variable NO_KEY is not set" in error.message


def test_a_provider_needs_an_address() -> None:
    error = refused('[providers.a]\ndialect = "openai_chat"\n')
    assert "providers.a: expected `base_url`" in error.message
    assert "base_url = " in error.hint


def test_a_proxy_may_come_from_the_environment_and_must_be_an_address() -> None:
    text = EXAMPLE.replace("api_key", 'proxy = "env:PROXY"\napi_key')
    proxy = "http://me:secret@proxy.example:3128"
    assert loaded(text, {**ENVIRONMENT, "PROXY": proxy}).providers["local"].proxy == proxy
    assert load(text, "", {}, secrets_needed=False).providers["local"].proxy == ""
    error = refused(text, {**ENVIRONMENT, "PROXY": "secret"})
    assert "providers.local.proxy: expected an address" in error.message
    assert "secret" not in error.message


def test_the_embedded_model_has_no_address() -> None:
    assert "no address" in refused('[providers.embedded]\nbase_url = "http://127.0.0.1:1"\n').message


@pytest.mark.parametrize("text", ["[server", "a = ", 'a = "x\n', "a = 1\na = 2", "a = " + "9" * 5000])
def test_a_file_that_is_not_toml_is_refused(text: str) -> None:
    error = refused(text)
    assert error.message.startswith("dragoman.toml")
    assert "not TOML" in error.message


def test_a_file_that_is_nested_too_deeply_is_an_error_like_others() -> None:
    assert "nested too deeply" in refused("a = " + "[" * 5000 + "]" * 5000).message


def test_the_error_about_a_missing_file_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: No such file") as caught:
        load_file(str(tmp_path / "missing.toml"), {})
    assert "dragoman setup" in caught.value.hint


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(b"a = 1\n\xff")
    with pytest.raises(ConfigError, match="expected UTF-8 text, byte 6 is not"):
        load_file(str(file), {})


def test_claude_code_needs_neither_address_nor_key_and_is_the_same_under_any_name() -> None:
    text = '[providers.helper]\ndialect = "claude_code"\n[providers.helper.sessions]\nlimit = 3\n'
    provider = load(text, "dragoman.toml", {}).providers["helper"]
    assert (provider.base_url, provider.keys, provider.wire_dialect) == ("", (), "anthropic")
    assert (provider.sessions.limit, provider.sessions.max_turns, provider.retries) == (3, 10, 0)
    assert provider.build_profile("sonnet").facts.repeated_calls is True


def test_only_claude_code_has_sessions() -> None:
    text = '[providers.up]\ndialect = "gemini"\nbase_url = "http://h"\n[providers.up.sessions]\nlimit = 3\n'
    with pytest.raises(ConfigError, match=r"line 4: providers\.up\.sessions: only a provider of dialect"):
        load(text, "dragoman.toml", {})


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[providers.sub]\ndialect = "claude_code"\ntools = ["web_fetch"]\n', "providers.sub.tools"),
        (
            '[providers.sub]\ndialect = "claude_code"\n'
            '[[routes]]\nmatch = "a"\ntarget = "sub/sonnet"\ntools = ["web_fetch"]\n',
            "routes[0].tools",
        ),
    ],
)
def test_tools_selected_for_a_program_alone_are_a_warning(table: str, key: str) -> None:
    warnings = [each.message for each in loaded(f"[tools.web_fetch]\n{table}").warnings]
    assert any(f"{key}: the provider sub gets no tools of the gateway" in each for each in warnings), warnings
    other = '[providers.other]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
    shared = f"[tools.web_fetch]\n{other}{table}".replace('"sub/sonnet"', '["sub/sonnet", "other/m"]')
    if key.startswith("routes"):
        assert not any("gets no tools" in each.message for each in loaded(shared).warnings)
