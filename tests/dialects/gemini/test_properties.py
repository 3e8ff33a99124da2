"""What holds for every stream, however it is cut or broken, and for every reply."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.dialects.gemini import DIALECT
from dragoman.dialects.interfaces import ClientContext
from dragoman.hub.blocks import Opaque, Text, ToolCall
from dragoman.hub.errors import DragomanError
from dragoman.hub.events import BlockOpened, ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.hub.fold import fold
from dragoman.hub.loss import Losses
from dragoman.hub.stage import Sequencer
from tests.dialects.gemini.replies import FOREIGN, NATIVE, read, recorded, recorded_json, stems, write
from tests.dialects.strategies import DIALECTS, mutated_bodies, mutated_streams, pieces_of, replies
from tests.sse import collect_sse

STREAMS = [recorded(f"stream-{stem}.sse") for stem in stems("stream-", ".sse")]
ARRAY = recorded("stream-text-array.json")


def _body(stem: str) -> dict[str, object]:
    body = recorded_json(f"request-{stem}.json")["body"]
    assert isinstance(body, dict)
    return body


#: Small ones: what matters is the variety.
BODIES = [_body(stem) for stem in ("google-genai-features", "google-genai-tool-loop", "opencode-tool-loop")]


@given(
    st.sampled_from([*STREAMS, ARRAY]).flatmap(lambda stream: st.tuples(st.just(stream), pieces_of(stream)))
)
@settings(max_examples=100)
def test_events_do_not_depend_on_where_the_bytes_are_cut(cut: tuple[bytes, list[bytes]]) -> None:
    stream, pieces = cut
    assert fold(read(pieces)) == fold(read(stream))


@given(mutated_streams([*STREAMS, ARRAY]))
@settings(max_examples=100)
def test_a_broken_stream_gives_grammatical_events_and_a_legal_stream(stream: bytes) -> None:
    for upstream in ("gemini", "openai_chat"):
        written = write(read(stream), ClientContext(upstream=upstream))
        assert DIALECT.check_stream(written) == []
        assert isinstance(collect_sse(DIALECT, written), dict)


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_give_grammatical_events(stream: bytes) -> None:
    read(stream)


def _is_made_up(event: ReplyEvent) -> bool:
    return isinstance(event, BlockOpened) and isinstance(event.block, Opaque)


@given(replies(), st.sampled_from(DIALECTS))
@settings(max_examples=100)
def test_every_reply_can_be_written_legally(events: list[ReplyEvent], upstream: str) -> None:
    # What Gemini alone understands goes to its clients as it came, and a made-up part is not legal.
    assume(upstream != "gemini" or not any(map(_is_made_up, events)))
    stream = write(events, ClientContext(upstream=upstream))
    assert DIALECT.check_stream(stream) == []


@given(replies(failing=False))
@settings(max_examples=100)
def test_texts_and_calls_of_every_reply_arrive_whole_and_in_order(events: list[ReplyEvent]) -> None:
    sequencer = Sequencer()
    sequence = [released for event in events for released in sequencer.feed(event)]
    order = [event.index for event in sequence if isinstance(event, BlockOpened)]
    blocks = fold(events).blocks
    read_back = fold(read(write(events, ClientContext(upstream="openai_chat")))).blocks
    calls = [(b.id, b.name) for b in (blocks[i] for i in order) if isinstance(b, ToolCall)]
    assert [(b.id, b.name) for b in read_back if isinstance(b, ToolCall)] == calls
    joined = "".join(b.text for b in read_back if isinstance(b, Text))
    for block in blocks:
        if isinstance(block, Text):
            assert block.text in joined


@given(replies())
@settings(max_examples=50)
def test_an_ending_is_never_better_reported_than_it_was(events: list[ReplyEvent]) -> None:
    read_back, ending = fold(read(write(events))), events[-1]
    if isinstance(ending, ReplyFailed):
        assert isinstance(read_back.ending, ReplyFailed)
    # An answer without text ends with `OTHER` for a Gemini client, which a reader takes for a failure.
    elif isinstance(ending, ReplyFinished) and any(
        isinstance(block, Text | ToolCall) for block in read_back.blocks
    ):
        has_calls = any(isinstance(block, ToolCall) for block in read_back.blocks)
        has_failed = ending.cause == "malformed_call" and not has_calls
        assert isinstance(read_back.ending, ReplyFailed) == has_failed


@given(mutated_bodies(BODIES))
@settings(max_examples=100)
def test_a_broken_request_is_read_or_refused_and_written_if_read(body: dict[str, object]) -> None:
    losses = Losses()
    try:
        request = DIALECT.read_request(body, losses, model="m", stream=True)
    except DragomanError:
        return
    for target in (NATIVE, FOREIGN):
        assert isinstance(DIALECT.write_request(request, target, losses), dict)
