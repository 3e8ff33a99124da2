"""What Claude Code is started with: few variables, no tools of its own, no settings of a user."""

from pathlib import Path

import msgspec

from dragoman.config.provider import Provider
from dragoman.config.settings import Secret
from dragoman.upstream.claude_code.process import ProcessSettings, build_command, build_environment

START = ProcessSettings(model="sonnet", system="Be brief.", thinking=("--effort", "low"))
OURS = {"PATH": "/bin", "OPENAI_API_KEY": "secret", "ANTHROPIC_API_KEY": "own", "CLAUDECODE": "1"}


def provider(*keys: str, base_url: str = "") -> Provider:
    return Provider(name="claude", dialect="claude_code", base_url=base_url, keys=tuple(map(Secret, keys)))


def test_other_keys_stay_with_the_gateway(tmp_path: Path) -> None:
    variables = build_environment(provider("given", base_url="http://127.0.0.1:1/v1"), tmp_path, START, OURS)
    assert variables["ANTHROPIC_API_KEY"] == "given"
    assert variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert (variables["PATH"], variables["HOME"]) == ("/bin", str(tmp_path))
    assert "secret" not in variables.values()
    assert "CLAUDECODE" not in variables


def test_headers_and_a_proxy_are_claude_codes_too(tmp_path: Path) -> None:
    configured = msgspec.structs.replace(
        provider("given"), headers={"x-team": Secret("blue")}, proxy="http://127.0.0.1:3128"
    )
    variables = build_environment(configured, tmp_path, START, OURS)
    assert variables["ANTHROPIC_CUSTOM_HEADERS"] == "x-team: blue"
    assert variables["HTTPS_PROXY"] == "http://127.0.0.1:3128"
    assert (
        build_environment(provider("a", "b"), tmp_path, ProcessSettings(model="m", key=3), OURS)[
            "ANTHROPIC_API_KEY"
        ]
        == "b"
    )


def test_without_a_key_of_its_own_it_uses_the_one_it_would_use_anyway(tmp_path: Path) -> None:
    assert build_environment(provider(), tmp_path, START, OURS)["ANTHROPIC_API_KEY"] == "own"
    token = build_environment(provider("sk-ant-oat01-x"), tmp_path, START, OURS)
    assert token["CLAUDE_CODE_OAUTH_TOKEN"] == "sk-ant-oat01-x"
    assert "ANTHROPIC_API_KEY" not in token


def test_it_has_no_tools_no_settings_and_no_bypass(tmp_path: Path) -> None:
    words = build_command("/bin/claude", tmp_path, START, "")
    assert words[words.index("--tools") + 1] == ""
    assert "--setting-sources=" in words
    assert "--strict-mcp-config" in words
    assert words[words.index("--permission-prompt-tool") + 1] == "stdio"
    assert not any("bypass" in word or "skip-permissions" in word or "allowed" in word for word in words)
    assert "Be brief." not in words, "a prompt may be longer than an argument, and others can read arguments"
    model = "--model=--dangerously-skip-permissions"
    assert model in build_command(
        "/bin/claude", tmp_path, ProcessSettings(model="--dangerously-skip-permissions"), ""
    )
    assert words[-2:] == ["--effort", "low"]
    assert build_command("/bin/claude", tmp_path, START, "some-id")[-1] == "--resume=some-id"
