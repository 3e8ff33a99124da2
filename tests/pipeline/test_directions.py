"""All sixteen directions, on everything that was recorded."""

import msgspec
import pytest

from dragoman import DragomanError, StreamTranslator, translate_reply, translate_request
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.errors import ClientProtocolError, UpstreamFailed
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from tests.pipeline.recordings import (
    DIALECTS as NAMES,
)
from tests.pipeline.recordings import (
    REPLIES,
    REQUESTS,
    STREAMS,
    body_of,
    load,
    stream_of,
    url_of,
)
from tests.sse import collect_sse


def translated(dialect: str, stem: str, target: str) -> dict[str, object]:
    url = url_of(dialect, stem)
    result = translate_request(
        body_of(dialect, stem),
        source=dialect,
        target=target,
        model=str(url.get("model", "")),
        stream=bool(url.get("stream")),
    )
    return result.body


#: Recordings that ask for what no foreign target can do; these are refused, never half done.
REFUSED = {
    "request-google-genai-features": "cachedContent",
    "request-openai-python-chat-features": "n",
    "request-openai-python-responses-features": "previous_response_id",
}


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("dialect", "stem"), [pair for pair in REQUESTS if pair[1] not in REFUSED])
def test_a_recorded_request_becomes_one_that_the_target_can_read(
    dialect: str, stem: str, target: str
) -> None:
    body = translated(dialect, stem, target)
    again = translated(dialect, stem, target)
    assert msgspec.json.encode(body) == msgspec.json.encode(again), "the translation is not deterministic"
    DIALECTS[target].read_request(msgspec.json.decode(msgspec.json.encode(body)), Losses(), model="m")


@pytest.mark.rule("H51", "H62")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("dialect", "stem"), [pair for pair in REQUESTS if pair[1] in REFUSED])
def test_what_a_foreign_target_cannot_do_at_all_is_refused_by_name(
    dialect: str, stem: str, target: str
) -> None:
    if target == dialect:
        assert translated(dialect, stem, target) == body_of(dialect, stem)
    else:
        with pytest.raises(ClientProtocolError) as refused:
            translated(dialect, stem, target)
        assert refused.value.param == REFUSED[stem]


@pytest.mark.rule("C22", "R125")
@pytest.mark.parametrize(("dialect", "stem"), REQUESTS)
def test_a_recorded_request_for_its_own_dialect_stays_as_it_is(dialect: str, stem: str) -> None:
    assert translated(dialect, stem, dialect) == body_of(dialect, stem)


#: Several answers stay several only for a client that asked for them.
TWO_ANSWERS = {"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": {"candidateCount": 2}}


#: A malformed call is a failure for clients of every dialect, and is tested as one.
ANSWERS = [pair for pair in REPLIES if pair[1] != "reply-malformed-call"]


@pytest.mark.parametrize(("dialect", "stem"), ANSWERS)
def test_a_recorded_reply_for_its_own_dialect_stays_as_it_is(dialect: str, stem: str) -> None:
    body = load(dialect, stem)
    request = TWO_ANSWERS if stem == "reply-two-candidates" else None
    assert translate_reply(body, source=dialect, target=dialect, request=request, model="m").body == body


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("dialect", "stem"), STREAMS)
def test_a_recorded_stream_becomes_a_legal_stream_of_the_client(dialect: str, stem: str, target: str) -> None:
    translator = StreamTranslator(source=dialect, target=target)
    stream = translator.feed(stream_of(dialect, stem)) + translator.close()
    assert DIALECTS[target].check_stream(stream) == []
    assert translator.ended


TWINS = [pair for pair in STREAMS if (pair[0], pair[1].replace("stream-", "reply-", 1)) in ANSWERS]


@pytest.mark.rule("R90", "R60")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("dialect", "stem"), TWINS)
def test_the_stream_and_the_whole_reply_state_the_same(dialect: str, stem: str, target: str) -> None:
    translator = StreamTranslator(source=dialect, target=target, ids=IdSource("seed"))
    stream = translator.feed(stream_of(dialect, stem)) + translator.close()
    collected = collect_sse(DIALECTS[target], stream)
    whole = load(dialect, stem.replace("stream-", "reply-", 1))
    try:
        expected = translate_reply(whole, source=dialect, target=target, ids=IdSource("seed")).body
    except UpstreamFailed as failed:
        expected = DIALECTS[target].write_error(failed.failure)
    assert parsed(collected) == parsed(expected)


def parsed(value: object) -> object:
    """JSON inside strings as values: a whole reply holds an object where a stream holds its text, and white
    space between its tokens has no meaning."""
    if isinstance(value, dict):
        return {key: parsed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [parsed(inner) for inner in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return value


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_a_refusal_can_be_written_in_the_dialect_of_the_client(source: str, target: str) -> None:
    with pytest.raises(DragomanError) as refused:
        translate_request(b'{"model": 5}', source=source, target=target)
    assert refused.value.status == 400
    assert "5" not in refused.value.message
    assert isinstance(DIALECTS[source].write_error(refused.value.failure), dict)
