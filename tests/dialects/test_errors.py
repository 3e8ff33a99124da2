"""One reader understands the errors of all vendors, whichever dialect the upstream has."""

import msgspec
import pytest

from dragoman import StreamTranslator
from dragoman.dialects.errors import read_error, read_failure
from dragoman.dialects.registry import DIALECTS, dialect_named
from dragoman.hub.errors import Failure, FailureKind

GOOGLE = {
    "error": {
        "code": 429,
        "message": "Quota exceeded.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "RequestsPerDay"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s"},
        ],
    }
}
ANTHROPIC = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "Busy."},
    "request_id": "req_1",
}
OPENAI = {"error": {"message": "No.", "type": "invalid_request_error", "param": "top_k", "code": "bad_value"}}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (
            429,
            GOOGLE,
            Failure(
                kind="quota",
                message="Quota exceeded.",
                status=429,
                raw_type="RESOURCE_EXHAUSTED",
                retry_after=5.0,
            ),
        ),
        (
            200,
            ANTHROPIC,
            Failure(
                kind="overloaded",
                message="Busy.",
                status=200,
                raw_type="overloaded_error",
                request_id="req_1",
            ),
        ),
        (
            400,
            OPENAI,
            Failure(
                kind="invalid_request",
                message="No.",
                status=400,
                raw_type="invalid_request_error",
                code="bad_value",
                param="top_k",
            ),
        ),
    ],
)
def test_the_errors_of_every_vendor_are_read_in_every_dialect(
    dialect: str, status: int, body: object, failure: Failure
) -> None:
    assert DIALECTS[dialect].read_error(status, {}, msgspec.json.encode(body)) == failure


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded", "message": "m"}, "rate_limit"),
        ({"code": 503, "message": "m"}, "overloaded"),
        ({"type": "api_error", "message": "prompt is too long: 5 tokens > 4 maximum"}, "context_overflow"),
        ({"status": "CANCELLED", "message": "m"}, "cancelled"),
        ({"message": "m"}, "server"),
        ("m", "server"),
    ],
)
def test_the_kind_of_an_error_inside_a_stream_needs_no_status(error: object, kind: FailureKind) -> None:
    assert read_failure(error).kind == kind


def test_an_error_without_any_message_gets_one() -> None:
    assert read_failure({}).message == "the upstream reported an error without a message"


def test_a_message_with_a_lone_surrogate_is_read() -> None:
    assert read_failure({"error": '{"\ud800'}).message == '{"\ud800'


def test_a_message_with_many_complaints_is_bounded() -> None:
    body = msgspec.json.encode({"detail": [{"loc": ["a"], "msg": "x" * 400}] * 100})
    assert len(read_error(422, {}, body).message) == 2000


@pytest.mark.rule("S11")
@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("wait", [1e308, float("inf"), float("nan"), -1e308])
def test_a_wait_of_any_length_can_be_written(dialect: str, wait: float) -> None:
    writer = dialect_named(dialect)
    failure = Failure(kind="rate_limit", message="later", retry_after=wait)
    assert len(writer.error_headers(failure)["retry-after"]) <= 8
    written = msgspec.json.encode(writer.write_error(failure))
    assert b"inf" not in written
    assert len(written) < 1000


#: Frames that no server should send, in the middle of a Chat stream or first in it.
ODD_FRAMES = [
    b'{"error":{"message":0}}',
    b'{"error":{"message":""}}',
    b'{"error":{"message":null,"code":7}}',
    b'{"error":[]}',
    b'{"choices":[]}',
    b'{"choices":[null]}',
    b'{"choices":[{}]}',
    b'{"choices":[{"index":1,"delta":{"content":"x"},"error":{"message":0}}]}',
    b'{"choices":null}',
    b"{}",
    b"[]",
    b"0",
]
BEGINNING = b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"good"}}]}\n\n'


@pytest.mark.rule("S11")
@pytest.mark.parametrize("client", sorted(DIALECTS))
@pytest.mark.parametrize("odd", ODD_FRAMES)
@pytest.mark.parametrize("before", [b"", BEGINNING], ids=["first", "later"])
def test_an_odd_frame_gives_a_legal_stream(client: str, odd: bytes, before: bytes) -> None:
    translator = StreamTranslator(source="openai_chat", target=client)
    stream = translator.feed(before + b"data: " + odd + b"\n\n")
    stream += translator.feed(b"data: [DONE]\n\n") + translator.close()
    assert dialect_named(client).check_stream(stream) == []
