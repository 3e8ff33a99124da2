"""Providers are reached, or the report names the reason; no tokens are spent, and no key is shown."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.provider import Provider
from dragoman.config.settings import ClaudeCodeSessions, Secret
from dragoman.doctor.environment import check_providers
from dragoman.doctor.findings import Finding
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.upstream.embedded.upstream import EmbeddedReply
from dragoman.upstream.port import UpstreamRequest

KEY = "sk-0123456789abcdefghijklmnop"


class Answering:
    """Answers everything with one status and one body."""

    def __init__(self, status: int, body: bytes) -> None:
        self._status, self._body = status, body
        self.calls: list[UpstreamRequest] = []
        self.is_closed = False

    async def send(self, call: UpstreamRequest) -> EmbeddedReply:
        self.calls.append(call)
        if not self._status:
            failure = Failure(
                kind="overloaded", status=502, message="provider up cannot be reached (refused)"
            )
            raise UpstreamFailed(failure)
        return EmbeddedReply(self._status, "application/json", iter((self._body,)))

    async def close(self) -> None:
        self.is_closed = True


def provider(dialect: str = "openai_chat", key: str = KEY) -> Provider:
    return Provider(
        name="up", dialect=dialect, base_url="https://api.example/v1", keys=(Secret(key, "UP_KEY"),)
    )


def found(status: int, message: str = "no", dialect: str = "openai_chat") -> Finding:
    upstream = Answering(status, msgspec.json.encode({"error": {"message": message}}))
    config = Config(providers={"up": provider(dialect)})
    (finding,) = asyncio.run(
        check_providers(config, make_upstream=lambda _: upstream, progress=lambda name: None)
    )
    assert upstream.is_closed
    assert [call.body for call in upstream.calls] == [b"{}"]
    return finding


@pytest.mark.parametrize(
    ("status", "state", "advice"),
    [
        (400, "works", ""),
        (422, "works", ""),
        (200, "works", ""),
        (404, "unclear", "base_url"),
        (401, "fails", "UP_KEY"),
        (403, "fails", "UP_KEY"),
        (429, "unclear", "account"),
        (500, "unclear", "dragoman doctor up/MODEL"),
        (503, "fails", "later"),
        (0, "fails", "that the server runs"),
    ],
)
def test_the_answer_to_an_empty_request_shows_whether_a_server_can_be_used(
    status: int, state: str, advice: str
) -> None:
    finding = found(status)
    assert (finding.name, finding.state) == ("provider up", state)
    assert advice in finding.advice


def test_a_key_that_is_refused_with_another_status_is_reported_as_such() -> None:
    finding = found(400, "API key not valid. Please pass a valid API key.", "gemini")
    assert (finding.state, finding.advice) == ("fails", "check the variable UP_KEY")


def test_no_key_is_repeated_by_the_servers_words() -> None:
    finding = found(401, f"Incorrect API key provided: {KEY}")
    assert finding.state == "fails"
    assert KEY not in str(finding)


def test_a_provider_without_its_key_is_not_called() -> None:
    config = Config(providers={"up": provider(key="")})
    upstream = Answering(400, b"{}")
    (finding,) = asyncio.run(
        check_providers(config, make_upstream=lambda _: upstream, progress=lambda name: None)
    )
    assert (finding.state, upstream.calls) == ("skipped", [])


def test_a_provider_with_the_clients_credential_is_not_called() -> None:
    provider = Provider(name="p", dialect="anthropic", base_url="https://api.example", auth="client")
    (finding,) = asyncio.run(check_providers(Config(providers={"p": provider}), progress=lambda name: None))
    assert (finding.state, finding.detail) == ("skipped", "each client sends its own credential")


def test_the_embedded_model_needs_no_reaching() -> None:
    config = Config(providers={"embedded": Provider(name="embedded", dialect="embedded")})
    assert asyncio.run(check_providers(config, progress=lambda name: None)) == []


def test_claude_code_is_looked_for_on_this_machine(tmp_path: Path) -> None:
    executable = tmp_path / "claude"
    config = Config(
        providers={
            "claude": Provider(
                name="claude",
                dialect="claude_code",
                sessions=ClaudeCodeSessions(command=str(executable)),
            )
        }
    )
    (missing,) = asyncio.run(check_providers(config, progress=lambda name: None))
    assert (missing.state, "sessions.command" in missing.detail) == ("fails", True)
    executable.touch()
    (there,) = asyncio.run(check_providers(config, progress=lambda name: None))
    assert (there.state, there.detail) == ("works", str(executable))
