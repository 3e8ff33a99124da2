"""Errors of Anthropic and of its imitators are read, and ours are written as its clients expect."""

import msgspec
import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind
from tests.dialects.anthropic.replies import names, recorded_json

KINDS: dict[str, FailureKind] = {
    "authentication": "authentication",
    "billing": "billing",
    "conflict": "conflict",
    "context-overflow": "context_overflow",
    "internal": "server",
    "invalid-request": "invalid_request",
    "max-tokens-overflow": "context_overflow",
    "not-found": "not_found",
    "overloaded": "overloaded",
    "permission": "permission",
    "rate-limit": "rate_limit",
    "timeout": "timeout",
    "too-large": "too_large",
}


def read(status: int, body: object, **headers: str) -> Failure:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    lowered = {name.replace("_", "-"): value for name, value in headers.items()}
    return DIALECT.read_error(status, lowered, data)


def recorded_failure(name: str) -> tuple[Failure, Json]:
    recording = recorded_json(name)
    status, headers = recording["status"], recording["headers"]
    assert isinstance(status, int)
    assert isinstance(headers, dict)
    return DIALECT.read_error(status, headers, msgspec.json.encode(recording["body"])), recording


@pytest.mark.parametrize("name", names("error-*.json"))
@pytest.mark.rule("R114")
def test_recorded_errors_have_their_kind_and_keep_their_status(name: str) -> None:
    failure, recording = recorded_failure(name)
    assert failure.kind == KINDS[name.removeprefix("error-").removesuffix(".json")]
    assert failure.status == recording["status"]


@pytest.mark.parametrize("name", names("error-*.json"))
@pytest.mark.rule("R114")
def test_recorded_errors_are_written_as_they_were(name: str) -> None:
    failure, recording = recorded_failure(name)
    body = recording["body"]
    assert isinstance(body, dict)
    del body["error"]["details"]
    assert DIALECT.write_error(failure) == body
    assert DIALECT.error_status(failure) == recording["status"]


def test_the_time_to_wait_and_the_request_are_passed_on() -> None:
    failure, _ = recorded_failure("error-rate-limit.json")
    assert DIALECT.error_headers(failure) == {
        "retry-after": "7",
        "retry-after-ms": "7000",
        "request-id": "req_011Recording0000000110",
    }


SHAPES: list[tuple[object, str]] = [
    ({"error": {"message": "a"}}, "a"),
    ({"error": "b"}, "b"),
    ({"message": "c"}, "c"),
    ({"detail": "d"}, "d"),
    ({"detail": [{"msg": "e1", "loc": ["body"]}, {"msg": "e2"}]}, "body: e1; e2"),
    ([{"error": {"message": "f"}}], "f"),
    (b"upstream connect error", "upstream connect error"),
    (b"<html><title>Bad gateway</title>", "the upstream answered 502 with an HTML page: Bad gateway"),
    (b"", "the upstream answered 502 without a message"),
    (b"{}", "the upstream answered 502 without a message"),
    (b'{"error": {"message": 5}}', "the upstream answered 502 without a message"),
    (b"\xff\xfe", "\ufffd\ufffd"),
]


@pytest.mark.parametrize(("body", "message"), SHAPES)
@pytest.mark.rule("R114")
def test_every_shape_of_an_error_body_gives_its_message(body: object, message: str) -> None:
    failure = read(502, body)
    assert (failure.message, failure.kind, failure.status) == (message, "server", 502)


def test_a_vague_type_gives_way_to_the_status() -> None:
    body = {"error": {"type": "invalid_request_error", "message": "slow down"}}
    assert read(429, body).kind == "rate_limit"


def test_a_telling_type_holds_whatever_the_status() -> None:
    assert read(500, {"error": {"type": "overloaded_error", "message": "busy"}}).kind == "overloaded"


WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"retry_after": "3"}, 3.0),
    ({"retry_after_ms": "250", "retry_after": "3"}, 0.25),
    ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
    ({"retry_after": "-1"}, None),
    ({"retry_after": "inf"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), WAITS)
def test_the_time_to_wait_is_read_without_a_clock(headers: dict[str, str], seconds: float | None) -> None:
    assert read(429, {}, **headers).retry_after == seconds


OVERFLOWS: list[tuple[str, str]] = [
    (
        "The maximum context length is 128000 tokens. However, your messages resulted in 130,500.",
        "prompt is too long: 130500 tokens > 128000 maximum",
    ),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "prompt is too long: 1200000 tokens > 1048576 maximum",
    ),
    (
        "the request exceeds the available context size (8192 tokens)",
        "prompt is too long: more than 8192 tokens > 8192 maximum",
    ),
    ("Input is too long for requested model.", "prompt is too long: Input is too long for requested model."),
    ("prompt is too long: 5 tokens > 4 maximum", "prompt is too long: 5 tokens > 4 maximum"),
    (
        "input length and `max_tokens` exceed context limit: 9 + 3 > 10, lower one",
        "input length and `max_tokens` exceed context limit: 9 + 3 > 10, lower one",
    ),
]


