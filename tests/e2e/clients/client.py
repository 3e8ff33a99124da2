"""A client of the tests: its name, its dialect, its tools, and how it runs without a terminal."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from tests.e2e.upstream.script import Grip

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / ".clients"
BINARIES = CLIENTS / "node_modules" / ".bin"
SECONDS_FOR_A_RUN = 110.0
CLIENT_KEY = "client-key-0001"


class AgentTask(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is sent out to do, and where."""

    #: The root of the API, without a version.
    url: str
    key: str
    prompt: str
    #: A folder of its own, so that it finds no settings, keys or history of a user.
    home: Path
    #: The folder it works in, below its home.
    project: Path
    model: str = ""
    #: Stands before the names of the application's tools.
    tool_prefix: str = ""
    #: Go on with the session before, instead of beginning one.
    resumes: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    #: None if it had to be stopped.
    exit: int | None
    #: The last text that the client showed its user.
    text: str
    #: Everything it printed.
    output: str


class Client(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    dialect: str
    model: str
    grips: Mapping[str, Grip]
    run: Callable[["Client", AgentTask], Awaitable[Outcome]]
    #: Whether it makes several calls at once.
    is_parallel: bool = True
    #: Whether it echoes opaque reasoning state, so that a model's seals survive the round trip.
    carries_seals: bool = True


def build_environment(task: AgentTask) -> dict[str, str]:
    """The variables of every client: nothing of the machine's user but the path of programs."""
    (task.home / "scratch").mkdir(exist_ok=True)
    return {
        "PATH": f"{CLIENTS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(task.home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(task.home / "scratch"),
        "NO_COLOR": "1",
    }


async def execute(
    command: list[str], task: AgentTask, environment: Mapping[str, str]
) -> tuple[int | None, str, str]:
    """Run a command in the home of its task; its exit status (None: too late), output and errors."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=task.project,
        env=build_environment(task) | dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), SECONDS_FOR_A_RUN)
    except TimeoutError:
        end_group(process.pid)
        out, err = await process.communicate()
        return None, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    end_group(process.pid)
    return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def end_group(leader: int) -> None:
    """End what the client started and left behind; the group is our own, made for this run."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def json_lines(output: str) -> list[dict[str, object]]:
    """The lines of a client's output that are JSON objects."""
    found = []
    for line in output.splitlines():
        try:
            value = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
