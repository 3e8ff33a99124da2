"""Agents are pointed at the gateway by means of their own, and the user's settings are left alone."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.agents import (
    AGENTS,
    FOLDER,
    AgentLaunch,
    GatewayAccess,
    ModelLimits,
    bypass_proxies,
    is_session,
    prepare_launch,
)
from dragoman.cli.connection import build_access, gateway_url
from dragoman.cli.gemini_home import build_gemini_home, build_gemini_settings, keep_gemini_files
from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.settings import Secret, ServerSettings
from dragoman.hub.errors import ConfigError

ACCESS = GatewayAccess(url="http://127.0.0.1:1", key="door-key", model='odd"name', names=("one", 'odd"name'))
PLAIN = GatewayAccess(url="http://127.0.0.1:1", key="door-key")


@pytest.mark.parametrize("name", list(AGENTS))
def test_every_agent_learns_the_address_and_the_key(name: str) -> None:
    launch = AGENTS[name].build_launch(ACCESS)
    passed = " ".join((*launch.environment.values(), *launch.arguments))
    assert "http://127.0.0.1:1" in passed
    assert "door-key" in " ".join(launch.environment.values())


@pytest.mark.parametrize("name", list(AGENTS))
def test_no_key_stands_where_other_users_could_see_it(name: str) -> None:
    assert "door-key" not in " ".join(AGENTS[name].build_launch(ACCESS).arguments)


def test_claude_code_gets_the_model_for_all_its_purposes() -> None:
    launch = AGENTS["claude"].build_launch(ACCESS)
    models = [value for name, value in launch.environment.items() if "MODEL" in name]
    assert models == ['odd"name'] * 8
    settings = msgspec.json.decode(launch.files["claude.json"])
    assert settings["env"] == {**dict.fromkeys(launch.unset, ""), **launch.environment}
    assert settings["modelPicker"] == {
        "options": [
            {"model": name, "label": name, "description": "A model of the gateway"}
            for name in ('odd"name', "one")
        ],
        "replaceBuiltInOptions": True,
    }
    assert not any("MODEL" in name for name in AGENTS["claude"].build_launch(PLAIN).environment)


def test_claude_code_is_not_led_elsewhere_by_variables_of_the_user() -> None:
    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK"} <= set(
        AGENTS["claude"].build_launch(ACCESS).unset
    )


def test_codex_gets_settings_that_are_toml() -> None:
    arguments = AGENTS["codex"].build_launch(ACCESS).arguments
    settings = tomllib.loads("\n".join(arguments[1::2]))
    assert arguments[::2] == ("-c", "-c", "-c")
    assert settings["model"] == 'odd"name'
    assert settings["model_provider"] == "dragoman"
    assert settings["model_providers"]["dragoman"]["base_url"] == "http://127.0.0.1:1/v1"


def test_opencode_gets_every_model_and_asks_for_the_chosen_one() -> None:
    config = msgspec.json.decode(
        AGENTS["opencode"].build_launch(ACCESS).environment["OPENCODE_CONFIG_CONTENT"]
    )
    assert config["model"] == 'dragoman/odd"name'
    assert list(config["provider"]["dragoman"]["models"]) == ['odd"name', "one"]


LIMITED_TEXT = """
    [providers.local]
    dialect = "openai_chat"
    base_url = "http://127.0.0.1:1/v1"
    [providers.local.models."small"]
    context_tokens = 32768
    max_output_tokens = 4096
    [providers.local.models."unknown"]
    images = false
    [[routes]]
    match = "*"
    target = "local/small"
