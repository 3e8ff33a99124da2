"""Errors of compatible servers are understood; errors for OpenAI's clients are spelled as they expect."""

import msgspec
import pytest

from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind
from tests.dialects.openai_chat.replies import object_of


def read_failure(status: int, body: object, **headers: str) -> Failure:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return DIALECT.read_error(status, {name.replace("_", "-"): v for name, v in headers.items()}, data)


@pytest.mark.rule("R114")
@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (400, {"error": {"message": "m", "type": "invalid_request_error"}}, "invalid_request", "m"),
        (
            400,
            {"object": "error", "message": "m", "type": "BadRequestError", "code": 400},
            "invalid_request",
            "m",
        ),
        (404, {"error": "model 'x' not found"}, "not_found", "model 'x' not found"),
        (
            422,
            {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "field required"}]},
            "invalid_request",
            "body.messages.0.role: field required",
        ),
        (422, {"detail": [{"loc": ["body", None, []], "msg": "bad"}]}, "invalid_request", "body: bad"),
        (422, {"detail": [{"loc": 5, "msg": "bad"}, {"loc": [], "msg": 5}]}, "invalid_request", "bad"),
        (422, {"object": "error", "message": {"detail": [{"msg": "bad"}]}}, "invalid_request", "bad"),
        (404, {"detail": "Not Found"}, "not_found", "Not Found"),
        (401, {"message": "Authentication Fails"}, "authentication", "Authentication Fails"),
        (401, {"error": {"message": "m", "type": "invalid_request_error"}}, "authentication", "m"),
        (402, {"error": {"message": "Insufficient Balance"}}, "billing", "Insufficient Balance"),
        (403, {"error": {"message": "m", "code": 403}}, "permission", "m"),
        (413, {"error": {"message": "m", "type": "tokens", "code": "rate_limit_exceeded"}}, "too_large", "m"),
        (429, {"error": {"message": "m", "type": "insufficient_quota"}}, "quota", "m"),
        (429, {"error": {"message": "m", "type": "requests"}}, "rate_limit", "m"),
        (500, {"error": {"message": "m", "code": "server_is_overloaded"}}, "overloaded", "m"),
        (
            503,
            {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
            "overloaded",
            "Loading model",
        ),
        (529, {"error": {"message": "m"}}, "overloaded", "m"),
        (504, {"error": {"message": "m"}}, "timeout", "m"),
        (429, [{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], "rate_limit", "m"),
        (500, {}, "server", "the upstream answered 500 without a message"),
        (500, b"", "server", "the upstream answered 500 without a message"),
        (502, b"Bad Gateway\n", "server", "Bad Gateway"),
        (
            502,
            b"<html><title>502 Bad Gateway</title></html>",
            "server",
            "the upstream answered 502 with an HTML page: 502 Bad Gateway",
        ),
        (418, b"\xff\xfe", "invalid_request", "\ufffd\ufffd"),
    ],
)
def test_errors_in_many_shapes(status: int, body: object, kind: str, message: str) -> None:
    failure = read_failure(status, body)
    assert (failure.kind, failure.message, failure.status) == (kind, message, status)


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Please reduce the length of the messages or completion.",
        "The prompt is too long: 5000, model maximum context length: 4096",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count exceeds the maximum number of tokens allowed (1048576).",
        "Input length 9000 exceeds the maximum model length of 8192",
        "Requested token count exceeds the model's context window",
        "Too many input tokens",
        "Prompt exceeds max length",
        "prompt token count of 130000 exceeds the limit of 128000",
        "<400> InvalidParameter: Range of input length should be [1, 98304]",
        "The number of tokens to keep from the initial prompt is greater than the window",
        "However, the model is loaded with context length of only 4096 tokens, which is not enough.",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    ],
)
def test_a_full_context_window_is_known_by_its_many_words(message: str) -> None:
    assert read_failure(400, {"error": {"message": message}}).kind == "context_overflow"


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    "error",
    [
        {"message": "m", "code": "context_length_exceeded"},
        {"message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 5},
        {
            "message": "Provider returned error",
            "metadata": {"raw": '{"error":{"message":"prompt is too long: 9"}}'},
        },
    ],
)
def test_a_full_context_window_is_known_by_codes_too(error: dict[str, object]) -> None:
    assert read_failure(400, {"error": error}).kind == "context_overflow"


def test_a_rate_limit_that_mentions_tokens_is_no_full_window() -> None:
    assert read_failure(429, {"error": {"message": "Too many tokens per minute"}}).kind == "rate_limit"


def test_the_words_of_the_provider_behind_a_router_come_along() -> None:
    error = {"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream said no"}}
    assert read_failure(502, {"error": error}).message == "Provider returned error: upstream said no"


