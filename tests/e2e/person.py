"""A person who uses Claude Code in a terminal."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.cli.test_real_agents import BINARIES, CLIENTS
from tests.e2e.terminal import SECONDS, Terminal

#: Claude Code shows it when it takes a prompt.
READY = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


class Person:
    """A person with Claude Code in a project, in a home that has seen neither before."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.home / ".claude").mkdir(parents=True)
        self.project.mkdir()
        (self.project / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
        known = {"hasTrustDialogAccepted": True}
        first = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(self.project): known}}
        (self.home / ".claude.json").write_bytes(msgspec.json.encode(first))
        (self.home / ".claude" / "settings.json").write_bytes(msgspec.json.encode(settings))
        self.variables = {
            "HOME": str(self.home),
            "PATH": f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin",
            "IS_SANDBOX": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def open_terminal(self, *command: str, **variables: str) -> Terminal:
        """A terminal in the project with Claude Code, or with another command."""
        started = command or (str(BINARIES / "claude"),)
        return Terminal(started, self.project, {**self.variables, **variables})

    async def ask(self, prompt: str, **variables: str) -> tuple[int, str]:
        """`claude -p`: the exit status and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *(str(BINARIES / "claude"), "-p", prompt, "--dangerously-skip-permissions"),
            cwd=self.project,
            env={**self.variables, **variables},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        return process.returncode or 0, out.decode("utf-8", "replace")