"""
LIMITED = load(LIMITED_TEXT, "f.toml", {})


def launch_limited(name: str, model: str) -> AgentLaunch:
    agent = AGENTS[name]
    return agent.build_launch(build_access(agent, "http://x", LIMITED, key="", model=model))


@pytest.mark.rule("M4")
@pytest.mark.parametrize("model", ["", "anything", "local/small"])
def test_claude_code_gets_the_limits_of_the_model_that_answers(model: str) -> None:
    environment = launch_limited("claude", model).environment
    # Three quarters of the window, the answer, and the margin of Claude Code.
    assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(24_576 + 4_096 + 13_000)
    assert environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "4096"
    # For names that it knows, Claude Code reads only this one, and takes no less than 100,000.
    assert environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "100000"
    # The entry `Default` of its menu would be the same model with a window of a million tokens.
    assert environment["CLAUDE_CODE_DISABLE_1M_CONTEXT"] == "1"


@pytest.mark.rule("M4")
@pytest.mark.parametrize(
    ("context", "output", "given"),
    [
        (32_768, 0, "4096"),
        (32_768, 32_768, "4096"),
        (32_768, 4_096, "4096"),
        (200_000, 0, None),
        (200_000, 64_000, "64000"),
    ],
)
def test_claude_code_reserves_only_a_part_of_a_small_window(
    context: int, output: int, given: str | None
) -> None:
    # Claude Code 2.1 reserves 32,000 tokens for the answer of an unknown model. In a window of 32,768 it
    # then compacted before every request.
    access = msgspec.structs.replace(
        ACCESS, requested="small", limits={"small": ModelLimits(context=context, output=output)}
    )
    environment = AGENTS["claude"].build_launch(access).environment
    assert environment.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS") == given


@pytest.mark.rule("M4")
@pytest.mark.parametrize(
    ("context", "is_disabled"), [(32_768, True), (200_000, True), (200_001, False), (1_000_000, False)]
)
def test_claude_code_does_not_warn_about_a_window_above_200_000_tokens(
    context: int, is_disabled: bool
) -> None:
    # With the variable it warns at every start that it does not enforce the limit of 200,000 tokens.
    limits = {"large": ModelLimits(context=context)}
    access = msgspec.structs.replace(ACCESS, requested="large", limits=limits)
    environment = AGENTS["claude"].build_launch(access).environment
    assert ("CLAUDE_CODE_DISABLE_1M_CONTEXT" in environment) == is_disabled


@pytest.mark.rule("M4")
@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_an_agent_requests_the_model_that_answers_if_its_window_is_known(name: str) -> None:
    agent = AGENTS[name]
    access = build_access(agent, "http://x", LIMITED, key="", model="")
    assert (access.model, access.requested, access.answering) == ("small", "small", "local/small")
    assert access.find_limits().context == 32_768


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("context_tokens = 32768\n", ""), id="unknown window"),
        pytest.param(
            ("[[routes]]", '[[routes]]\nmatch = "claude-haiku-*"\ntarget = "local/other"\n[[routes]]'),
            id="another model for small tasks",
        ),
        pytest.param(
            ("[[routes]]", '[[routes]]\nmatch = "small"\ntarget = "local/other"\n[[routes]]'),
            id="the name has another route",
        ),
        pytest.param(('target = "local/small"', 'target = "local/*"'), id="the name is kept"),
    ],
)
def test_an_agent_keeps_its_own_model_names_if_they_can_lead_elsewhere(change: tuple[str, str]) -> None:
    text = LIMITED_TEXT.replace("max_output_tokens = 4096\n", "").replace(*change)
    access = build_access(AGENTS["claude"], "http://x", load(text, "f.toml", {}), key="", model="")
    assert (access.model, access.requested) == ("", "claude-opus-5-5")


@pytest.mark.rule("M4")
@pytest.mark.parametrize("model", ["", "anything", "local/small"])
def test_codex_gets_the_window_of_the_model_that_answers(model: str) -> None:
    settings = tomllib.loads("\n".join(launch_limited("codex", model).arguments[1::2]))
    assert settings["model_context_window"] == 32768


@pytest.mark.rule("M4")
def test_opencode_gets_the_limits_of_every_model() -> None:
    config = msgspec.json.decode(
        launch_limited("opencode", "anything").environment["OPENCODE_CONFIG_CONTENT"]
    )
    limit = {"context": 32768, "output": 4096}
    assert config["provider"]["dragoman"]["models"] == {
        "anything": {"name": "anything", "limit": limit},
        "local/small": {"name": "local/small", "limit": limit},
        "local/unknown": {"name": "local/unknown"},
    }


@pytest.mark.rule("M4")
def test_gemini_cli_compresses_before_the_window_of_the_model_is_full() -> None:
    # It assumes 1,048,576 tokens for every model, and compresses at the threshold's part of them.
    settings = msgspec.json.decode(launch_limited("gemini", "").files[".gemini/settings.json"])
    assert settings["model"] == {"compressionThreshold": 0.015625}
    kept = msgspec.json.decode(build_gemini_settings({"model": {"name": "mine"}}, 32768))
    assert kept["model"] == {"name": "mine", "compressionThreshold": 0.015625}


@pytest.mark.rule("M4")
@pytest.mark.parametrize(
    ("context", "sizes"),
    [(32_768, ["4096", "4096"]), (320_000, ["40000", "30000"]), (10**6, ["50000", "30000"])],
)
def test_gemini_cli_shortens_old_outputs_before_the_window_is_full(
    context: int, sizes: list[str], tmp_path: Path
) -> None:
    limits = {"m": ModelLimits(context=context)}
    access = msgspec.structs.replace(PLAIN, requested="m", limits=limits)
    launch = prepare_launch(AGENTS["gemini"].build_launch(access), tmp_path, {"HOME": str(tmp_path / "home")})
    flags = msgspec.json.decode(Path(launch.environment["GEMINI_EXP"]).read_bytes())["flags"]
    assert [flag["intValue"] for flag in flags] == sizes


@pytest.mark.rule("M4")
@pytest.mark.parametrize("name", list(AGENTS))
def test_no_agent_gets_limits_that_are_not_known(name: str) -> None:
    launch = launch_limited(name, "local/unknown")
    content = " ".join((*launch.environment, *launch.environment.values(), *launch.arguments))
    content += " ".join(launch.files.values())
    names = (
        "MAX_CONTEXT",
        "MAX_OUTPUT",
        "COMPACT_WINDOW",
        "context_window",
        "compressionThreshold",
        "GEMINI_EXP",
    )
    assert not [each for each in names if each in content]
    if name == "opencode":
        models = msgspec.json.decode(launch.environment["OPENCODE_CONFIG_CONTENT"])["provider"]["dragoman"]
        assert models["models"]["local/unknown"] == {"name": "local/unknown"}


def test_private_files_are_written_and_named(tmp_path: Path) -> None:
    launch = prepare_launch(AGENTS["claude"].build_launch(ACCESS), tmp_path, {})
    assert launch.arguments == ("--settings", str(tmp_path / "claude.json"))
    assert "door-key" in (tmp_path / "claude.json").read_text("utf-8")
    assert FOLDER not in " ".join(launch.environment.values())


def test_gemini_cli_finds_what_is_the_users_and_settings_of_its_own(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    folder.mkdir()
    (home / ".gemini" / "history").mkdir(parents=True)
    (home / ".gemini" / "GEMINI.md").write_text("remember", "utf-8")
    settings = home / ".gemini" / "settings.json"
    mine = '{"theme": "a // b", /* mine */ "security": {"auth": {"selectedType": "oauth-personal"}, "x": 1}}'
    settings.write_text(mine, "utf-8")
    launch = prepare_launch(AGENTS["gemini"].build_launch(ACCESS), folder, {"HOME": str(home)})
    assert launch.environment["GEMINI_CLI_HOME"] == str(folder)
    assert (folder / ".gemini" / "GEMINI.md").read_text("utf-8") == "remember"
    assert (folder / ".gemini" / "history").resolve() == home / ".gemini" / "history"
    assert msgspec.json.decode((folder / ".gemini" / "settings.json").read_bytes()) == {
        "theme": "a // b",
        "security": {"auth": {"selectedType": "gemini-api-key"}, "x": 1},
    }
    assert settings.read_text("utf-8") == mine


@pytest.mark.parametrize("mine", [None, "not json", "[1]"])
def test_settings_that_cannot_be_read_are_left_out(tmp_path: Path, mine: str | None) -> None:
    if mine is not None:
        (tmp_path / "home" / ".gemini").mkdir(parents=True)
        (tmp_path / "home" / ".gemini" / "settings.json").write_text(mine, "utf-8")
    (tmp_path / "folder").mkdir()
    build_gemini_home(tmp_path / "folder", {"HOME": str(tmp_path / "home")})
    assert (tmp_path / "folder" / ".gemini" / "settings.json").read_text("utf-8") == build_gemini_settings({})


def test_a_proxy_for_the_world_is_not_asked_for_this_machine() -> None:
    assert bypass_proxies({"A": "b"}) == {"A": "b"}
    changed = bypass_proxies({"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "intern"})
    assert changed["NO_PROXY"] == changed["no_proxy"] == "intern,127.0.0.1,localhost,::1"


CONFIG = load(
    'default = "e/first"\n[server]\nkeys = ["k1", "k2"]\n[providers.e]\npreset = "embedded"\n', "f.toml", {}
)


def test_what_the_options_leave_open_is_taken_from_the_configuration() -> None:
    access = build_access(AGENTS["opencode"], "http://x/v1/", CONFIG, key="", model="")
    assert access == GatewayAccess(
        url="http://x",
        key="k1",
        model="e/first",
        names=("e/first",),
        requested="e/first",
        answering="e/first",
    )
    assert build_access(AGENTS["claude"], "http://x", CONFIG, key="mine", model="").key == "mine"


def test_an_agent_with_models_of_its_own_is_left_to_them() -> None:
    assert build_access(AGENTS["codex"], "http://x", CONFIG, key="", model="").model == ""


NAMED = load(
    '[providers.e]\npreset = "embedded"\n[[routes]]\nmatch = "via-chat"\ntarget = "e/x"\n', "f.toml", {}
)


@pytest.mark.parametrize("name", list(AGENTS))
def test_an_agent_whose_own_models_are_not_served_asks_for_one_that_is(name: str) -> None:
    assert build_access(AGENTS[name], "http://x", NAMED, key="", model="").model == "via-chat"
    assert build_access(AGENTS[name], "http://x", NAMED, key="", model="e/y").model == "e/y"


def test_a_gateway_without_keys_is_shown_any_key() -> None:
    assert build_access(AGENTS["claude"], "http://x", Config(), key="", model="").key == "dragoman"


def test_an_agent_that_must_name_a_model_reports_it() -> None:
    with pytest.raises(ConfigError, match="OpenCode needs the name of a model") as caught:
        build_access(AGENTS["opencode"], "http://x", None, key="", model="")
    assert caught.value.hint == "--model NAME"


def test_a_key_that_is_nowhere_is_reported_by_its_variable() -> None:
    config = Config(server=ServerSettings(keys=(Secret("", "DOOR_KEY"),)))
    with pytest.raises(ConfigError, match="DOOR_KEY is not set"):
        build_access(AGENTS["claude"], "http://x", config, key="", model="")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8484"),
        ("::1", "http://[::1]:8484"),
        ("::", "http://[::1]:8484"),
        ("0.0.0.0", "http://127.0.0.1:8484"),  # noqa: S104 (compared, not bound)
        ("gateway.example", "http://gateway.example:8484"),
    ],
)
def test_an_address_to_listen_on_is_an_address_to_call(host: str, url: str) -> None:
    assert gateway_url(Config(server=ServerSettings(host=host))) == url


CATALOGUE = """\
#!/bin/sh
[ "$1 $2" = "debug models" ] && echo '{"models": [
  {"slug": "newest", "use_responses_lite": true, "context_window": 900000, "base_instructions": "code"},
  {"slug": "plain", "context_window": 272000, "base_instructions": "functions", "upgrade": {}}]}'