@pytest.mark.rule("R114")
@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry_after": "3"}, "m", 3.0),
        ({"retry_after": "3", "retry_after_ms": "1500"}, "m", 1.5),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, "m", None),
        ({"retry_after": "-1"}, "m", None),
        ({"retry_after": "nan"}, "m", None),
        ({"retry_after": "1e300"}, "m", None),
        ({}, "Rate limit reached. Please try again in 1.5s.", 1.5),
        ({}, "Please try again in 6m0s.", 360.0),
        ({}, "try again in 28ms", 0.028),
        ({}, "Please retry after 20 seconds.", 20.0),
        ({"retry_after": "9"}, "Please try again in 2s.", 9.0),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], message: str, seconds: float | None) -> None:
    failure = read_failure(429, {"error": {"message": message}}, **headers)
    assert failure.retry_after == pytest.approx(seconds)


def test_googles_delay_is_read() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}]
    assert (
        read_failure(429, [{"error": {"code": 429, "message": "m", "details": details}}]).retry_after == 12.0
    )


def test_the_request_id_is_kept() -> None:
    assert read_failure(500, {}, x_request_id="req_1").request_id == "req_1"


def test_a_message_has_an_end() -> None:
    assert len(read_failure(500, b"x" * 100_000).message) == 2000
    assert len(read_failure(500, {"error": {"message": "x" * 100_000}}).message) == 2000


def test_a_deeply_nested_error_is_survived() -> None:
    assert read_failure(500, b'{"error":' * 5000 + b"1" + b"}" * 5000).kind == "server"


@pytest.mark.rule("H65")
def test_a_full_window_is_reported_by_its_code_whatever_the_upstream_called_it() -> None:
    failure = Failure(kind="context_overflow", message="m", status=413, code="string_above_max_length")
    assert object_of(DIALECT.write_error(failure)["error"])["code"] == "context_length_exceeded"
    assert DIALECT.error_status(failure) == 400


@pytest.mark.rule("R114")
@pytest.mark.parametrize(
    ("kind", "status", "type_", "code"),
    [
        ("invalid_request", 400, "invalid_request_error", None),
        ("authentication", 401, "invalid_request_error", "invalid_api_key"),
        ("billing", 429, "insufficient_quota", "insufficient_quota"),
        ("permission", 403, "permission_error", None),
        ("not_found", 404, "invalid_request_error", "model_not_found"),
        ("too_large", 413, "invalid_request_error", None),
        ("rate_limit", 429, "rate_limit_error", "rate_limit_exceeded"),
        ("quota", 429, "insufficient_quota", "insufficient_quota"),
        ("server", 500, "server_error", None),
        ("overloaded", 503, "server_error", "server_is_overloaded"),
        ("timeout", 504, "server_error", None),
    ],
)
def test_every_kind_has_its_place(kind: FailureKind, status: int, type_: str, code: str | None) -> None:
    failure = Failure(kind=kind, message="m", raw_type="overloaded_error")
    assert DIALECT.error_status(failure) == status
    assert DIALECT.write_error(failure) == {
        "error": {"message": "m", "type": type_, "param": None, "code": code}
    }


def test_an_overload_of_another_vendor_gets_the_status_that_clients_know() -> None:
    assert DIALECT.error_status(Failure(kind="overloaded", message="m", status=529)) == 503


def test_every_kind_of_failure_can_be_written() -> None:
    for kind in STATUS_OF_KIND:
        assert object_of(DIALECT.write_error(Failure(kind=kind, message="m"))["error"])["type"]


def test_a_path_is_reported_as_the_parameter() -> None:
    failure = Failure(kind="invalid_request", message="m", param="messages[0].role", code="invalid_value")
    assert DIALECT.write_error(failure) == {
        "error": {
            "message": "m",
            "type": "invalid_request_error",
            "param": "messages[0].role",
            "code": "invalid_value",
        }
    }


@pytest.mark.rule("R114")
def test_headers_steer_retries() -> None:
    limited = Failure(kind="rate_limit", message="m", retry_after=1.2, request_id="req_1")
    assert DIALECT.error_headers(limited) == {
        "x-request-id": "req_1",
        "retry-after": "2",
        "retry-after-ms": "1200",
    }
    assert DIALECT.error_headers(Failure(kind="quota", message="m")) == {"x-should-retry": "false"}


def test_a_rate_limit_always_names_a_time() -> None:
    assert DIALECT.error_headers(Failure(kind="rate_limit", message="m"))["retry-after"] == "1"


def test_a_request_id_that_is_no_header_value_is_left_out() -> None:
    assert DIALECT.error_headers(Failure(kind="server", message="m", request_id="a\r\nb: c")) == {}
