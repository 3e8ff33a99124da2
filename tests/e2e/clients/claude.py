"""Claude Code, by its command, and by the Agent SDK."""

import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from tests.e2e.clients.client import BINARIES, AgentTask, Client, Outcome, build_environment, execute, write
from tests.e2e.clients.terminal import Terminal, open_terminal
from tests.e2e.upstream.script import Grip

GRIPS = {
    "read": Grip(tool="Read", argument="file_path"),
    "image": Grip(tool="Read", argument="file_path"),
    "run": Grip(tool="Bash", argument="command", more={"description": "Do it"}),
}
SDK_GRIPS = GRIPS | {"note": Grip(tool="mcp__notes__lookup", argument="key")}
AGENT_PROGRAM = Path(__file__).resolve().parent / "agent_sdk_program.py"


def _environment(task: AgentTask) -> dict[str, str]:
    names = ("OPUS", "SONNET", "HAIKU", "FABLE")
    return {
        "ANTHROPIC_BASE_URL": task.url,
        "ANTHROPIC_API_KEY": task.key,
        "ANTHROPIC_MODEL": task.model,
        "ANTHROPIC_SMALL_FAST_MODEL": task.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": task.model,
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": task.model for name in names},
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


async def run_command(client: Client, task: AgentTask) -> Outcome:
    options = ["-p", "--dangerously-skip-permissions", "--output-format", "json"]
    options += ["--continue"] if task.resumes else []
    command = [str(BINARIES / "claude"), *options, task.prompt]
    status, out, err = await execute(command, task, _environment(task))
    return Outcome(exit=status, text=_result(out), output=out + err)


def open_session(task: AgentTask) -> AbstractAsyncContextManager[Terminal]:
    """Claude Code in a terminal, for a person with a login: `task.key` is its token.

    It first shows its input line, without the questions of a first start.
    """
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "bypassPermissionsModeAccepted": True,
        "theme": "dark",
        "projects": {str(task.project): known},
    }
    write(task.home / ".claude.json", msgspec.json.encode(state).decode())
    login = {
        "ANTHROPIC_BASE_URL": task.url,
        "ANTHROPIC_MODEL": task.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": task.model,
        "CLAUDE_CODE_OAUTH_TOKEN": task.key,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    command = [str(BINARIES / "claude"), "--dangerously-skip-permissions"]
    return open_terminal(command, task.project, build_environment(task) | login)


async def run_agent_sdk(client: Client, task: AgentTask) -> Outcome:
    command = [sys.executable, str(AGENT_PROGRAM), task.prompt]
    environment = _environment(task) | {"ENABLE_TOOL_SEARCH": "false"}
    status, out, err = await execute(command, task, environment)
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
