"""Events around one text, cut out of bytes with many events."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.event_template import MOST_BYTES, EventTemplate, are_texts, read_texts

RAWS = st.lists(
    st.sampled_from(
        [
            b"",
            b"a",
            b'\\"',
            b"\\",
            b'"',
            b",",
            b"\\u12",
            b"\\u1234",
            b"\xc3\xa9",
            b"\xc3",
            b"\x01",
            b"},",
            b"\n\n",
        ]
    ),
    max_size=9,
)
TEMPLATES = [EventTemplate(b'{"a":"', b'"}'), EventTemplate(b'{"a":"', b'"}', "delta")]


@given(raws=RAWS)
def test_texts_are_judged_together_as_each_alone(raws: list[bytes]) -> None:
    each = all(read_texts([raw]) is not None for raw in raws if b"\n" not in raw)
    assert are_texts([raw for raw in raws if b"\n" not in raw]) == each


@given(
    template=st.sampled_from(TEMPLATES),
    before=st.sampled_from([b"", b"data: {}\n\n"]),
    runs=st.lists(
        st.tuples(
            st.integers(0, 12),
            st.sampled_from([b"data: {}\n\n", b"event: x\ndata: {}\n\n", b": ping\n\n", b"data: {", b"\n"]),
        ),
        max_size=3,
    ),
)
def test_the_events_up_to_the_first_that_does_not_fit_are_cut(
    template: EventTemplate, before: bytes, runs: list[tuple[int, bytes]]
) -> None:
    events = [template.start + b"%d" % number + template.end for number in range(12)]
    data = before + b"".join(b"".join(events[:count]) + other for count, other in runs)
    size, raws = template.cut_events(data, len(before))
    assert data.startswith(template.join_events(raws), len(before))
    assert size == len(template.join_events(raws))
    fitting = 0
    while data.startswith(b"".join(events[: fitting + 1]), len(before)) and fitting < 12:
        fitting += 1
    assert len(raws) >= fitting


def test_a_long_run_is_cut_in_parts_of_bounded_size() -> None:
    # Otherwise each of many short runs in one read would cut all that follows it.
    template = EventTemplate(b'{"a":"', b'"}')
    event = b'data: {"a":"x"}\n\n'
    data = event * 20_000
    at, sizes = 0, []
    while at < len(data):
        size, raws = template.cut_events(data, at)
        assert size == len(raws) * len(event) > 0
        sizes.append(size)
        at += size
    assert at == len(data)
    assert max(sizes) <= MOST_BYTES + len(event)
