"""A request whose end is ambiguous is refused, and its connection is closed."""

import asyncio
from contextlib import suppress

import pytest

from dragoman.config.settings import Secret, ServerSettings
from dragoman.server.connection import MAX_HEAD
from tests.fuzz.answers import Answers, send_bytes
from tests.server.running import config_for, running
from tests.upstream.byte_server import run

BODY = b'{"model":"m","input":"hello"}'
#: What an attacker hopes to have taken for a request of the next client.
HIDDEN = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"

CHUNKED_BODY = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)

AMBIGUOUS = {
    "length and chunks": (b"content-length: 6\r\ntransfer-encoding: chunked", CHUNKED_BODY),
    "chunks and length": (b"transfer-encoding: chunked\r\ncontent-length: 6", CHUNKED_BODY),
    "two lengths": (b"content-length: 29\r\ncontent-length: 6", BODY),
    "a list of lengths": (b"content-length: 29, 6", BODY),
    "a signed length": (b"content-length: +29", BODY),
    "a negative length": (b"content-length: -1", BODY),
    "a length in hexadecimal": (b"content-length: 0x1d", BODY),
    "a length beyond all numbers": (b"content-length: 99999999999999999999999", BODY),
    "chunks twice": (b"transfer-encoding: chunked, chunked", CHUNKED_BODY),
    "chunks that are not last": (b"transfer-encoding: chunked, gzip", CHUNKED_BODY),
    "chunks of compressed data": (b"transfer-encoding: gzip, chunked", CHUNKED_BODY),
    "chunks of compressed data, in two lines": (
        b"transfer-encoding: gzip\r\ntransfer-encoding: chunked",
        CHUNKED_BODY,
    ),
    "chunks of plain data": (b"transfer-encoding: identity, chunked", CHUNKED_BODY),
    "a space before the colon": (b"content-length : 29", BODY),
    "a folded header": (b"content-length:\r\n 29", BODY),
    "a lone line feed": (b"x: y\ncontent-length: 29", BODY),
    "a lone carriage return": (b"x: y\rcontent-length: 29", BODY),
    "a null in a name": (b"content\x00-length: 29", BODY),
    "a chunk of negative size": (b"transfer-encoding: chunked", b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk without its line end": (b"transfer-encoding: chunked", b"1d\r\n" + BODY + b"0\r\n\r\n"),
}


def send_request(head: bytes, body: bytes) -> Answers:
    async def ask() -> Answers:
        async with running(config_for()) as gateway:
            line = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            return await send_bytes(gateway.port, line + head + b"\r\n\r\n" + body + HIDDEN, to_the_end=True)

    return asyncio.run(ask())


@pytest.mark.rule("S13")
@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_whose_end_is_ambiguous_is_refused_and_nothing_behind_it_is_read(name: str) -> None:
    answers = send_request(*AMBIGUOUS[name])
    assert answers.statuses == [400]


def test_what_follows_a_request_that_is_plainly_one_is_a_request_of_its_own() -> None:
    answers = send_request(b"content-length: 29", BODY)
    assert answers.statuses == [200, 200]


#: A body in chunks whose last one waits for trailers.
UNENDED = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
CHUNKED_HEAD = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.rule("S1")
@pytest.mark.parametrize("trailers", [b"x: " + b"y" * 8187 + b"\r\n", b"x" * 8192], ids=["lines", "one line"])
def test_trailers_that_never_end_are_refused(trailers: bytes) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            client.writer.write(CHUNKED_HEAD + UNENDED)
            answer = asyncio.ensure_future(client.head())
            for _ in range(100 * MAX_HEAD // len(trailers)):
                if answer.done():
                    break
                client.writer.write(trailers)
                with suppress(ConnectionError):
                    await client.writer.drain()
                await asyncio.sleep(0)
            status, headers = await answer
            assert (status, headers["connection"]) == (431, "close")

    run(scenario)


@pytest.mark.rule("S1")
def test_a_body_of_many_small_chunks_is_not_taken_for_trailers() -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            client.writer.write(CHUNKED_HEAD)
            for _ in range(40):
                client.writer.write(b"1\r\n \r\n" * (MAX_HEAD // 40))
                await client.writer.drain()
            client.writer.write(UNENDED + b"x: y\r\n\r\n")
            assert (await client.head())[0] == 200

    run(scenario)


@pytest.mark.rule("S8")
@pytest.mark.parametrize(
    ("trailer", "status"),
    [
        (b"x-api-key: right", 401),
        (b"authorization: Bearer right", 401),
        (b"authorization: Bearer wrong\r\nhost: evil.example", 401),
    ],
)
def test_a_trailer_shows_no_key(trailer: bytes, status: int) -> None:
    async def scenario() -> None:
        server = ServerSettings(port=0, keys=(Secret("right"),))
        async with running(config_for(server=server)) as gateway, gateway.connected() as client:
            client.writer.write(CHUNKED_HEAD + UNENDED + trailer + b"\r\n\r\n")
            assert (await client.head())[0] == status

    run(scenario)


@pytest.mark.rule("S8")
@pytest.mark.parametrize(
    "trailer", [b"content-encoding: gzip", b"host: evil.example", b"origin: https://evil.example"]
)
def test_a_trailer_changes_nothing(trailer: bytes) -> None:
    async def scenario() -> None:
        async with running(config_for()) as gateway, gateway.connected() as client:
            client.writer.write(CHUNKED_HEAD + UNENDED + trailer + b"\r\n\r\n")
            assert (await client.got()).status == 200

    run(scenario)
