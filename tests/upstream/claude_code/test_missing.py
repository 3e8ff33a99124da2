"""Without the extra, or without the executable, the error says what to install."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dragoman.config.model import Provider, Sessions
from dragoman.hub.errors import UpstreamFailed
from dragoman.upstream.claude_code import claude_code_upstream, sdk
from dragoman.upstream.port import Call

BODY = msgspec.json.encode({"messages": [{"role": "user", "content": "hello"}]})


def refusal(state: Path, command: str = "") -> UpstreamFailed:
    async def send() -> None:
        provider = Provider(name="claude", dialect="claude_code", sessions=Sessions(command=command))
        upstream = claude_code_upstream(provider, state)
        try:
            await upstream.send(Call(body=BODY, model="sonnet", stream=True))
        finally:
            await upstream.close()

    with pytest.raises(UpstreamFailed) as refused:
        asyncio.run(send())
    return refused.value


def test_a_missing_sdk_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    sdk._kit.cache_clear()
    refused = refusal(tmp_path)
    sdk._kit.cache_clear()
    assert refused.code == "claude_code_missing"
    assert "pip install 'dragoman[claude-code]'" in refused.message


def test_a_missing_executable_is_named(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk")
    refused = refusal(tmp_path, str(tmp_path / "nowhere"))
    assert (refused.status, refused.code) == (500, "claude_code_missing")
    assert "nowhere" in refused.message
    assert "sessions.command" in refused.message


def test_nothing_of_the_sdk_is_imported_before_it_is_used() -> None:
    look = "import sys, dragoman.exchange.gateway as g; print({'mcp', 'claude_agent_sdk'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
