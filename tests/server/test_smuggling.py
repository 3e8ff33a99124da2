"""One message is one message: whatever leaves open where a request ends is refused, and the line closed."""

import asyncio

import pytest

from tests.fuzz.answers import Answers, tell
from tests.server.running import config_for, running

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
    "a space before the colon": (b"content-length : 29", BODY),
    "a folded header": (b"content-length:\r\n 29", BODY),
    "a lone line feed": (b"x: y\ncontent-length: 29", BODY),
    "a lone carriage return": (b"x: y\rcontent-length: 29", BODY),
    "a null in a name": (b"content\x00-length: 29", BODY),
    "a chunk of negative size": (b"transfer-encoding: chunked", b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk without its line end": (b"transfer-encoding: chunked", b"1d\r\n" + BODY + b"0\r\n\r\n"),
}


def told(head: bytes, body: bytes) -> Answers:
    async def ask() -> Answers:
        async with running(config_for()) as gateway:
            line = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            return await tell(gateway.port, line + head + b"\r\n\r\n" + body + HIDDEN, to_the_end=True)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_whose_end_is_ambiguous_is_refused_and_nothing_behind_it_is_read(name: str) -> None:
    answers = told(*AMBIGUOUS[name])
    assert answers.statuses == [400]


def test_what_follows_a_request_that_is_plainly_one_is_a_request_of_its_own() -> None:
    answers = told(b"content-length: 29", BODY)
    assert answers.statuses == [200, 200]
