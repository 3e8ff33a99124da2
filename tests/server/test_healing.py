"""A refused request heals over real sockets, and what was learned is in the state file and the log."""

from pathlib import Path

import msgspec
import pytest

from tests.exchange.sample_replies import CHAT_STREAM, CHAT_WHOLE
from tests.healing.vendor import write_error
from tests.server.running import config_for, running
from tests.server.test_app import TURNS
from tests.upstream.byte_server import LAST_CHUNK, Answer, ByteServer, chunk, reply, run, stream_head

REFUSAL = reply(write_error("Unsupported parameter: 'stream_options' is not supported"), "400 Bad Request")
NO_LIMIT = reply(
    write_error("Unsupported parameter: 'max_tokens' is not supported with this model."), "400 Bad Request"
)
WHOLE: Answer = [reply(CHAT_WHOLE, "200 OK", "content-type: application/json")]
STREAM: Answer = [stream_head(), *map(chunk, CHAT_STREAM), LAST_CHUNK]


@pytest.mark.parametrize("turn", ["anthropic", "openai_chat"])
def test_a_whole_reply(turn: str, tmp_path: Path, log: list[str]) -> None:
    async def scenario() -> None:
        path, body = TURNS[turn]
        state = tmp_path / "state.db"
        for answers, expected in (([[NO_LIMIT], WHOLE], 2), ([WHOLE], 1)):
            async with ByteServer(*answers) as upstream:
                config = config_for("http://127.0.0.1:9")
                provider = config.providers["up"]
                proxied = msgspec.structs.replace(provider, proxy=upstream.url)
                config = msgspec.structs.replace(config, providers={"up": proxied})
                async with running(config, state=state) as gateway:
                    got = await gateway.ask("POST", path, body)
            assert got.status == 200, got.body
            assert len(upstream.received) == expected
            assert b"max_completion_tokens" in upstream.received[-1].body
        learned = [line for line in log if "learned about up/any: max_tokens_field" in line]
        assert len(learned) == 1

    run(scenario)


def test_a_stream() -> None:
    async def scenario() -> None:
        path, body = TURNS["anthropic"]
        async with (
            ByteServer([REFUSAL], STREAM) as upstream,
            running(config_for(upstream.url)) as gateway,
        ):
            got = await gateway.ask("POST", path, {**body, "stream": True})
            assert got.status == 200
            assert b"message_stop" in got.body
            assert [b"stream_options" in received.body for received in upstream.received] == [True, False]
            assert "stream_options" in got.headers["x-dragoman-losses"]

    run(scenario)
