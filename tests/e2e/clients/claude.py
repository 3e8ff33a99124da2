"""Claude Code, by its command, and by the Agent SDK."""

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from tests.e2e.clients.client import BINARIES, Client, Errand, Outcome, build_environment, execute, write
from tests.e2e.clients.terminal import Terminal, open_terminal
from tests.e2e.upstream.script import Grip

GRIPS = {
    "read": Grip(tool="Read", argument="file_path"),
    "image": Grip(tool="Read", argument="file_path"),
    "run": Grip(tool="Bash", argument="command", more={"description": "Do it"}),
}
SDK_GRIPS = GRIPS | {"note": Grip(tool="mcp__notes__lookup", argument="key")}
AGENT_PROGRAM = Path(__file__).resolve().parent / "agent_sdk_program.py"


def _environment(errand: Errand) -> dict[str, str]:
    names = ("OPUS", "SONNET", "HAIKU", "FABLE")
    return {
        "ANTHROPIC_BASE_URL": errand.url,
        "ANTHROPIC_API_KEY": errand.key,
        "ANTHROPIC_MODEL": errand.model,
        "ANTHROPIC_SMALL_FAST_MODEL": errand.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": errand.model,
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": errand.model for name in names},
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


async def run_command(client: Client, errand: Errand) -> Outcome:
    options = ["-p", "--dangerously-skip-permissions", "--output-format", "json"]
    options += ["--continue"] if errand.resumes else []
    command = [str(BINARIES / "claude"), *options, errand.prompt]
    status, out, err = await execute(command, errand, _environment(errand))
    return Outcome(exit=status, text=_result(out), output=out + err)


def open_session(errand: Errand) -> AbstractAsyncContextManager[Terminal]:
    """Claude Code in a terminal, for a person with a login: `errand.key` is its token.

    It first shows its input line, without the questions of a first start.
    """
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "bypassPermissionsModeAccepted": True,
        "theme": "dark",
        "projects": {str(errand.project): known},
    }
    write(errand.home / ".claude.json", msgspec.json.encode(state).decode())
    login = {
        "ANTHROPIC_BASE_URL": errand.url,
        "ANTHROPIC_MODEL": errand.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": errand.model,
        "CLAUDE_CODE_OAUTH_TOKEN": errand.key,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    command = [str(BINARIES / "claude"), "--dangerously-skip-permissions"]
    return open_terminal(command, errand.project, build_environment(errand) | login)


async def run_agent_sdk(client: Client, errand: Errand) -> Outcome:
    command = [sys.executable, str(AGENT_PROGRAM), errand.prompt]
    environment = _environment(errand) | {"ENABLE_TOOL_SEARCH": "false"}
    status, out, err = await execute(command, errand, environment)
    return Outcome(exit=status, text=out.strip(), output=out + err)


def _result(output: str) -> str:
    try:
        return str(msgspec.json.decode(output).get("result", ""))
    except (msgspec.DecodeError, AttributeError):
        return ""


CLAUDE_CODE = Client(
    name="claude-code", dialect="anthropic", model="claude-opus-5-5", grips=GRIPS, run=run_command
)
CLAUDE_CODE_SONNET = Client(
    name="claude-code-sonnet", dialect="anthropic", model="claude-sonnet-4-5", grips=GRIPS, run=run_command
)
AGENT_SDK = Client(
    name="claude-agent-sdk", dialect="anthropic", model="some-model", grips=SDK_GRIPS, run=run_agent_sdk
)