"""


@pytest.mark.rule("M4")
def test_codex_gets_the_gateways_models_in_the_catalogue_of_its_own_version(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text(CATALOGUE, "utf-8")
    program.chmod(0o700)
    launch = prepare_launch(
        launch_limited("codex", ""), tmp_path, {"PATH": f"{program.parent}:/usr/bin:/bin"}
    )
    settings = tomllib.loads("\n".join(launch.arguments[1::2]))
    assert settings["model_catalog_json"] == str(tmp_path / "models.json")
    entries = msgspec.json.decode((tmp_path / "models.json").read_bytes())["models"]
    assert [entry["slug"] for entry in entries if entry["visibility"] != "hide"] == [
        "small",
        "local/small",
        "local/unknown",
    ]
    found = {entry["slug"]: (entry["context_window"], entry["base_instructions"]) for entry in entries}
    assert found == {
        "small": (32_768, "functions"),
        "local/small": (32_768, "functions"),
        "local/unknown": (272_000, "functions"),
        "newest": (900_000, "code"),
        "plain": (272_000, "functions"),
    }


def test_a_codex_without_a_catalogue_is_started_without_one(tmp_path: Path) -> None:
    launch = launch_limited("codex", "")
    prepared = prepare_launch(launch, tmp_path, {"PATH": str(tmp_path)})
    assert prepared.arguments == launch.arguments


def test_what_gemini_cli_creates_in_its_private_home_is_kept(tmp_path: Path) -> None:
    user, private = tmp_path / "user", tmp_path / "private"
    (user / ".gemini").mkdir(parents=True)
    (user / ".gemini" / "settings.json").write_text("{}", "utf-8")
    private.mkdir()
    environment = {"HOME": str(user)}
    build_gemini_home(private, environment)
    (private / ".gemini" / "trustedFolders.json").write_text('{"/p": "TRUST_FOLDER"}', "utf-8")
    (private / ".gemini" / "tmp" / "session").write_text("s", "utf-8")
    keep_gemini_files(private, environment)
    assert (user / ".gemini" / "trustedFolders.json").read_text("utf-8") == '{"/p": "TRUST_FOLDER"}'
    assert (user / ".gemini" / "tmp" / "session").read_text("utf-8") == "s"
    assert (user / ".gemini" / "settings.json").read_text("utf-8") == "{}"


@pytest.mark.rule("M6")
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("claude", (), True),
        ("claude", ("--allowedTools", "Bash"), True),
        ("claude", ("fix the tests",), True),
        ("claude", ("-p", "hi"), False),
        ("claude", ("--verbose", "--print", "hi"), False),
        ("claude", ("mcp", "list"), False),
        ("codex", ("exec", "fix the tests"), False),
        ("codex", ("--full-auto",), True),
        ("gemini", ("--yolo", "-p", "hi"), False),
        ("opencode", ("run", "fix the tests"), False),
    ],
)
def test_only_a_session_with_a_person_can_be_resumed(
    name: str, arguments: tuple[str, ...], expected: bool
) -> None:
    assert is_session(AGENTS[name], arguments) is expected