@pytest.mark.parametrize(("message", "text"), OVERFLOWS)
@pytest.mark.rule("H65")
def test_an_overflow_is_reported_in_the_words_that_make_claude_code_compact(message: str, text: str) -> None:
    failure = read(400, {"error": {"type": "invalid_request_error", "message": message}})
    assert failure.kind == "context_overflow"
    assert DIALECT.write_error(failure)["error"] == {"type": "invalid_request_error", "message": text}
    assert DIALECT.error_status(failure) == 400


TOO_LONG_TOGETHER = [
    (
        "maximum context length is 4096 tokens. However, you requested 5000 tokens (4,000 in the messages, "
        "1000 in the completion)",
        "4000 + 1000 > 4096",
    ),
    (
        "maximum context length is 131072 tokens, you requested about 140000 tokens (90000 of text input, "
        "10000 of tool input, 40000 in the output)",
        "100000 + 40000 > 131072",
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is "
        "40960 tokens and your request has 20000 input tokens (32000 > 40960 - 20000).",
        "20000 + 32000 > 40960",
    ),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 4096. "
        "Given: 4000 `inputs` tokens and 200 `max_new_tokens`",
        "4000 + 200 > 4096",
    ),
]


@pytest.mark.rule("H65")
@pytest.mark.parametrize(("message", "total"), TOO_LONG_TOGETHER)
def test_a_prompt_that_fits_with_a_shorter_answer_is_reported_as_such(message: str, total: str) -> None:
    """Claude Code then asks for less, where it would otherwise throw away half of the conversation."""
    text = f"input length and `max_tokens` exceed context limit: {total}"
    error = DIALECT.write_error(Failure(kind="context_overflow", message=message))["error"]
    assert error == {"type": "invalid_request_error", "message": text}


def test_a_prompt_that_never_fits_is_reported_as_too_long() -> None:
    message = "maximum context length is 4096 tokens: 5000 in the messages, 1000 in the completion"
    error = DIALECT.write_error(Failure(kind="context_overflow", message=message))["error"]
    assert error == {
        "type": "invalid_request_error",
        "message": "prompt is too long: 5000 tokens > 4096 maximum",
    }


def test_an_ordinary_complaint_is_no_overflow() -> None:
    assert read(400, {"error": {"message": "messages.0: too many roles"}}).kind == "invalid_request"


def test_a_body_that_is_too_large_is_no_overflow() -> None:
    error = {"type": "request_too_large", "message": "exceeds the maximum number of tokens"}
    assert read(413, {"error": error}).kind == "too_large"


@pytest.mark.parametrize("kind", sorted(STATUS_OF_KIND))
@pytest.mark.rule("R114")
def test_every_kind_of_failure_has_a_body_and_a_status(kind: FailureKind) -> None:
    failure = Failure(kind=kind, message="no")
    body = DIALECT.write_error(failure)
    assert body["type"] == "error"
    assert 400 <= DIALECT.error_status(failure) < 600


def test_an_overload_has_the_status_that_clients_retry() -> None:
    assert DIALECT.error_status(Failure(kind="overloaded", message="busy", status=503)) == 529


def test_a_status_that_is_no_error_is_replaced() -> None:
    assert DIALECT.error_status(Failure(kind="server", message="no", status=200)) == 500


def test_every_rate_limit_names_a_time_to_wait() -> None:
    assert DIALECT.error_headers(Failure(kind="rate_limit", message="slow"))["retry-after"] == "1"
    assert (
        DIALECT.error_headers(Failure(kind="rate_limit", message="slow", retry_after=0.2))["retry-after"]
        == "1"
    )
    assert DIALECT.error_headers(Failure(kind="server", message="no")) == {}


def test_an_id_cannot_smuggle_headers() -> None:
    failure = read(500, {"error": {"message": "x"}, "request_id": "req_1\r\nset-cookie: a"})
    assert DIALECT.error_headers(failure) == {}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("image input is not supported - hint: you may need to provide the mmproj", "image_block"),
        ("this model does not support image input", "image_block"),
        ("m is not a multimodal model", "image_block"),
        ("No endpoints found that support image input", "image_block"),
        ("This model does not support PDF files", "document_block"),
        (
            "'response_format' of type 'json_schema' is not supported with this model",
            "structured_outputs_unsupported",
        ),
        ("Unsupported value: 'reasoning.effort' is not supported with the 'm' model.", "effort_unsupported"),
    ],
)
def test_a_refused_capability_of_another_vendor_gets_the_class_that_claude_code_knows(
    message: str, name: str
) -> None:
    error = DIALECT.write_error(Failure(kind="invalid_request", status=400, message=message))["error"]
    assert isinstance(error, dict)
    assert error["message"] == f"{message} [capability_rejected: {name}]"


@pytest.mark.parametrize(
    "message",
    [
        "messages.0.content.1.image.source.base64: Could not process image",
        "max_tokens: expected an integer",
        "the image was made by a tool that is documented elsewhere",
        "tools.0.name: a dot is not allowed",
    ],
)
def test_other_errors_have_no_class(message: str) -> None:
    error = DIALECT.write_error(Failure(kind="invalid_request", status=400, message=message))["error"]
    assert isinstance(error, dict)
    assert error["message"] == message
