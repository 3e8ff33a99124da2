"""The published agents run through `dragoman run`, past settings that lead elsewhere, and change none."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from dragoman.cli.agents import AGENTS as LAUNCHED
from tests.cli.run_command import dragoman
from tests.cli.small_model import FINAL, serving_small_model

CLIENTS = Path(__file__).resolve().parents[2] / ".clients"
BINARIES = CLIENTS / "node_modules" / ".bin"
#: An address without a server.
ELSEWHERE = "http://127.0.0.1:9"


class Settled(NamedTuple):
    """An agent, how it is run once, and a user's settings that would take it elsewhere."""

    arguments: tuple[str, ...]
    place: str
    settings: str


OPENCODE = {
    "$schema": "https://opencode.ai/config.json",
    "model": "elsewhere/model",
    "provider": {
        "elsewhere": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": ELSEWHERE},
            "models": {"model": {}},
        }
    },
}
CODEX = f"""\
model_provider = "elsewhere"
[model_providers.elsewhere]
name = "elsewhere"
base_url = "{ELSEWHERE}/v1"
[projects."/somewhere"]
trust_level = "trusted"
"""
AGENTS = {
    "claude": Settled(
        ("-p", "{prompt}", "--dangerously-skip-permissions"),
        ".claude/settings.json",
        msgspec.json.encode({"env": {"ANTHROPIC_BASE_URL": ELSEWHERE, "ANTHROPIC_AUTH_TOKEN": "x"}}).decode(),
    ),
    "codex": Settled(
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{prompt}"),
        ".codex/config.toml",
        CODEX,
    ),
    "gemini": Settled(
        ("-p", "{prompt}", "--yolo", "--skip-trust", "-m", "gemini-2.5-flash"),
        ".gemini/settings.json",
        '{"security": {"auth": {"selectedType": "oauth-personal"}}, "general": {"enableAutoUpdate": false}}',
    ),
    "opencode": Settled(
        ("run", "{prompt}"), ".config/opencode/opencode.json", msgspec.json.encode(OPENCODE).decode()
    ),
}
#: Variables that stop the agents' own telemetry, and let them run as the user of the tests.
VARIABLES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "IS_SANDBOX": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "DO_NOT_TRACK": "1",
}


@pytest.mark.parametrize("name", list(AGENTS))
def test_an_agent_reaches_the_gateway_whatever_the_users_settings_states(name: str, tmp_path: Path) -> None:
    agent = AGENTS[name]
    settings = tmp_path / agent.place
    settings.parent.mkdir(parents=True)
    settings.write_text(agent.settings, "utf-8")
    (tmp_path / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
    arguments = [part.format(prompt="read notes.txt") for part in agent.arguments]
    path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
    outcome = dragoman(tmp_path, "run", name, *arguments, PATH=path, **VARIABLES)
    assert outcome.code == 0, outcome.err
    assert "marigold and heliotrope" in outcome.out
    assert settings.read_text("utf-8") == agent.settings


FILE = """\
[server]
port = 0
[providers.mock]
dialect = "openai_chat"
base_url = "{url}/v1"
[[routes]]
match = "*"
target = "mock/m"
"""
#: Arguments before and after those that resume a session.
ONE_PROMPT = {
    "claude": (("-p",), ()),
    "codex": (("exec", "--skip-git-repo-check"), ()),
    "gemini": (("--skip-trust", "-m", "gemini-2.5-flash"), ("-p",)),
    "opencode": (("run",), ()),
}


@pytest.mark.rule("M6")
@pytest.mark.parametrize("name", list(ONE_PROMPT))
def test_the_command_that_run_prints_resumes_the_session(name: str, tmp_path: Path) -> None:
    before, after = ONE_PROMPT[name]
    resume = LAUNCHED[name].resume.split()
    path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
    with serving_small_model(1_000_000, rounds=0) as model:
        (tmp_path / "dragoman.toml").write_text(FILE.format(url=model.url), "utf-8")
        for options, prompt in (([], "remember the word heliotrope"), (resume, "go on")):
            arguments = (*before, *options, *after, prompt)
            outcome = dragoman(tmp_path, "run", name, *arguments, PATH=path, **VARIABLES)
            assert outcome.code == 0, outcome.err
            assert FINAL in outcome.out
    assert "remember the word heliotrope" in model.latest
    assert "go on" in model.latest
