"""The programs that a gateway is measured with: a mock upstream, a byte relay, the gateway itself, and load.

Each runs as a process of its own on loopback, so that what one of them costs can be measured apart.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

import msgspec

from bench.payloads import SESSION, agent_request, grow_session, text_of

#: Seconds that one run of the load may take at most; then it reports how far it came.
PATIENCE = 240

#: What the mock sends, by the name of a body: how many chunks, milliseconds between them.
SCRIPTS = {
    "turn": (300, 0),
    "event": (150, 10),
    "held": (40, 400),
    "short": (20, 0),
    "left": (200, 50),
    "opening": (10, 20),
}
#: Bytes of the request; agents send much, but a soak needs many rather than large ones.
SIZES = {"short": 12_000, "left": 12_000}
USUAL_SIZE = 75_000

#: What an alias begins with; the route behind it leads to the model without it.
ALIAS = "alias-"

CONFIG = """
default = "up"

[server]
log = "json"
state = "{state}"
{more}
[providers.up]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"
{routes}
"""

#: Configuration files: of most gateways, and of the one for a soak, whose sessions fill the remembered
#: history within the first tenth.
USUAL = "dragoman.toml"
SOAKING = "soaking.toml"
SMALL_HISTORY = "history_mb = 8\n"

ROUTE = """
[[routes]]
match = "{alias}{model}"
target = "up/{model}"
"""


class Contender(NamedTuple):
    name: str
    path: str
    body: str
    process: subprocess.Popen[bytes]
    port: int


class Setting(NamedTuple):
    """Everything that runs, and where the bodies and logs lie."""

    folder: Path
    mock: int
    relay: Contender
    forwarding: Contender
    #: An alias for a model of the same API: the model's name is patched, both ways.
    patching: Contender
    translating: Contender
    #: Translates, too, with little room for remembered history.
    soaking: Contender

    def body(self, name: str, contender: Contender) -> Path:
        return self.folder / f"{name}-{contender.body}"


class Result(msgspec.Struct):
    """The report of the load generator."""

    good: int
    bad: int
    left: int
    events: int
    #: Milliseconds to the first word: p50 and p99.
    first_ms: tuple[float, float]
    seconds: float


@contextmanager
def everything(folder: Path) -> Iterator[Setting]:
    """The relay, the gateway that forwards and the gateway that translates, all before one mock."""
    write_bodies(folder)
    started: list[subprocess.Popen[bytes]] = []
    try:
        _, port = start_program(started, "bench.gateway_mock")
        relay, relay_port = start_program(started, "bench.gateway_relay", f"http://127.0.0.1:{port}")
        models = [_model_of(name) for name in SCRIPTS]
        routes = "".join(ROUTE.format(alias=ALIAS, model=model) for model in models)
        for name, more in {USUAL: "", SOAKING: SMALL_HISTORY}.items():
            config = CONFIG.format(state=folder, port=port, routes=routes, more=more)
            (folder / name).write_text(config)
        chat, messages = "/v1/chat/completions", "/v1/messages"
        yield Setting(
            folder,
            port,
            Contender("aiohttp byte relay", chat, "chat", relay, relay_port),
            Contender("dragoman, forwarding", chat, "chat", *start_gateway(started, folder)),
            Contender("dragoman, alias within one API", chat, "alias", *start_gateway(started, folder)),
            Contender("dragoman, translating", messages, "anthropic", *start_gateway(started, folder)),
            Contender("soak", messages, "anthropic", *start_gateway(started, folder, config=SOAKING)),
        )
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(20)


def start_program(
    started: list[subprocess.Popen[bytes]], *module: str
) -> tuple[subprocess.Popen[bytes], int]:
    """A program that prints the port it listens on."""
    process = subprocess.Popen([sys.executable, "-m", *module], stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def start_gateway(
    started: list[subprocess.Popen[bytes]], folder: Path, *options: str, config: str = USUAL
) -> tuple[subprocess.Popen[bytes], int]:
    command = [
        sys.executable,
        "-m",
        "dragoman",
        "serve",
        "--config",
        str(folder / config),
        "--port",
        "0",
        *options,
    ]
    log = folder / f"gateway-{len(started)}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stderr=output)
    started.append(process)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())
        if found:
            return process, int(found[1])
        time.sleep(0.05)
    raise TimeoutError("the gateway did not say where it listens")


def _model_of(script: str) -> str:
    """The model's name by which the mock knows its script."""
    chunks, pause = SCRIPTS[script]
    return f"mock-c{chunks}-d{pause}"


