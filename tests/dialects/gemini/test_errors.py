"""Errors of Gemini and of servers like it, in and out."""

import msgspec
import pytest

from dragoman.dialects.gemini import DIALECT
from dragoman.hub.errors import STATUS_OF_KIND, Failure, FailureKind, kind_of_status
from tests.dialects.gemini.replies import dig, recorded_json, stems

#: What each recorded error means.
KINDS = {
    "authentication": "authentication",
    "cancelled": "cancelled",
    "context-overflow": "context_overflow",
    "failed-precondition": "invalid_request",
    "internal": "server",
    "invalid-key": "authentication",
    "invalid-request": "invalid_request",
    "missing-signature": "invalid_request",
    "not-found": "not_found",
    "overloaded": "overloaded",
    "permission": "permission",
    "quota": "quota",
    "rate-limit": "rate_limit",
    "timeout": "timeout",
}


def read(status: int, body: object, **headers: str) -> Failure:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return DIALECT.read_error(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, data
    )


def recorded_failure(stem: str) -> Failure:
    recording = recorded_json(f"error-{stem}.json")
    status = recording["status"]
    assert isinstance(status, int)
    return read(status, recording["body"])


@pytest.mark.rule("R114")
@pytest.mark.parametrize("stem", stems("error-", ".json"))
def test_a_recorded_error_is_understood_and_keeps_its_status_and_word(stem: str) -> None:
    recording = recorded_json(f"error-{stem}.json")
    failure = recorded_failure(stem)
    assert failure.kind == KINDS[stem]
    assert failure.status == recording["status"]
    assert failure.message == dig(recording, "body", "error", "message")
    assert failure.raw_type == dig(recording, "body", "error", "status")


@pytest.mark.parametrize("stem", stems("error-", ".json"))
def test_a_recorded_error_is_written_with_its_own_status_and_word(stem: str) -> None:
    recording = recorded_json(f"error-{stem}.json")
    written = DIALECT.write_error(recorded_failure(stem))
    for name in ("code", "message", "status"):
        assert dig(written, "error", name) == dig(recording, "body", "error", name)


def test_the_field_that_is_wrong_and_the_reason_are_kept() -> None:
    assert recorded_failure("invalid-request").param == "contents[0].role"
    assert recorded_failure("invalid-key").code == "API_KEY_INVALID"


