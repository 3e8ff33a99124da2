"""A server on loopback that plays a script to whichever client asks, and keeps every request.

Requests that offer no tools are side calls (titles, summaries, routing); they get a fixed answer and do not
move the script on.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from tools.record.reply_writers import REPLY_WRITERS, stream
from tools.record.script import Step

DIALECT_OF_PATH = {
    "/messages": "anthropic",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    ":streamGenerateContent": "gemini",
    ":generateContent": "gemini",
}
SIDE_TEXT = "A short answer will do."


class Exchange(msgspec.Struct, frozen=True):
    """A request as it arrived. `is_main`: it is a turn of the agent, not a side call."""

    dialect: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    is_main: bool


class Stage:
    """The script being played, and the requests seen so far."""

    def __init__(self, script: tuple[Step, ...]) -> None:
        self.script = script
        self.exchanges: list[Exchange] = []
        self.unknown: list[str] = []
        self._lock = threading.Lock()

    def reply(self, path: str, headers: dict[str, str], raw: bytes) -> tuple[int, str, bytes]:
        bare = path.split("?")[0]
        dialect = next((name for end, name in DIALECT_OF_PATH.items() if bare.endswith(end)), None)
        if dialect is None:
            self.unknown.append(path)
            return 404, "application/json", b'{"error": {"message": "not played here"}}'
        body = msgspec.json.decode(raw)
        with self._lock:
            is_main = _offers_tools(body)
            turn = sum(exchange.is_main for exchange in self.exchanges)
            step = self.script[min(turn, len(self.script) - 1)] if is_main else Step(text=_side_answer(body))
            self.exchanges.append(Exchange(dialect, path, headers, body, is_main))
            number = len(self.exchanges)
        if bare.endswith(":generateContent"):
            return (
                200,
                "application/json",
                msgspec.json.encode(next(REPLY_WRITERS[dialect](step, number, body))),
            )
        return 200, "text/event-stream", stream(dialect, step, number, body)


def _offers_tools(body: dict[str, Any]) -> bool:
    """Whether the model may call something: server tools alone are for searches on the side."""
    tools = body.get("tools") or []
    if any(item.get("type") == "additional_tools" for item in _items(body.get("input"))):
        return True
    return any("googleSearch" not in tool and "max_uses" not in tool for tool in tools)


def _side_answer(body: dict[str, Any]) -> str:
    """Text, or JSON that fits where a schema is given: a client asks again for as long as it does not."""
    settings = body.get("generationConfig") or (body.get("output_config") or {}).get("format") or {}
    schema = settings.get("responseJsonSchema") or settings.get("schema")
    return msgspec.json.encode(_sample(schema)).decode() if schema else SIDE_TEXT


def _sample(schema: dict[str, Any]) -> object:
    match str(schema.get("type")).lower():
        case "object":
            return {name: _sample(inner) for name, inner in schema.get("properties", {}).items()}
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return []
    return SIDE_TEXT


def _items(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


@contextmanager
def serve(stage: Stage) -> Iterator[str]:
    """Play on a free port of loopback; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._answer(*stage.reply(self.path, headers, raw))

        def do_GET(self) -> None:
            stage.unknown.append(f"{self.command} {self.path}")
            self._answer(426 if self.headers.get("upgrade") else 404, "application/json", b"{}")

        do_HEAD = do_GET

        def _answer(self, status: int, content_type: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """The stage keeps what matters; the terminal stays readable."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