def write_bodies(folder: Path) -> None:
    """The same agent's question in both dialects, for each script of the mock."""
    _write_session(folder, "opening")
    for name in SCRIPTS.keys() - {"opening"}:
        size = SIZES.get(name, USUAL_SIZE)
        question = msgspec.json.decode(agent_request(size, tools=24 if size == USUAL_SIZE else 2))
        chat = {"stream": True, "messages": [{"role": "user", "content": text_of(size)}]}
        model = {"model": _model_of(name)}
        alias = {"model": f"{ALIAS}{_model_of(name)}"}
        (folder / f"{name}-alias").write_bytes(msgspec.json.encode({**chat, **alias}))
        (folder / f"{name}-anthropic").write_bytes(msgspec.json.encode({**question, **model}))
        (folder / f"{name}-chat").write_bytes(msgspec.json.encode({**chat, **model}))


def _write_session(folder: Path, name: str) -> None:
    """A session that grows, in both dialects, one request a line. It begins with the bytes of its number."""
    anthropic, chat = [], []
    for turn, body in enumerate(grow_session(0, _model_of(name))):
        question = msgspec.json.decode(body)
        question["messages"][0]["content"] = f"{SESSION.decode()} {question['messages'][0]['content']}"
        anthropic.append(msgspec.json.encode(question))
        text = f"{SESSION.decode()} {text_of(USUAL_SIZE + 2_000 * turn)}"
        chat.append({"stream": True, "messages": [{"role": "user", "content": text}]})
    models = {"chat": _model_of(name), "alias": f"{ALIAS}{_model_of(name)}"}
    (folder / f"{name}-anthropic").write_bytes(b"\n".join(anthropic))
    for kind, model in models.items():
        lines = [msgspec.json.encode({"model": model, **each}) for each in chat]
        (folder / f"{name}-{kind}").write_bytes(b"\n".join(lines))


def start_load(
    contender: Contender, body: Path, connections: int, requests: int, *more: str
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.gateway_load", str(contender.port), contender.path, str(body)]
    bounds = ["--connections", str(connections), "--requests", str(requests), "--seconds", str(PATIENCE)]
    return subprocess.Popen([*command, *bounds, *more], stdout=subprocess.PIPE)


def result_of(load: subprocess.Popen[bytes], progress: Callable[[int], None] = lambda done: None) -> Result:
    """Wait for the load to end; `progress` is called with the number of answered requests."""
    assert load.stdout is not None
    line = b""
    for line in load.stdout:
        if line.startswith(b"{"):
            break
        progress(int(line))
    load.wait(60)
    return msgspec.json.decode(line, type=Result)


def load(contender: Contender, body: Path, connections: int, requests: int, *more: str) -> Result:
    return result_of(start_load(contender, body, connections, requests, *more))


def open_exchanges(contender: Contender) -> int:
    with urlopen(f"http://127.0.0.1:{contender.port}/health") as answer:
        return int(msgspec.json.decode(answer.read())["open_exchanges"])


def open_upstream(mock: int) -> int:
    """Connections that the mock has open, without the one that asks."""
    with urlopen(f"http://127.0.0.1:{mock}/stats") as answer:
        return int(msgspec.json.decode(answer.read())["open"]) - 1


def say(words: str) -> None:
    """Print progress to standard error; results go to standard output."""
    print(f"  ... {words}", file=sys.stderr, flush=True)


def cpu(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    seconds = 0.0
    for part in _shown_by_ps("time", pid).split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def memory(pid: int) -> float:
    """Megabytes that a process has in memory."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmRSS:\s*(\d+)", status.read_text()) if status.exists() else None
    return int(found[1] if found else _shown_by_ps("rss", pid)) / 1024


def _shown_by_ps(field: str, pid: int) -> str:
    ps = shutil.which("ps")
    assert ps, "there is neither /proc nor ps"
    command = [ps, "-o", f"{field}=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def open_files(pid: int) -> int:
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
