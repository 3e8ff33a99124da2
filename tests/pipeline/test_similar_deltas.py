"""Deltas that look like one before are not decoded. Output and findings are those of the ordinary way."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import Governance, StreamTranslator
from dragoman.dialects.delta_template import DeltaTemplate
from dragoman.dialects.frames import FrameReader
from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.hub.builder import ReplyBuilder
from dragoman.pipeline.express import ExpressPath
from dragoman.wire.sse import Frame
from tests.pipeline.asking import DIALECTS, asking
from tests.pipeline.delta_streams import WRITERS, Reply

GOVERNANCE = (Governance(), Governance(tools="hold", harvest="auto", rename=True))

TEXTS = st.lists(
    st.sampled_from(["a", "one ", "é", "\u2028", "\n", '"', "\\", "\x00", "</b>", ""]), max_size=9
)
ARGUMENTS = st.just(['{"path"', ':"', "a", "b c", '"}']) | TEXTS
REPLIES = st.tuples(TEXTS, TEXTS, st.lists(ARGUMENTS, max_size=2))
#: What a faulty or hostile server puts into an event, at any place.
FRAGMENTS = [
    *(
        b'"',
        b"\\",
        b",",
        b"{",
        b"}",
        b"]",
        b"\n",
        b"\n\n",
        b"\r\n",
        b" ",
        b"0",
        b"07",
        b"-1",
        b"1.5",
        b"\x00",
    ),
    *(
        b"\xff",
        b"\\ud800",
        b"\\u0041",
        b"\\/",
        b"null",
        b"1,",
        b'"x":1,',
        b'"text":"two",',
        b'"delta":"two",',
    ),
    *(b'"sequence_number":01,', b'"obfuscation":"\\n",', b'"index":5,', b"data: ", b"event: x\n", b": x\n"),
    *(b'"usageMetadata":{"cachedContentTokenCount":2},', b'"error":{"message":"no"},', b'"thought":true,'),
    b'"type":[[]],',
]
CHANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 300), st.integers(0, 4), st.sampled_from(FRAGMENTS)),
    max_size=3,
)


@contextmanager
def never_learned() -> Iterator[None]:
    """Every delta is decoded."""
    with patch.object(DeltaTemplate, "learn", lambda self, frame, payload, change: None):
        yield


def change_events(events: list[bytes], changes: list[tuple[int, int, int, bytes]]) -> list[bytes]:
    """The events with bytes removed and others put in their place."""
    changed = list(events)
    for number, at, removed, fragment in changes:
        if number < len(changed):
            event = changed[number]
            changed[number] = event[:at] + fragment + event[at + removed :]
    return changed


def translate(source: str, client: str, governance: Governance, reads: list[bytes]) -> tuple[object, ...]:
    request = asking(client, tools=["Read"])
    translator = StreamTranslator(
        source=source, target=client, request=request, model="m", governance=governance
    )
    output = [translator.feed(read) for read in reads]
    return output, translator.close(), translator.losses, translator.failure, translator.interventions


def cut(whole: bytes, cuts: set[int]) -> list[bytes]:
    edges = [0, *sorted(at for at in cuts if at < len(whole)), len(whole)]
    return [whole[start:end] for start, end in pairwise(edges)]


def join(result: tuple[object, ...]) -> tuple[object, ...]:
    output, *rest = result
    assert isinstance(output, list)
    return b"".join(output), *rest


@pytest.mark.parametrize("upstream", WRITERS)
@settings(max_examples=120)
@given(
    reply=REPLIES,
    changes=CHANGES,
    client=st.sampled_from(DIALECTS),
    governance=st.sampled_from(GOVERNANCE),
    cuts=st.sets(st.integers(1, 9000), max_size=6) | st.none(),
)
def test_a_delta_that_is_not_decoded_gives_what_a_decoded_one_gives(
    upstream: str,
    reply: Reply,
    changes: list[tuple[int, int, int, bytes]],
    client: str,
    governance: Governance,
    cuts: set[int] | None,
) -> None:
    source, write = WRITERS[upstream]
    events = change_events(write(reply), changes)
    reads = events if cuts is None else cut(b"".join(events), cuts)
    with never_learned():
        expected = translate(source, client, governance, reads)
    assert translate(source, client, governance, reads) == expected


OTHER_VALUES: tuple[object, ...] = (None, 5, "x", [[]], {"text": "x"})


def list_changed(value: object) -> Iterator[object]:
    """The JSON value with one member or element replaced, removed or added, in every place."""
    yield from OTHER_VALUES
    if isinstance(value, dict):
        yield {**value, "more": 1}
        for name, inner in value.items():
            yield {key: kept for key, kept in value.items() if key != name}
            yield from ({**value, name: changed} for changed in list_changed(inner))
    elif isinstance(value, list):
        yield [*value, 1]
        for at, inner in enumerate(value):
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in list_changed(inner))


#: An upstream and the second delta of a kind. Gemini sends calls whole.
SECOND_DELTAS = [
    (upstream, field)
    for upstream in WRITERS
    for field in (b"thoughtone", b"textone", b"argumentone")
    if (upstream, field) != ("gemini", b"argumentone")
]


@pytest.mark.parametrize(("upstream", "field"), SECOND_DELTAS)
@pytest.mark.parametrize("is_joined", [False, True])
def test_a_delta_with_a_member_of_another_type_gives_what_it_gave(
    upstream: str, is_joined: bool, field: bytes
) -> None:
    source, write = WRITERS[upstream]
    pieces = ["{}", "one", "two", "three", "four"]
    reply = (
        [f"thought{p}" for p in pieces],
        [f"text{p}" for p in pieces],
        [[f"argument{p}" for p in pieces]],
    )
    events = write(reply)
    found = next(number for number, event in enumerate(events) if field in event)
    head, _, data = events[found].partition(b"data: ")
    for changed in list_changed(msgspec.json.decode(data)):
        for place in (found, found + 1):
            event = head + b"data: " + msgspec.json.encode(changed) + b"\n\n"
            sent = [*events[:place], event, *events[place:]]
            reads = [b"".join(sent)] if is_joined else sent
            with never_learned():
                expected = translate(source, "openai_responses", Governance(), reads)
            assert translate(source, "openai_responses", Governance(), reads) == expected


@pytest.mark.parametrize("upstream", WRITERS)
@pytest.mark.parametrize("is_joined", [False, True])
@pytest.mark.parametrize(
    "fragment",
    [b"", b'"', b"\\", b"0", b"x", b"\n", b"\r", b",", b"}", b" ", b"\xff", b"\x00", b"1.", b"5,6"],
)
def test_a_delta_with_a_wrong_byte_gives_what_it_gave(
    upstream: str, is_joined: bool, fragment: bytes
) -> None:
    source, write = WRITERS[upstream]
    events = write(([], [f"text {number}" for number in range(8)], []))
    found = next(number for number, event in enumerate(events) if b"text 5" in event)
    event = events[found]
    # An empty fragment: the byte is missing.
    for at in range(len(event)):
        wrong = event[:at] + fragment + event[at + (not fragment) :]
        sent = [*events[:found], wrong, *events[found + 1 :]]
        reads = [b"".join(sent)] if is_joined else sent
        with never_learned():
            expected = read(source, reads)
        assert read(source, reads) == expected


def read(source: str, reads: list[bytes]) -> tuple[object, ...]:
    context = UpstreamContext(issuer=source)
    reader = dialect_named(source).stream_reader(context)
    events = [reader.feed(data) for data in reads]
    return events, reader.close(), context.losses.as_tuple()


@pytest.mark.rule("R59", "H76")
@pytest.mark.parametrize("upstream", WRITERS)
@settings(max_examples=40)
@given(reply=REPLIES, client=st.sampled_from(DIALECTS), cuts=st.sets(st.integers(1, 9000), max_size=6))
@example(reply=(["a"] * 9, ["b"] * 99, [["c"] * 99]), client="anthropic", cuts={1000, 2000, 9000})
def test_where_a_reply_is_cut_changes_nothing(
    upstream: str, reply: Reply, client: str, cuts: set[int]
) -> None:
    source, write = WRITERS[upstream]
    events = write(reply)
    alone = join(translate(source, client, Governance(), events))
    whole = b"".join(events)
    assert join(translate(source, client, Governance(), [whole])) == alone
    assert join(translate(source, client, Governance(), cut(whole, cuts))) == alone


@pytest.mark.parametrize("upstream", WRITERS)
@pytest.mark.parametrize("is_joined", [False, True])
def test_nearly_all_deltas_of_a_reply_are_not_decoded(
    upstream: str, is_joined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, write = WRITERS[upstream]
    pieces = ["one ", "two ", "é", '"\n'] * 30
    events = write((pieces, pieces, [pieces]))
    read: list[Frame] = []
    ordinary = FrameReader._read_frame

    def read_and_note(reader: FrameReader, frame: Frame) -> None:
        read.append(frame)
        ordinary(reader, frame)

    monkeypatch.setattr(FrameReader, "_read_frame", read_and_note)
    reader = StreamTranslator(source=source, target="anthropic" if source != "anthropic" else "gemini")
    for piece in [b"".join(events)] if is_joined else events:
        reader.feed(piece)
    reader.close()
    assert len(events) > 240
    assert len(read) < 30


@pytest.mark.parametrize("upstream", WRITERS)
@given(reply=REPLIES, is_joined=st.booleans(), limit=st.integers(0, 60))
def test_the_size_of_a_reply_is_limited_in_the_same_place(
    upstream: str, reply: Reply, is_joined: bool, limit: int
) -> None:
    source, write = WRITERS[upstream]
    events = write(reply)
    reads = [b"".join(events)] if is_joined else events
    # The express path reports the excess with the first delta that takes the ordinary way.
    with patch.object(ReplyBuilder, "MAX_CHARACTERS", limit), patch.object(ExpressPath, "learn"):
        with never_learned():
            expected = translate(source, "openai_chat", Governance(), reads)
        assert translate(source, "openai_chat", Governance(), reads) == expected
