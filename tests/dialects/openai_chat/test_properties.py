"""What holds for every stream, however cut, damaged or made up."""

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.dialects.interfaces import ClientContext, Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import Opaque, Refusal, Text, ToolCall
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.events import ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.hub.fold import fold
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.providers.profile import TargetFacts
from tests.dialects.openai_chat.bodies import MESSAGES, SETTINGS
from tests.dialects.openai_chat.replies import RECORDINGS, a_request, events_of, object_of, written
from tests.dialects.strategies import mutated_bodies, mutated_streams, pieces_of, replies
from tests.sse import collect_sse, explode_sse

HELLO = {"role": "user", "content": "hello"}

STREAMS = [path.read_bytes() for path in sorted(RECORDINGS.glob("stream-*.sse"))]
BODIES: list[Json] = [
    object_of(msgspec.json.decode(path.read_bytes())) for path in sorted(RECORDINGS.glob("reply-*.json"))
]
REQUESTS: list[Json] = [
    object_of(object_of(msgspec.json.decode(path.read_bytes()))["body"])
    for path in sorted(RECORDINGS.glob("request-*.json"))
]
REQUESTS += [{"model": "m", "messages": [message]} for message in MESSAGES]
REQUESTS += [{"model": "m", "messages": [HELLO], **settings} for settings in SETTINGS]


@given(data=st.data())
@settings(max_examples=60)
def test_events_do_not_depend_on_where_the_bytes_are_cut(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(STREAMS))
    pieces = data.draw(pieces_of(stream))
    assert events_of(*pieces) == events_of(stream)


@given(stream=mutated_streams(STREAMS), asked=st.booleans())
@settings(max_examples=100)
def test_damaged_streams_give_grammatical_events_and_legal_streams(stream: bytes, asked: bool) -> None:
    request = a_request(candidates=1) if asked else None
    events = events_of(stream, request=request)
    assert isinstance(events[-1], ReplyFinished | ReplyFailed)
    for upstream in ("openai_chat", "anthropic"):
        again = written(events, ClientContext(upstream=upstream, request=request, ids=IdSource("t")))
        assert DIALECT.check_stream(again) == []


@given(body=mutated_bodies(BODIES))
@settings(max_examples=100)
def test_damaged_whole_replies_give_grammatical_events_and_legal_streams(body: Json) -> None:
    events = events_of(explode_sse(DIALECT, body))
    assert (
        DIALECT.check_stream(written(events, ClientContext(upstream="openai_chat", ids=IdSource("t")))) == []
    )


@given(events=replies())
@settings(max_examples=100)
def test_any_reply_is_written_legally(events: list[ReplyEvent]) -> None:
    assert DIALECT.check_stream(written(events)) == []


@given(events=replies(failing=False))
@settings(max_examples=60)
def test_a_whole_reply_is_what_the_stream_adds_up_to(events: list[ReplyEvent]) -> None:
    body = collect_sse(DIALECT, written(events))
    # An upstream of this dialect would not send other dialects' seals.
    assume(b"reasoning_details" not in msgspec.json.encode(body))
    again = written(
        events_of(explode_sse(DIALECT, object_of(fresh(body)))), ClientContext(upstream="openai_chat")
    )
    assert collect_sse(DIALECT, again) == body


@given(events=replies(failing=False, interleaving=False))
@settings(max_examples=60)
def test_what_is_written_survives_the_way_there_and_back(events: list[ReplyEvent]) -> None:
    before, after = fold(events).blocks, fold(events_of(written(events))).blocks
    joined = "".join(block.text for block in before if isinstance(block, Text | Opaque))
    assert "".join(block.text for block in after if isinstance(block, Text)) == joined
    refused = "".join(block.text for block in before if isinstance(block, Refusal))
    # The explanation of a refusal is written in the same field.
    assert "".join(block.text for block in after if isinstance(block, Refusal)).startswith(refused)
    calls = [(block.id, block.name, block.arguments) for block in before if isinstance(block, ToolCall)]
    again = [(block.id, block.name, block.arguments) for block in after if isinstance(block, ToolCall)]
    assert again == [(identity, name, arguments or "{}") for identity, name, arguments in calls]


@given(body=mutated_bodies(REQUESTS))
@settings(max_examples=100)
def test_damaged_requests_are_read_or_refused_in_our_own_words(body: Json) -> None:
    losses = Losses()
    try:
        request = DIALECT.read_request(object_of(fresh(body)), losses)
    except ClientProtocolError:
        return
    for dialect in ("openai_chat", "anthropic"):
        read = msgspec.structs.replace(request, dialect=dialect)
        assert msgspec.json.encode(DIALECT.write_request(read, TargetFacts(dialect="openai_chat"), losses))


@given(data=st.binary(max_size=200), status=st.sampled_from([200, 400, 429, 500, 599]))
@settings(max_examples=60)
def test_any_error_body_is_survived(data: bytes, status: int) -> None:
    failure = DIALECT.read_error(status, {"retry-after": "soon"}, data)
    assert failure.message
    assert msgspec.json.encode(DIALECT.write_error(failure))


def fresh(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))
