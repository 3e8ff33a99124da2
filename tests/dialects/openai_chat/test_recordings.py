"""Recorded replies and requests come out as they went in."""

from pathlib import Path

import msgspec
import pytest

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.loss import Losses
from dragoman.providers.profile import TargetFacts
from tests.dialects.openai_chat.replies import RECORDINGS, events_of, object_of, written
from tests.sse import collect_sse, explode_sse

OWN = ClientContext(upstream="openai_chat")
REPLIES = sorted(RECORDINGS.glob("reply-*.json"))
STREAMS = sorted(RECORDINGS.glob("stream-*.sse"))
REQUESTS = sorted(RECORDINGS.glob("request-*.json"))
PAIRS = [
    (path, path.with_name(path.name.replace("reply-", "stream-")).with_suffix(".sse")) for path in REPLIES
]
NOT_LEGAL = ("quirk", "cut")


def name_of(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


def body_of(path: Path) -> Json:
    return object_of(msgspec.json.decode(path.read_bytes()))


@pytest.mark.rule("R90")
@pytest.mark.parametrize("path", REPLIES, ids=name_of)
def test_a_whole_reply_survives_the_way_through_the_hub(path: Path) -> None:
    stream = written(events_of(explode_sse(DIALECT, body_of(path))), OWN)
    assert collect_sse(DIALECT, stream) == body_of(path)


@pytest.mark.rule("R90")
@pytest.mark.parametrize(("reply", "stream"), PAIRS, ids=name_of)
def test_a_stream_adds_up_to_its_whole_reply(reply: Path, stream: Path) -> None:
    assert collect_sse(DIALECT, stream.read_bytes()) == body_of(reply)


@pytest.mark.rule("R90")
@pytest.mark.parametrize(("reply", "stream"), PAIRS, ids=name_of)
def test_a_stream_written_again_adds_up_to_the_same_reply(reply: Path, stream: Path) -> None:
    again = written(events_of(stream.read_bytes()), OWN)
    assert collect_sse(DIALECT, again) == body_of(reply)


@pytest.mark.parametrize("path", STREAMS, ids=name_of)
def test_every_recorded_stream_comes_out_legal(path: Path) -> None:
    events = events_of(path.read_bytes())
    assert DIALECT.check_stream(written(events, OWN)) == []
    assert DIALECT.check_stream(written(events)) == []


@pytest.mark.parametrize(
    "path", [path for path in STREAMS if not any(word in path.stem for word in NOT_LEGAL)], ids=name_of
)
def test_the_judge_accepts_what_openai_sends(path: Path) -> None:
    assert DIALECT.check_stream(path.read_bytes()) == []


@pytest.mark.parametrize("path", REQUESTS, ids=name_of)
def test_a_recorded_request_is_written_as_it_was_read(path: Path) -> None:
    losses = Losses()
    request = DIALECT.read_request(object_of(body_of(path)["body"]), losses)
    assert DIALECT.write_request(request, TargetFacts(dialect="openai_chat"), losses) == body_of(path)["body"]
    assert len(losses) == 0


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("error-*.json")), ids=name_of)
def test_a_recorded_error_is_written_as_it_was_read(path: Path) -> None:
    recorded = body_of(path)
    status, body = recorded["status"], recorded["body"]
    assert isinstance(status, int)
    headers = {name: str(value) for name, value in object_of(recorded["headers"]).items()}
    failure = DIALECT.read_error(status, headers, msgspec.json.encode(body))
    assert DIALECT.error_status(failure) == status
    error, again = object_of(object_of(body)["error"]), object_of(DIALECT.write_error(failure)["error"])
    assert again["message"] == error["message"]
    assert again["type"] == error["type"]
    assert error["code"] in (again["code"], None)
