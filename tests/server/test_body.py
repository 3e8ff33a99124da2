"""A body is received and decompressed within one limit, or refused with the right status."""

import asyncio
import gzip
import threading
import zlib
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import ClientProtocolError, RequestTooLarge
from dragoman.server import request as request_module
from dragoman.server.request import MAX_INLINE, ClientDisconnected, decompress_body, receive_body
from tests.server.running import config_for, running
from tests.upstream.byte_server import run

MESSAGES: list[dict[str, Any]] = [
    {"type": "http.request", "body": b"one ", "more_body": True},
    {"type": "http.request", "more_body": True},
    {"type": "http.request", "body": b"two"},
]


def received(messages: list[dict[str, Any]], limit: int = 100) -> bytes:
    waiting = iter(messages)

    async def receive() -> MutableMapping[str, Any]:
        return next(waiting)

    return asyncio.run(receive_body(receive, limit))


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def test_the_pieces_of_a_body_are_put_together() -> None:
    assert received(MESSAGES) == b"one two"


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    assert received(MESSAGES, limit=7) == b"one two"


def test_a_body_beyond_the_limit_is_refused() -> None:
    with pytest.raises(RequestTooLarge) as caught:
        received(MESSAGES, limit=6)
    assert caught.value.status == 413


def test_a_client_that_hangs_up_is_gone() -> None:
    with pytest.raises(ClientDisconnected):
        received([MESSAGES[0], {"type": "http.disconnect"}])


@pytest.mark.rule("H82")
@given(data=st.binary(max_size=2000), name=st.sampled_from(list(COMPRESSORS)))
def test_whatever_a_client_compressed_comes_out_again(data: bytes, name: str) -> None:
    assert decompress_body(COMPRESSORS[name](data), name, limit=2000) == data


@pytest.mark.rule("H82")
def test_deflate_without_its_frame_is_understood() -> None:
    assert decompress_body(raw_deflate(b"text"), "deflate", limit=10) == b"text"


def test_several_encodings_are_undone_in_reverse() -> None:
    twice = COMPRESSORS["zstd"](gzip.compress(b"text"))
    assert decompress_body(twice, " GZIP , identity, zstd ", limit=1000) == b"text"


@pytest.mark.rule("S3")
def test_a_body_in_too_many_layers_is_refused_before_any_is_undone() -> None:
    with pytest.raises(ClientProtocolError, match="more than 3 content-encodings") as caught:
        decompress_body(b"not even gzip", ", ".join(["gzip"] * 4), limit=1000)
    assert caught.value.status == 400


@pytest.mark.rule("S3")
@pytest.mark.parametrize(("size", "is_beside"), [(1000, False), (MAX_INLINE + 1, True)])
def test_what_comes_out_decides_whether_the_loop_waits(
    size: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[tuple[int, bool]] = []

    def recorded(body: bytes, encoding: str, limit: int) -> bytes:
        inflated = decompress_body(body, encoding, limit)
        results.append((len(inflated), threading.current_thread() is not threading.main_thread()))
        return inflated

    async def scenario() -> None:
        async with running(config_for()) as gateway:
            body = gzip.compress(b"{" + b" " * (size - 2) + b"}")
            got = await gateway.ask("POST", "/v1/messages", body, {"content-encoding": "gzip"})
            assert got.status in (400, 404)

    monkeypatch.setattr(request_module, "decompress_body", recorded)
    run(scenario)
    assert results == [(size, is_beside)]


@pytest.mark.rule("H82")
@pytest.mark.parametrize("name", list(COMPRESSORS))
def test_a_bomb_stops_at_the_limit(name: str) -> None:
    bomb = COMPRESSORS[name](b"\0" * 10_000_000)
    with pytest.raises(RequestTooLarge) as caught:
        decompress_body(bomb, name, limit=1000)
    assert caught.value.status == 413


@pytest.mark.parametrize("name", list(COMPRESSORS))
def test_data_of_exactly_the_limit_is_taken(name: str) -> None:
    assert len(decompress_body(COMPRESSORS[name](b"\0" * 1000), name, limit=1000)) == 1000


@pytest.mark.parametrize("name", list(COMPRESSORS))
def test_data_that_was_cut_short_is_refused(name: str) -> None:
    with pytest.raises(ClientProtocolError, match=f"not valid {name} data"):
        decompress_body(COMPRESSORS[name](bytes(range(256)))[:-9], name, limit=1000)


@pytest.mark.parametrize("name", list(COMPRESSORS))
@given(data=st.binary(max_size=200))
def test_any_bytes_are_data_or_refused(name: str, data: bytes) -> None:
    try:
        assert len(decompress_body(data, name, limit=1000)) <= 1000
    except ClientProtocolError as error:
        message = error.message
        assert name in message or "exceeds" in message


def test_an_unknown_encoding_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(ClientProtocolError, match="unsupported content-encoding") as caught:
        decompress_body(b"", "br", limit=10)
    assert "gzip" in caught.value.hint
    assert caught.value.status == 400
