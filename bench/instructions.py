"""Machine instructions per turn, counted by valgrind. The count hardly depends on the load of the machine.

A turn is complete, from the ASGI server's call to the last byte of the reply, in one process without sockets:
an agent's session whose history grows with every turn, and a reply of 300 events. The command
`python -m bench instructions`
prints all lanes. The difference between a long and a short run leaves out the start of the process.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import msgspec

from bench.payloads import anthropic_stream, chat_session, chat_stream, grow_session, responses_session
from dragoman.config.config import Config, Route
from dragoman.config.model_facts import build_layers
from dragoman.config.provider import Provider, TargetName
from dragoman.config.rules import Rule
from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.exchange.gateway import Gateway
from dragoman.governance.settings import read_governance
from dragoman.providers.presets import load_presets
from dragoman.server.app import App
from dragoman.storage.sqlite import SqliteStorage
from dragoman.upstream.port import UpstreamRequest

#: Turns of the short and of the long run. Sessions have 20 turns, so the difference is two sessions.
SHORT, LONG = 20, 60
#: Bytes of one read: what a socket gives while a server sends without pauses.
READ = 16 * 1024

#: Lane: the path of the client's requests, the requested model, and the goal in millions of instructions.
LANES = {
    "translated": ("/v1/messages", "chat-model", 10.0),
    "governed": ("/v1/messages", "local-model", None),
    "renamed": ("/v1/messages", "alias", 5.0),
    "renamed, catalogued model": ("/v1/messages", "opus", 5.0),
    "same dialect, default governance": ("/v1/chat/completions", "vllm-model", None),
    "forwarded": ("/v1/messages", "claude-model", None),
    "stored": ("/v1/responses", "chat-model", None),
    "websocket": ("/v1/responses", "chat-model", None),
}

_ROUTES = {
    "chat-model": ("chat", "mock"),
    "local-model": ("local", "mock"),
    "alias": ("claude", "mock"),
    "claude-model": ("claude", "claude-model"),
    "opus": ("anthropic", "claude-opus-4-7"),
    "vllm-model": ("vllm", "qwen3-coder"),
}

#: The session of an agent, by the path of its requests.
_SESSIONS = {
    "/v1/messages": grow_session,
    "/v1/responses": responses_session,
    "/v1/chat/completions": chat_session,
}

#: The default for local servers.
LOCAL: dict[str, object] = {"tools": "hold", "harvest": "auto", "rename": True}

#: Providers with the facts and the governance that the gateway knows of them.
_KNOWN = ("anthropic", "vllm")

#: The markers of roles that rules search for.
ROLES: dict[str, tuple[str, ...]] = {"lead": ("hydra:lead",)}

Message = MutableMapping[str, Any]


class ScriptedReply:
    """A streamed reply that arrives in reads of `READ` bytes."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, body: bytes) -> None:
        self._rest = self._read(body)

    async def _read(self, body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), READ):
            yield body[start : start + READ]

    def pieces(self) -> AsyncIterator[bytes]:
        return self._rest

    def close(self) -> None:
        """Nothing is open."""


class ScriptedServer:
    """An upstream that gives the same reply to every request, `delay` seconds later."""

    def __init__(self, chunks: list[bytes], delay: float) -> None:
        self._body = b"".join(chunks)
        self._delay = delay

    async def send(self, request: UpstreamRequest) -> ScriptedReply:
        if self._delay:
            await asyncio.sleep(self._delay)
        return ScriptedReply(self._body)

    async def close(self) -> None:
        """Nothing is open."""


def _build_known(name: str) -> Provider:
    preset = load_presets()[name]
    return Provider(
        name=name,
        dialect=preset.dialect,
        base_url="http://127.0.0.1:9",
        governance=read_governance(preset.governance),
        layers=build_layers(name, preset, {}),
    )