def test_an_error_in_a_list_is_understood() -> None:
    assert (
        read(503, [{"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}]).message == "Busy."
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": "just words"}, "just words"),
        ({"detail": "no such model"}, "no such model"),
        ({"detail": [{"loc": ["body", "contents"], "msg": "bad"}]}, "body.contents: bad"),
        ({"message": "no such model"}, "no such model"),
        ({"error": {"type": "x", "message": "no such model"}}, "no such model"),
        (b"Service Unavailable", "Service Unavailable"),
        (b"<html><body>Bad Gateway</body></html>", "the upstream answered 502 with an HTML page"),
        (b"", "the upstream answered 502 without a message"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        ({}, "the upstream answered 502 without a message"),
        ([], "the upstream answered 502 without a message"),
        (
            {"error": {"message": 5, "status": 5, "details": 5, "code": "x"}},
            "the upstream answered 502 without a message",
        ),
    ],
)
def test_other_servers_errors_are_understood_too(body: object, message: str) -> None:
    failure = read(502, body)
    assert (failure.kind, failure.status, failure.message) == ("server", 502, message)


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    "message",
    [
        "The input token count (1248301) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum context length is 8192 tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_an_overflow_is_known_by_its_text(message: str) -> None:
    assert read(400, {"error": {"message": message, "status": "INVALID_ARGUMENT"}}).kind == "context_overflow"


@pytest.mark.rule("H86")
@pytest.mark.parametrize(
    ("details", "message", "headers", "seconds"),
    [
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}], "", {}, 12.0),
        (
            [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.5s"}],
            "",
            {"retry_after": "9"},
            0.5,
        ),
        ([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "soon"}], "", {}, None),
        ([], "Please retry in 12.3s.", {}, 12.3),
        ([], "", {"retry_after": "7"}, 7.0),
        ([], "", {"retry_after_ms": "1500"}, 1.5),
        ([], "", {"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ([], "", {"retry_after": "-5"}, None),
        ([], "", {"retry_after": "nan"}, None),
    ],
)
def test_when_to_come_back_is_read(
    details: object, message: str, headers: dict[str, str], seconds: float | None
) -> None:
    body = {"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}}
    assert read(429, body, **headers).retry_after == seconds


@pytest.mark.rule("R114", "H86")
def test_when_to_come_back_is_reported_in_the_body_and_in_a_header() -> None:
    failure = Failure(kind="rate_limit", message="Slow down.", retry_after=1.5)
    assert DIALECT.write_error(failure) == {
        "error": {
            "code": 429,
            "message": "Slow down.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}],
        }
    }
    assert DIALECT.error_headers(failure) == {"retry-after": "2", "retry-after-ms": "1500"}
    assert DIALECT.error_headers(Failure(kind="server", message="No.")) == {}


@pytest.mark.rule("R114")
@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        ("invalid_request", 400, "INVALID_ARGUMENT"),
        ("context_overflow", 400, "INVALID_ARGUMENT"),
        ("authentication", 401, "UNAUTHENTICATED"),
        ("billing", 429, "RESOURCE_EXHAUSTED"),
        ("permission", 403, "PERMISSION_DENIED"),
        ("not_found", 404, "NOT_FOUND"),
        ("conflict", 409, "ABORTED"),
        ("too_large", 413, "INVALID_ARGUMENT"),
        ("rate_limit", 429, "RESOURCE_EXHAUSTED"),
        ("quota", 429, "RESOURCE_EXHAUSTED"),
        ("server", 500, "INTERNAL"),
        ("overloaded", 503, "UNAVAILABLE"),
        ("timeout", 504, "DEADLINE_EXCEEDED"),
        ("cancelled", 499, "CANCELLED"),
    ],
)
def test_every_kind_has_a_status_and_a_word(kind: FailureKind, status: int, word: str) -> None:
    failure = Failure(kind=kind, message="No.")
    assert DIALECT.error_status(failure) == status
    assert dig(DIALECT.write_error(failure), "error", "code") == status
    assert dig(DIALECT.write_error(failure), "error", "status") == word


@pytest.mark.parametrize("kind", sorted(STATUS_OF_KIND))
def test_what_is_written_is_read_as_the_same_kind(kind: FailureKind) -> None:
    failure = Failure(kind=kind, message="No.", param="contents", retry_after=3)
    read_again = read(DIALECT.error_status(failure), DIALECT.write_error(failure))
    # Google has one word for both: the quota is used up. A gateway's own faults have no word of their own.
    merged = {"billing": "quota", "unreachable": "overloaded", "misconfigured": "overloaded"}
    assert read_again.kind == merged.get(kind, kind)
    assert (read_again.param, read_again.retry_after) == ("contents", 3)


@pytest.mark.rule("R127")
@pytest.mark.parametrize(
    ("status", "expected", "word"),
    [
        (402, 429, "RESOURCE_EXHAUSTED"),
        (405, 405, "INVALID_ARGUMENT"),
        (408, 504, "DEADLINE_EXCEEDED"),
        (418, 400, "INVALID_ARGUMENT"),
        (422, 400, "INVALID_ARGUMENT"),
        (502, 503, "UNAVAILABLE"),
        (520, 500, "INTERNAL"),
        (529, 503, "UNAVAILABLE"),
    ],
)
def test_statuses_that_google_does_not_use_become_pairs_that_it_does(
    status: int, expected: int, word: str
) -> None:
    failure = Failure(kind=kind_of_status(status), message="No.", status=status)
    assert DIALECT.error_status(failure) == expected
    assert dig(DIALECT.write_error(failure), "error", "code") == expected
    assert dig(DIALECT.write_error(failure), "error", "status") == word


@pytest.mark.rule("R127")
def test_a_stream_that_broke_off_is_reported_as_a_server_that_is_not_there() -> None:
    failure = Failure(kind="overloaded", message="No.", status=502)
    assert dig(DIALECT.write_error(failure), "error", "code") == 503
    assert dig(DIALECT.write_error(failure), "error", "status") == "UNAVAILABLE"


@pytest.mark.rule("H65")
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "prompt is too long: 210000 tokens > 200000 maximum",
            "The input token count (210000) exceeds the maximum number of tokens allowed (200000).",
        ),
        (
            "maximum context length is 8192 tokens, however you requested 9000 tokens",
            "The input token count (9000) exceeds the maximum number of tokens allowed (8192).",
        ),
        ("too long", "The input token count exceeds the maximum number of tokens allowed: too long"),
    ],
)
def test_an_overflow_is_reported_in_the_words_that_clients_look_for(message: str, expected: str) -> None:
    failure = Failure(kind="context_overflow", message=message)
    assert dig(DIALECT.write_error(failure), "error", "message") == expected
