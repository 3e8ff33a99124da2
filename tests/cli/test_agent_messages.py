"""What the published agents show if a provider fails: the gateway's message, and no text of their own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.run_command import dragoman
from tests.cli.test_real_agents import BINARIES, CLIENTS, VARIABLES

FILE = """\
[server]
port = 0
[providers.up]
dialect = "openai_chat"
base_url = "{url}/v1"
api_key = "env:UP_KEY"
[[routes]]
match = "*"
target = "up/m"
"""
AGENTS = {
    "claude": ("-p", "hi"),
    "codex": ("exec", "--skip-git-repo-check", "hi"),
    "gemini": ("-p", "hi", "--skip-trust", "-m", "gemini-2.5-flash"),
    "opencode": ("run", "hi"),
}
#: The provider's status and error, and the words that each agent must show. None: no server listens.
FAULTS: dict[str, tuple[int, dict[str, str], tuple[str, ...]]] = {
    "down": (0, {}, ("provider up cannot be reached at http://127.0.0.1", "is the server running?")),
    "wrong key": (
        401,
        {"message": "Incorrect API key provided", "code": "invalid_api_key"},
        ("provider up refuses the gateway's key", "check the variable UP_KEY"),
    ),
    "unknown model": (404, {"message": "model 'm' not found"}, ("model 'm' not found (up/m at http://127",)),
    "quota": (
        429,
        {"message": "You exceeded your current quota", "code": "insufficient_quota"},
        ("You exceeded your current quota (up/m at http://127", "check the account"),
    ),
    # Claude Code writes a text of its own with the two numbers. It compacts a longer conversation.
    "overflow": (
        400,
        {
            "message": "This model's maximum context length is 4096 tokens."
            " However, your messages resulted in 12000 tokens.",
            "code": "context_length_exceeded",
        },
        ("4096", "12000"),
    ),
}
#: Texts with which agents replace the message.
OWN_TEXTS = ("/login", "at capacity", "issue with the selected model", "Failed to authenticate", "log in")


@contextmanager
def failing(status: int, error: dict[str, str]) -> Iterator[str]:
    """The address of a server that answers every request so; without a status, of none."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            data = json.dumps({"error": error}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        url = f"http://127.0.0.1:{listener.server_address[1]}"
        if not status:
            listener.server_close()
            yield url
            return
        Thread(target=listener.serve_forever, daemon=True).start()
        yield url
        listener.shutdown()


@pytest.mark.rule("M7", "M8", "M10", "M11")
@pytest.mark.parametrize("name", list(AGENTS))
@pytest.mark.parametrize("fault", list(FAULTS))
def test_an_agent_shows_the_providers_fault_and_the_next_step(name: str, fault: str, tmp_path: Path) -> None:
    status, error, words = FAULTS[fault]
    with failing(status, error) as url:
        (tmp_path / "dragoman.toml").write_text(FILE.format(url=url), "utf-8")
        path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
        outcome = dragoman(tmp_path, "run", name, *AGENTS[name], PATH=path, UP_KEY="k", **VARIABLES)
    shown = outcome.out + outcome.err
    assert outcome.code not in (0, 2), shown
    assert [word for word in words if word not in shown] == [], shown
    assert [text for text in OWN_TEXTS if text in shown] == []
