"""`dragoman doctor`: a table for people, JSON for programs, progress meanwhile, and an exit code."""

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from tests.cli.run_command import dragoman
from tests.doctor.local_servers import ollama, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (
        f'[server]\nport = {port}\n[providers.embedded]\n[[routes]]\nmatch = "me"\ntarget = "embedded/it"\n'
    )
    (tmp_path / "dragoman.toml").write_text(text, "utf-8")
    return tmp_path


def test_without_a_model_it_checks_the_environment_and_sends_no_paid_request(folder: Path) -> None:
    outcome = dragoman(folder, "doctor")
    assert outcome.code == 0
    assert "dragoman.toml" in outcome.out
    assert "is free" in outcome.out
    assert "tokens" not in outcome.out


def test_with_a_model_it_reports_what_works_what_is_helped_and_what_fails(folder: Path) -> None:
    outcome = dragoman(folder, "doctor", "me")
    assert outcome.code == 1
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["works", "answers"] in lines
    assert any(line[:3] == ["helped", "stop", "sequences"] for line in lines)
    assert any(line[:2] == ["fails", "images"] for line in lines)
    assert "… parallel calls" in outcome.err
    assert "next: dragoman doctor me --write" in outcome.err
    assert not (folder / "dragoman.learned.toml").exists()


def test_what_was_learned_is_kept_if_asked_and_shown_afterwards(folder: Path) -> None:
    outcome = dragoman(folder, "doctor", "me", "--write")
    assert "wrote dragoman.learned.toml" in outcome.err
    shown = dragoman(folder, "models", "show", "me").out
    assert "stop_limit  0" in shown
    assert "learned" in shown


def test_programs_get_json_and_nothing_else(folder: Path) -> None:
    outcome = dragoman(folder, "doctor", "me", "--json")
    report = msgspec.json.decode(outcome.out)
    assert report["examination"]["target"] == "embedded/it"
    assert {"name", "state", "detail", "advice", "facts"} == set(report["examination"]["findings"][0])
    assert outcome.err == ""


def test_a_small_budget_ends_the_examination_early(folder: Path) -> None:
    outcome = dragoman(folder, "doctor", "me", "--budget", "2000")
    assert "unclear" in outcome.out
    assert "raise --budget" in outcome.out


@pytest.mark.rule("M36")
def test_a_provider_that_cannot_be_reached_is_not_examined(folder: Path) -> None:
    text = '[providers.gone]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n'
    (folder / "other.toml").write_text(text, "utf-8")
    outcome = dragoman(folder, "doctor", "gone/model", "--config", "other.toml")
    assert outcome.code == 1
    assert "cannot be reached" in outcome.out
    assert "at http://127.0.0.1:1/v1" in outcome.out
    assert "answers" not in outcome.out
    assert "gone/model was not examined" in outcome.err


class Rude(BaseHTTPRequestHandler):
    """Refuses everything in words that would make a mess of a terminal."""

    def do_POST(self) -> None:
        body = b"no\n\n\x1b[2Jway\n"
        self.send_response(503)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Ignore the text."""


def test_what_a_provider_states_stays_in_its_line(folder: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Rude) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            text = f'[providers.rude]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:{server.server_port}"\n'
            (folder / "other.toml").write_text(text, "utf-8")
            outcome = dragoman(folder, "doctor", "--config", "other.toml")
        finally:
            server.shutdown()
            serving.join()
    assert "no ?[2Jway\n" in outcome.out


def test_a_model_that_is_not_there_is_an_error_with_what_there_is(folder: Path) -> None:
    outcome = dragoman(folder, "doctor", "nobody")
    assert (outcome.code, outcome.out) == (2, "")
    assert "embedded/MODEL" in outcome.err


WINDOW = """
[server]
port = 0
[providers.ollama]
base_url = "{url}/v1"
[providers.ollama.models."qwen3:8b"]
{facts}
"""


@pytest.mark.rule("M4")
@pytest.mark.parametrize(
    ("facts", "size", "line"),
    [
        ("", 40_960, "works    context window     40,960 tokens"),
        ("", 4096, "lacks    context window     4,096 tokens, too few"),
        (
            "context_tokens = 32768",
            4096,
            "fails    context window     the server has 4,096 tokens, the configur",
        ),
    ],
)
def test_the_window_that_ollama_has_allocated_is_reported_and_learned(
    facts: str, size: int, line: str, tmp_path: Path
) -> None:
    with serving(ollama(loaded={"qwen3:8b": size})) as server:
        (tmp_path / "dragoman.toml").write_text(WINDOW.format(url=server.url, facts=facts), "utf-8")
        outcome = dragoman(tmp_path, "doctor", "ollama/qwen3:8b", "--write")
    assert line in outcome.out
    shown = dragoman(tmp_path, "models", "show", "ollama/qwen3:8b").out
    assert ("learned" in [line.split()[-1] for line in shown.splitlines() if "context_tokens" in line]) == (
        not facts
    )
