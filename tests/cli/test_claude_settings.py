"""Settings of Claude Code that would lead it past the gateway are merged, or reported."""

from pathlib import Path

import msgspec
import pytest

from dragoman.cli.agents import AGENTS, GatewayAccess
from dragoman.cli.claude_settings import describe_settings, split_settings
from dragoman.hub.errors import ConfigError

ACCESS = GatewayAccess(url="http://127.0.0.1:1", key="own-key")
NOWHERE = Path("/nowhere")
ELSEWHERE = {"env": {"ANTHROPIC_BASE_URL": "http://elsewhere", "MINE": "1"}, "theme": "dark"}


def merge(
    *arguments: str, access: GatewayAccess = ACCESS, folder: Path = NOWHERE, **environment: str
) -> tuple[dict[str, object], tuple[str, ...]]:
    """The settings of Claude Code, and its arguments, for the user's own arguments and variables."""
    agent = AGENTS["claude"]
    assert agent.merge_own is not None
    variables = {"HOME": str(folder), **environment}
    launch, kept = agent.merge_own(agent.build_launch(access), arguments, variables, folder)
    settings = msgspec.json.decode(launch.files["claude.json"], type=dict[str, object])
    assert launch.environment.items() <= msgspec.convert(settings["env"], dict[str, str]).items()
    return settings, kept


@pytest.mark.rule("M18")
@pytest.mark.parametrize("form", ["two", "one", "json"])
def test_settings_of_the_user_are_merged_into_those_of_the_gateway(tmp_path: Path, form: str) -> None:
    path = tmp_path / "own.json"
    text = msgspec.json.encode(ELSEWHERE).decode()
    path.write_text(text, "utf-8")
    given = {"two": ("--settings", str(path)), "one": (f"--settings={path}",), "json": ("--settings", text)}
    settings, kept = merge("-p", *given[form], "hello")
    assert kept == ("-p", "hello")
    assert settings["theme"] == "dark"
    variables = settings["env"]
    assert isinstance(variables, dict)
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert variables["MINE"] == "1"


@pytest.mark.rule("M18")
def test_settings_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the settings"):
        merge("--settings", str(tmp_path / "missing.json"))
    with pytest.raises(ConfigError, match="not a JSON object"):
        merge("--settings", "{secret")


def test_what_follows_two_dashes_is_no_option() -> None:
    assert split_settings(("-p", "--", "--settings", "x")) == (("-p", "--", "--settings", "x"), ())


@pytest.mark.rule("M18")
@pytest.mark.parametrize("place", ["home/.claude/settings.json", "work/.claude/settings.local.json"])
@pytest.mark.parametrize("name", ["ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK"])
def test_settings_that_lead_elsewhere_are_overridden_and_reported(
    tmp_path: Path, place: str, name: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"env": {{"{name}": "x"}}}}', "utf-8")
    agent = AGENTS["claude"]
    launch = agent.build_launch(ACCESS)
    assert agent.describe_settings is not None
    environment = {"HOME": str(tmp_path / "home")}
    lines = agent.describe_settings(ACCESS, launch, tmp_path / "work", environment)
    assert lines == [f"{path} sets {name}; the values of dragoman are used instead"]
    assert msgspec.json.decode(launch.files["claude.json"])["env"][name] in ("http://127.0.0.1:1", "")


@pytest.mark.rule("M21")
def test_a_model_that_the_menu_has_saved_is_reported(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text('{"model": "chain"}', "utf-8")
    (line,) = describe_settings({"HOME": str(tmp_path)}, tmp_path, {}, "")
    assert "default model 'chain'" in line
    assert "--model" in line
    assert not list(describe_settings({"HOME": str(tmp_path)}, tmp_path, {}, "chosen"))


RELAYED = GatewayAccess(url="http://127.0.0.1:1", key="own-key", relays_credential=True)


@pytest.mark.rule("M18")
@pytest.mark.parametrize("place", ["variable", "file", "argument", "nowhere"])
def test_headers_of_the_user_are_kept_beside_the_gateways_key(tmp_path: Path, place: str) -> None:
    own = "x-team: blue\nx-user: ann"
    text = msgspec.json.encode({"env": {"ANTHROPIC_CUSTOM_HEADERS": own}}).decode()
    (tmp_path / ".claude").mkdir()
    if place == "file":
        (tmp_path / ".claude" / "settings.json").write_text(text, "utf-8")
    variables = {"ANTHROPIC_CUSTOM_HEADERS": own} if place == "variable" else {}
    arguments = ("--settings", text) if place == "argument" else ()
    settings, _ = merge(*arguments, access=RELAYED, folder=tmp_path, **variables)
    headers = msgspec.convert(settings["env"], dict[str, str])["ANTHROPIC_CUSTOM_HEADERS"]
    assert headers.splitlines() == [
        *(own.splitlines() if place != "nowhere" else ()),
        "dragoman-key: own-key",
    ]
    agent = AGENTS["claude"]
    assert agent.describe_settings is not None
    launch = agent.build_launch(RELAYED)
    assert agent.describe_settings(RELAYED, launch, tmp_path, {"HOME": str(tmp_path)}) == []


def test_headers_of_the_user_are_left_alone_if_the_gateway_sets_none(tmp_path: Path) -> None:
    settings, _ = merge(folder=tmp_path, ANTHROPIC_CUSTOM_HEADERS="x-team: blue")
    assert "ANTHROPIC_CUSTOM_HEADERS" not in msgspec.convert(settings["env"], dict[str, str])
