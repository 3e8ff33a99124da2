"""Without the extra, or without the executable, the error names what to install."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dragoman.config.provider import Provider
from dragoman.config.settings import ClaudeCodeSessions
from dragoman.hub.errors import ConfigError, UpstreamFailed
from dragoman.upstream.claude_code import process
from dragoman.upstream.claude_code.session_pool import MAX_STARTS
from dragoman.upstream.claude_code.upstream import ClaudeCodeUpstream
from dragoman.upstream.port import UpstreamRequest

BODY = msgspec.json.encode({"messages": [{"role": "user", "content": "hello"}]})


def opened(state: Path, command: str = "", body: bytes = BODY) -> None:
    async def send() -> None:
        provider = Provider(
            name="claude", dialect="claude_code", sessions=ClaudeCodeSessions(command=command)
        )
        upstream = ClaudeCodeUpstream(provider, state)
        try:
            await upstream.send(UpstreamRequest(body=body, model="sonnet", stream=True))
        finally:
            await upstream.close()

    asyncio.run(send())


def refusal(state: Path, command: str = "", body: bytes = BODY) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as refused:
        opened(state, command, body)
    return refused.value


@pytest.mark.rule("M23")
def test_a_missing_sdk_is_named_with_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    process._load_sdk.cache_clear()
    refused = refusal(tmp_path)
    process._load_sdk.cache_clear()
    # A retry cannot succeed, so neither the gateway nor the client makes one.
    assert (refused.failure.kind, refused.code) == ("misconfigured", "claude_code_missing")
    assert "pip install claude-agent-sdk" in refused.message
    assert "pipx inject dragoman claude-agent-sdk" in refused.message


def test_a_missing_executable_is_named(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="the extra claude-code is optional")
    refused = refusal(tmp_path, str(tmp_path / "nowhere"))
    assert (refused.status, refused.code) == (500, "claude_code_missing")
    assert refused.failure.kind == "misconfigured"
    assert "nowhere" in refused.message
    assert "sessions.command" in refused.message


def test_nothing_of_the_sdk_is_imported_before_it_is_used() -> None:
    look = "import sys, dragoman.exchange.gateway as g; print({'mcp', 'claude_agent_sdk'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="the extra claude-code is optional")
    (tmp_path / "claude-code").write_text("in the way")
    with pytest.raises(ConfigError) as refused:
        opened(tmp_path)
    assert str(tmp_path) in refused.value.message
    assert "server.state" in refused.value.hint


def test_a_conversation_without_a_word_of_the_user_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="the extra claude-code is optional")
    body = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "And"}]}
    refused = refusal(tmp_path, body=msgspec.json.encode(body))
    assert (refused.status, refused.param) == (400, "messages")


def test_an_executable_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="the extra claude-code is optional")
    executable = tmp_path / "claude"
    executable.write_text("#!/bin/sh\necho not today >&2\nexit 3\n", "ascii")
    executable.chmod(0o700)
    refused = refusal(tmp_path, str(executable))
    assert (refused.status, refused.code) == (502, "claude_code_crashed")
    assert "exit status 3: not today" in refused.message
    left = sorted(path.name for path in (tmp_path / "claude-code").iterdir())
    assert left == ["records", "secret"]
    assert not list((tmp_path / "claude-code" / "records").iterdir())


@pytest.mark.rule("D11")
def test_only_so_many_processes_start_at_the_same_time(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk", reason="the extra claude-code is optional")
    executable = tmp_path / "claude"
    log = tmp_path / "log.txt"
    executable.write_text(f"#!/bin/sh\necho + >> {log}\nsleep 0.2\necho - >> {log}\nexit 3\n", "ascii")
    executable.chmod(0o700)

    async def send_many() -> None:
        provider = Provider(
            name="claude",
            dialect="claude_code",
            sessions=ClaudeCodeSessions(command=str(executable), warm=0),
        )
        upstream = ClaudeCodeUpstream(provider, tmp_path)
        request = UpstreamRequest(body=BODY, model="sonnet", stream=True)
        sent = (upstream.send(request) for _ in range(2 * MAX_STARTS + 2))
        refused = await asyncio.gather(*sent, return_exceptions=True)
        await upstream.close()
        assert all(isinstance(error, UpstreamFailed) for error in refused)

    asyncio.run(send_many())
    running = most = 0
    for line in log.read_text("ascii").split():
        running += 1 if line == "+" else -1
        most = max(most, running)
    assert most == MAX_STARTS
