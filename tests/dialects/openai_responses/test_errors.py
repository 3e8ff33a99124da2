"""Errors of this dialect and its many compatible servers, both ways."""

import pytest

from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind


def read(status: int, body: bytes, **headers: str) -> Failure:
    return DIALECT.read_error(status, {name.replace("_", "-"): v for name, v in headers.items()}, body)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, b'{"error": {"message": "Bad."}}', "invalid_request", "Bad."),
        (400, b'{"error": "Bad."}', "invalid_request", "Bad."),
        (422, b'{"detail": "Bad."}', "invalid_request", "Bad."),
        (
            422,
            b'{"detail": [{"loc": ["body", "input", 0], "msg": "Bad."}]}',
            "invalid_request",
            "body.input.0: Bad.",
        ),
        (400, b'[{"error": {"message": "Bad."}}]', "invalid_request", "Bad."),
        (401, b'{"message": "Bad."}', "authentication", "Bad."),
        (500, b"Bad.", "server", "Bad."),
        (502, b"<html>", "server", "the upstream answered 502 with an HTML page"),
        (503, b"", "overloaded", "the upstream answered 503 without a message"),
        (500, b"[]", "server", "the upstream answered 500 without a message"),
        (404, b'{"error": {"message": "Bad.", "code": "model_not_found"}}', "not_found", "Bad."),
        (429, b'{"error": {"message": "Bad.", "type": "insufficient_quota"}}', "quota", "Bad."),
        (529, b'{"error": {"message": "Bad."}}', "overloaded", "Bad."),
        (418, b'{"error": {"message": "Bad."}}', "invalid_request", "Bad."),
        (400, b'{"error": {"message": 5, "code": [1], "type": {}}}', "invalid_request", ""),
    ],
)
@pytest.mark.rule("R114")
def test_every_shape_of_error_is_understood(
    status: int, body: bytes, kind: FailureKind, message: str
) -> None:
    failure = read(status, body)
    assert (failure.kind, failure.status) == (kind, status)
    assert message in failure.message


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 8192 tokens.",
        "prompt is too long: 300000 tokens > 200000 maximum",
        "The input token count exceeds the maximum number of tokens allowed.",
        "Please reduce the length of the messages.",
        "the request exceeds the available context size",
    ],
)
@pytest.mark.rule("H65")
def test_a_prompt_that_is_too_long_is_known_by_its_text(text: str) -> None:
    failure = read(400, b'{"error": {"message": "%b"}}' % text.encode())
    assert failure.kind == "context_overflow"
    assert DIALECT.write_error(failure)["error"] == {
        "message": text,
        "type": "invalid_request_error",
        "param": None,
        "code": "context_length_exceeded",
    }


def test_the_time_to_wait_comes_from_headers_or_from_the_message() -> None:
    body = b'{"error": {"message": "Please try again in 250ms.", "code": "rate_limit_exceeded"}}'
    assert read(429, body, retry_after="3", retry_after_ms="1500").retry_after == 1.5
    assert read(429, body, retry_after="3").retry_after == 3.0
    assert read(429, body, retry_after="Wed, 21 Oct 2026 07:28:00 GMT").retry_after == 0.25
    assert read(429, body.replace(b"250ms", b"2 minutes")).retry_after == 120.0
    assert read(429, b"{}", retry_after="nan").retry_after is None


@pytest.mark.parametrize(
    ("kind", "error_type", "code", "status"),
    [
        ("invalid_request", "invalid_request_error", None, 400),
        ("context_overflow", "invalid_request_error", "context_length_exceeded", 400),
        ("authentication", "invalid_request_error", "invalid_api_key", 401),
        ("billing", "insufficient_quota", "insufficient_quota", 429),
        ("permission", "permission_error", None, 403),
        ("not_found", "invalid_request_error", "model_not_found", 404),
        ("too_large", "invalid_request_error", None, 413),
        ("rate_limit", "rate_limit_error", "rate_limit_exceeded", 429),
        ("quota", "insufficient_quota", "insufficient_quota", 429),
        ("server", "server_error", None, 500),
        ("overloaded", "server_error", "server_is_overloaded", 503),
        ("timeout", "server_error", None, 504),
    ],
)
@pytest.mark.rule("R114")
def test_each_kind_has_its_type_code_and_status(
    kind: FailureKind, error_type: str, code: str | None, status: int
) -> None:
    failure = Failure(kind=kind, message="No.", raw_type="overloaded_error", status=529)
    written = DIALECT.write_error(Failure(kind=kind, message="No."))["error"]
    assert written == {"message": "No.", "type": error_type, "param": None, "code": code}
    assert DIALECT.error_status(Failure(kind=kind, message="No.")) == status
    if kind == "overloaded":
        assert DIALECT.error_status(failure) == 503


@pytest.mark.rule("R114")
@pytest.mark.parametrize(
    ("kind", "raw_type", "written"),
    [
        ("overloaded", "overloaded_error", "server_error"),
        ("not_found", "not_found_error", "invalid_request_error"),
        ("overloaded", "service_unavailable_error", "service_unavailable_error"),
        ("quota", "usage_limit_reached", "usage_limit_reached"),
        ("server", "usage_limit_reached", "server_error"),
    ],
)
def test_only_a_type_of_openais_own_is_written_again(kind: FailureKind, raw_type: str, written: str) -> None:
    error = DIALECT.write_error(Failure(kind=kind, message="No.", raw_type=raw_type))["error"]
    assert isinstance(error, dict)
    assert error["type"] == written


def test_every_kind_can_be_written() -> None:
    for kind in STATUS_OF_KIND:
        failure = Failure(kind=kind, message="No.", status=7)
        assert DIALECT.write_error(failure)["error"]
        assert 400 <= DIALECT.error_status(failure) < 600


def test_a_rate_limit_has_a_time_to_wait_and_a_spent_quota_forbids_a_retry() -> None:
    assert DIALECT.error_headers(Failure(kind="rate_limit", message="x")) == {
        "retry-after": "1",
        "retry-after-ms": "1000",
    }
    waiting = Failure(kind="rate_limit", message="x", retry_after=0.3, request_id="req_1")
    assert DIALECT.error_headers(waiting) == {
        "x-request-id": "req_1",
        "retry-after": "1",
        "retry-after-ms": "300",
    }
    assert DIALECT.error_headers(Failure(kind="quota", message="x", retry_after=5.0)) == {
        "x-should-retry": "false"
    }
    assert DIALECT.error_headers(Failure(kind="server", message="x")) == {}


def test_codes_of_other_vendors_are_kept_only_where_we_have_none() -> None:
    unsupported = Failure(kind="invalid_request", message="x", code="unsupported_value", param="top_k")
    written = DIALECT.write_error(unsupported)["error"]
    assert isinstance(written, dict)
    assert (written["code"], written["param"]) == ("unsupported_value", "top_k")
    foreign = DIALECT.write_error(Failure(kind="rate_limit", message="x", code="RESOURCE_EXHAUSTED"))["error"]
    assert isinstance(foreign, dict)
    assert foreign["code"] == "rate_limit_exceeded"


def test_a_long_body_is_cut() -> None:
    assert len(read(500, b"x" * 100_000).message) == 2000
