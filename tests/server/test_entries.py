"""Entries by path: the endpoints of every API below a path, with suppliers of their own."""

from pathlib import Path

import pytest

from dragoman.config.load import load
from tests.exchange.sample_replies import CHAT_WHOLE
from tests.server.running import running
from tests.upstream.byte_server import ByteServer, reply, run

WHOLE = reply(CHAT_WHOLE, "200 OK", "content-type: application/json")
ENTRIES = ("/claude", "/codex", "/chat", "/gemini")
MESSAGES = [{"role": "user", "content": "hi"}]
#: A request of each API: the path below the entry, and the body.
REQUESTS: dict[str, tuple[str, dict[str, object]]] = {
    "anthropic": ("/v1/messages", {"model": "any", "max_tokens": 9, "messages": MESSAGES}),
    "openai_chat": ("/v1/chat/completions", {"model": "any", "messages": MESSAGES}),
    "openai_responses": ("/v1/responses", {"model": "any", "input": "hi"}),
    "gemini": (
        "/v1beta/models/any:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ),
}


def write_config(urls: dict[str, str]) -> str:
    """One provider for each entry, and one for requests without an entry."""
    text = 'default = "plain"\n[server]\nport = 0\n'
    for name, url in urls.items():
        text += f'[providers.{name}]\ndialect = "openai_chat"\nbase_url = "{url}"\nretries = 0\n'
    for entry in ENTRIES:
        text += f'[[rules]]\nname = "{entry}"\nwhen.path = "{entry}"\ntarget = "{entry[1:]}"\n'
    return text


@pytest.mark.parametrize("dialect", REQUESTS)
def test_each_entry_serves_every_api_from_its_own_supplier(dialect: str, tmp_path: Path) -> None:
    path, body = REQUESTS[dialect]

    async def scenario() -> None:
        servers = {name: ByteServer([WHOLE]) for name in ("plain", *(entry[1:] for entry in ENTRIES))}
        for server in servers.values():
            await server.__aenter__()
        try:
            text = write_config({name: server.url for name, server in servers.items()})
            async with running(load(text, str(tmp_path / "dragoman.toml"), {})) as gateway:
                for entry in ("", *ENTRIES):
                    got = await gateway.ask("POST", entry + path, body)
                    assert (got.status, got.headers.get("x-dragoman-rule", "")) == (200, entry)
                assert (await gateway.ask("GET", "/claude/v1/models")).status == 200
                assert (await gateway.ask("POST", "/other" + path, body)).status == 404
                assert (await gateway.ask("POST", "/claude/codex" + path, body)).status == 404
            assert {name: len(server.received) for name, server in servers.items()} == dict.fromkeys(
                servers, 1
            )
        finally:
            for server in servers.values():
                await server.__aexit__()

    run(scenario)