def build_app(folder: str, rules: tuple[Rule, ...], record: RecordLevel, delay: float = 0) -> App:
    """A gateway with an upstream for each lane, which answers `delay` seconds after the request."""
    chat = Provider(name="chat", dialect="openai_chat", base_url="http://127.0.0.1:9/v1")
    local = msgspec.structs.replace(chat, name="local", governance=read_governance(LOCAL))
    claude = Provider(name="claude", dialect="anthropic", base_url="http://127.0.0.1:9")
    known = {name: _build_known(name) for name in _KNOWN}
    routes = tuple(Route(match=name, targets=(TargetName(*to),)) for name, to in _ROUTES.items())
    config = Config(
        providers={"chat": chat, "local": local, "claude": claude, **known},
        routes=routes,
        rules=rules,
        roles=ROLES,
        records=RecordSettings(record=record),
    )
    chat_server = ScriptedServer(chat_stream(), delay)
    claude_server = ScriptedServer(anthropic_stream(), delay)
    servers = {"chat": chat_server, "local": chat_server, "vllm": chat_server}
    servers |= {"claude": claude_server, "anthropic": claude_server}
    return App(Gateway(config, upstreams=servers, storage=SqliteStorage(Path(folder) / "state.sqlite")))


def _build_scope(kind: str, path: str, size: int) -> Message:
    names = {"host": "127.0.0.1:8484", "user-agent": "claude-cli/2.1.325", "content-type": "application/json"}
    headers = {**names, "content-length": str(size), "x-claude-code-session-id": "session"}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    method: Message = {"method": "POST"} if kind == "http" else {"subprotocols": []}
    base: Message = {
        "type": kind,
        "path": path,
        "headers": encoded,
        "query_string": b"",
        "client": ("127.0.0.1", 1),
    }
    return {**base, **method, "extensions": {"websocket.http.response": {}}}


async def run_http(app: App, path: str, body: bytes) -> None:
    inbox = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.get_running_loop().create_future()
    sent = 0

    async def receive() -> Message:
        return inbox.pop() if inbox else await gone

    async def send(message: Message) -> None:
        nonlocal sent
        assert message.get("status", 200) == 200, message
        sent += len(message.get("body", b""))

    await app(_build_scope("http", path, len(body)), receive, send)
    assert sent > 10_000, f"{sent} bytes: not a whole reply"


async def _run_socket(app: App, path: str, bodies: list[bytes]) -> None:
    """All turns over one WebSocket, each after the end of the one before."""
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    left = [b'{"type":"response.create",' + body[1:] for body in bodies]
    inbox.put_nowait({"type": "websocket.connect"})

    async def send(message: Message) -> None:
        text = message.get("text") or ""
        assert message["type"] in ("websocket.accept", "websocket.send", "websocket.close"), message
        if message["type"] == "websocket.accept" or '"type":"response.completed"' in text[:60]:
            following = {"type": "websocket.receive", "bytes": left.pop(0)} if left else None
            inbox.put_nowait(following or {"type": "websocket.disconnect", "code": 1000})

    await app(_build_scope("websocket", path, 0), inbox.get, send)
    assert not left, f"{len(left)} turns were not run"


async def run_turns(
    lane: str, turns: int, rules: tuple[Rule, ...] = (), record: RecordLevel = "meta"
) -> None:
    """Run so many turns of a lane in this process. `rules`: those of the gateway; none of them may hold."""
    path, model, _ = LANES[lane]
    build = _SESSIONS[path]
    # All bodies, also in the short run: the difference must not contain their construction.
    bodies = [body for number in range(LONG // 20) for body in build(number, model)][:turns]
    with tempfile.TemporaryDirectory() as folder:
        app = build_app(folder, rules, record)
        if lane == "websocket":
            await _run_socket(app, path, bodies)
        else:
            for body in bodies:
                await run_http(app, path, body)
        await app.gateway.close()


def instructions_report() -> list[str]:
    """Millions of instructions per turn, by lane."""
    if not shutil.which("valgrind"):
        return ["Instructions per turn: valgrind is not installed (Debian: apt install valgrind)"]
    lines = ["Instructions per turn, in millions (valgrind, no sockets, history of 75 KB and more)"]
    for lane, (_, _, goal) in LANES.items():
        millions = count_per_turn("bench.instructions", lane) / 1e6
        verdict = "" if goal is None else f"   goal {goal:g}: {'met' if millions <= goal else 'MISSED'}"
        lines.append(f"  {lane:<52} {millions:9.2f}{verdict}")
    return lines


def count_per_turn(module: str, lane: str, *, short: int = SHORT, long: int = LONG) -> float:
    """The instructions of one turn. `module` runs turns of the lane: its arguments are lane and number."""
    return (_count(module, lane, long) - _count(module, lane, short)) / (long - short)


def _count(module: str, lane: str, turns: int) -> int:
    """The instructions of a process that runs so many turns."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command += [sys.executable, "-m", module, lane, str(turns)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found, done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    asyncio.run(run_turns(sys.argv[1], int(sys.argv[2])))
