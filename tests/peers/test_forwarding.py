"""The signature of requests between gateways, and the pieces of their replies."""

from itertools import pairwise

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from dragoman.hub.errors import ClientProtocolError, Failure
from dragoman.peers import forwarding
from dragoman.peers.forwarding import (
    DATE_HEADER,
    DIGEST_HEADER,
    END,
    SIGNATURE_HEADER,
    VALID_SECONDS,
    ForwardedRequest,
    NonceMemory,
    PieceDecoder,
    build_headers,
    encode_failure,
    encode_piece,
    is_signed,
    read_request,
)

SECRET = b"0123456789abcdef"
REQUEST = ForwardedRequest(
    gateway="host 1 aa",
    nonce="0" * 32,
    provider="claude",
    owner="owner",
    calls=("call_1",),
    model="model",
    stream=True,
    key=0,
    session="",
    body=b'{"messages": []}',
)
FAILURE = Failure(kind="overloaded", status=529, message="busy", retry_after=2.0)


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40)),
    has_failed=st.booleans(),
    cuts=st.lists(st.integers(0, 400)),
    lost=st.integers(0, 4),
)
def test_a_reply_arrives_whole_or_is_known_to_be_incomplete(
    pieces: list[bytes], has_failed: bool, cuts: list[int], lost: int
) -> None:
    sent = b"".join(map(encode_piece, pieces)) + (encode_failure(FAILURE) if has_failed else END)
    sent = sent[: len(sent) - lost]
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    decoder = PieceDecoder()
    received = b"".join(decoder.feed(sent[start:end]) for start, end in pairwise(places))
    assert decoder.is_complete == (not lost)
    assert decoder.failure == (FAILURE if has_failed and not lost else None)
    assert received == b"".join(pieces)


def test_only_a_gateway_with_the_secret_can_sign_and_not_for_long() -> None:
    body = msgspec.msgpack.encode(REQUEST)
    headers = build_headers(SECRET, body, 1000.0)
    assert is_signed(SECRET, headers, 1000.0 + VALID_SECONDS)
    assert not is_signed(SECRET, headers, 1001.0 + VALID_SECONDS)
    assert not is_signed(SECRET, headers, 999.0 - VALID_SECONDS)
    assert not is_signed(b"another", headers, 1000.0)
    # A gateway that could not read the secret accepts nothing.
    assert not is_signed(b"", build_headers(b"", body, 1000.0), 1000.0)
    for name in (DATE_HEADER, DIGEST_HEADER, SIGNATURE_HEADER):
        assert not is_signed(SECRET, {**headers, name: "x\xff"}, 1000.0)
        assert not is_signed(SECRET, {key: value for key, value in headers.items() if key != name}, 1000.0)


@pytest.mark.parametrize(("name", "value"), [("METHOD", "PUT"), ("PATH", "/gateway/other")])
def test_a_signature_is_for_one_method_and_one_path(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    headers = build_headers(SECRET, b"body", 1000.0)
    monkeypatch.setattr(forwarding, name, value)
    assert not is_signed(SECRET, headers, 1000.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, VALID_SECONDS))))
def test_a_nonce_is_accepted_once_while_its_signature_can_be_valid(steps: list[tuple[str, float]]) -> None:
    memory, now = NonceMemory(), 1000.0
    seen: dict[str, float] = {}
    for nonce, pause in steps:
        now += pause
        is_new = memory.accept(nonce, now)
        if nonce in seen and now - seen[nonce] <= 2 * VALID_SECONDS:
            assert not is_new
        if nonce not in seen:
            assert is_new
        seen[nonce] = now
    for number in range(100):
        memory.accept(f"later {number}", now + 10 * VALID_SECONDS)
    assert len(memory._dates) <= 100


def test_a_body_counts_only_with_its_own_digest() -> None:
    body = msgspec.msgpack.encode(REQUEST)
    headers = build_headers(SECRET, body, 1000.0)
    assert read_request(headers, body) == REQUEST
    other = msgspec.msgpack.encode(msgspec.structs.replace(REQUEST, owner="another"))
    for wrong in (other, body[:-1], b""):
        with pytest.raises(ClientProtocolError):
            read_request(headers, wrong)
    with pytest.raises(ClientProtocolError):
        read_request(build_headers(SECRET, b"\xc1", 1000.0), b"\xc1")
