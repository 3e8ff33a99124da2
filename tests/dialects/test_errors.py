"""One reader understands the errors of all vendors, whichever dialect the upstream has."""

import msgspec
import pytest

from dragoman.dialects.errors import read_error, read_failure
from dragoman.dialects.registry import DIALECTS
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
