"""The two tools of the Python applications: they really read files and really run commands."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.clients.client import AgentTask
from tests.e2e.upstream.script import Grip

GRIPS = {
    "read": Grip(tool="read_file", about="Reads a file.", argument="path"),
    "image": Grip(tool="read_file", about="Reads a file.", argument="path"),
    "run": Grip(tool="run", about="Runs a command.", argument="command"),
}
SYSTEM = "You read files and run commands for the user."


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's result: a text, and the image in base64 if the file was one."""

    text: str
    failed: bool = False
    image: str = ""


def functions(schema_key: str, prefix: str = "") -> list[dict[str, Any]]:
    """The declarations of both tools, with the schema under the key that a dialect wants."""
    return [
        {"name": f"{prefix}{name}", "description": about, schema_key: _schema(parameter)}
        for name, about, parameter in (
            ("read_file", "Reads a file.", "path"),
            ("run", "Runs a command.", "command"),
        )
    ]


def _schema(parameter: str) -> dict[str, Any]:
    properties = {parameter: {"type": "string", "description": f"The {parameter}."}}
    return {
        "type": "object",
        "properties": properties,
        "required": [parameter],
        "additionalProperties": False,
    }


async def use(name: str, arguments: dict[str, Any], task: AgentTask) -> Done:
    if name == f"{task.tool_prefix}read_file":
        return _read(task.project / arguments["path"])
    if name == f"{task.tool_prefix}run":
        return await _run(arguments["command"], task.project)
    return Done(text=f"there is no tool {name}", failed=True)


def _read(path: Path) -> Done:
    try:
        content = path.read_bytes()
    except OSError as error:
        return Done(text=f"cannot read {path}: {error.strerror}", failed=True)
    if path.suffix == ".png":
        return Done(text="an image", image=base64.b64encode(content).decode())
    return Done(text=content.decode())


async def _run(command: str, project: Path) -> Done:
    process = await asyncio.create_subprocess_shell(
        command, cwd=project, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return Done(text=output.decode() or "(no output)", failed=process.returncode != 0)
