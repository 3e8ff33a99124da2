"""What holds for any input: hostile, cut anywhere, broken, endless."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import DragomanError, StreamTranslator, translate_request
from dragoman.dialects.registry import DIALECTS
from tests.dialects.strategies import json_values, mutated_bodies, mutated_streams, pieces_of
from tests.pipeline.recordings import DIALECTS as NAMES
from tests.pipeline.recordings import REQUESTS, STREAMS, body_of, stream_of, url_of

names = st.sampled_from(NAMES)
recorded = st.sampled_from(STREAMS)


def through(source: str, target: str, pieces: list[bytes]) -> bytes:
    translator = StreamTranslator(source=source, target=target)
    out = b"".join(translator.feed(piece) for piece in pieces) + translator.close()
    assert translator.ended
    return out


@settings(max_examples=150)
@given(st.data())
def test_whatever_the_upstream_sends_the_client_gets_a_legal_stream(data: st.DataObject) -> None:
    (source, stem), target = data.draw(recorded), data.draw(names)
    hostile = data.draw(mutated_streams([stream_of(source, stem)]))
    violations = DIALECTS[target].check_stream(through(source, target, [hostile]))
    # A vendor may send new fields to its own clients; they are passed on.
    assert [each for each in violations if source != target or "unknown type" not in each.message] == []


@settings(max_examples=60)
@given(st.binary(max_size=400), names, names)
def test_garbage_from_the_upstream_ends_in_the_clients_own_error(
    garbage: bytes, source: str, target: str
) -> None:
    out = through(source, target, [garbage])
    assert DIALECTS[target].check_stream(out) == []
    assert out


@pytest.mark.rule("R59", "H76")
@settings(max_examples=100)
@given(st.data())
def test_where_the_bytes_are_cut_changes_nothing(data: st.DataObject) -> None:
    (source, stem), target = data.draw(recorded), data.draw(names)
    stream = stream_of(source, stem)
    assert through(source, target, data.draw(pieces_of(stream))) == through(source, target, [stream])


@pytest.mark.rule("H73", "R127")
@settings(max_examples=60)
@given(st.data())
def test_a_stream_that_just_stops_is_never_a_success(data: st.DataObject) -> None:
    source, stem = data.draw(st.sampled_from([pair for pair in STREAMS if pair[1] == "stream-text"]))
    target = data.draw(names)
    stream = stream_of(source, stem)
    frames = stream.split(b"\n\n")
    kept = b"\n\n".join(frames[: len(frames) // 2]) + b"\n\n"
    translator = StreamTranslator(source=source, target=target)
    translator.feed(kept)
    translator.close()
    assert translator.failure is not None


@settings(max_examples=150)
@given(st.data())
def test_a_broken_request_raises_nothing_but_our_own_errors(data: st.DataObject) -> None:
    source, stem = data.draw(st.sampled_from(REQUESTS))
    target = data.draw(names)
    body = data.draw(mutated_bodies([body_of(source, stem)]))
    url = url_of(source, stem)
    try:
        translate_request(
            msgspec.json.encode(body), source=source, target=target, model=str(url.get("model", ""))
        )
    except DragomanError as error:
        refusal = error
    else:
        return
    assert 400 <= refusal.status < 500
    assert DIALECTS[source].write_error(refusal.failure)


@settings(max_examples=60)
@given(json_values, names, names)
def test_any_json_at_all_raises_nothing_but_our_own_errors(value: object, source: str, target: str) -> None:
    for body in (value, {"model": "m", "messages": value, "input": value, "contents": value}):
        try:
            translate_request(msgspec.json.encode(body), source=source, target=target, model="m")
        except DragomanError as error:
            refusal = error
        else:
            continue
        assert refusal.status == 400


@pytest.mark.parametrize("depth", [50, 1_000, 100_000])
@pytest.mark.parametrize("source", NAMES)
def test_absurd_depth_is_refused_or_handled(source: str, depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    body = (
        b'{"model":"m","max_tokens":1,"messages":'
        + nested
        + b',"tools":[{"name":"t","input_schema":'
        + nested
        + b"}]}"
    )
    with pytest.raises(DragomanError):
        translate_request(body, source=source, target="openai_chat", model="m")


HISTORIES = [(dialect, stem) for dialect, stem in REQUESTS if "tool-loop" in stem]
LIST = {"anthropic": "messages", "openai_chat": "messages", "openai_responses": "input", "gemini": "contents"}


@pytest.mark.rule("H39", "H59")
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize(("dialect", "stem"), HISTORIES)
def test_a_later_turn_leaves_the_translated_prefix_of_an_earlier_one_alone(
    dialect: str, stem: str, target: str
) -> None:
    body = body_of(dialect, stem)
    messages = body[LIST[dialect]]
    assert isinstance(messages, list)
    boundaries = [
        n
        for n in range(1, len(messages))
        if _begins_reply(messages[n]) and not _begins_reply(messages[n - 1])
    ]
    for end in boundaries:
        earlier = _translated({**body, LIST[dialect]: messages[:end]}, dialect, stem, target)
        later = _translated(body, dialect, stem, target)
        assert later[: len(earlier)] == earlier


def _begins_reply(message: dict[str, object]) -> bool:
    kind = message.get("type")
    return message.get("role") in ("assistant", "model") or kind in (
        "function_call",
        "custom_tool_call",
        "reasoning",
    )


def _translated(body: dict[str, object], dialect: str, stem: str, target: str) -> list[bytes]:
    result = translate_request(
        body, source=dialect, target=target, model=str(url_of(dialect, stem).get("model", ""))
    )
    entries = result.body[LIST[target]]
    assert isinstance(entries, list)
    unmarked = [_without_cache_marks(entry) for entry in entries]
    return [msgspec.json.encode(entry) for entry in unmarked]


def _without_cache_marks(value: object) -> object:
    """Cache marks move with the conversation by their nature; what they mark may not."""
    if isinstance(value, dict):
        return {k: _without_cache_marks(v) for k, v in value.items() if k != "cache_control"}
    return [_without_cache_marks(item) for item in value] if isinstance(value, list) else value


@pytest.mark.rule("P73")
@pytest.mark.parametrize(
    ("target", "per_event"), [("anthropic", 2), ("openai_chat", 2), ("gemini", 2), ("openai_responses", 40)]
)
def test_memory_stays_flat_over_a_hundred_thousand_events(target: str, per_event: int) -> None:
    """A Responses client gets its whole text again at the end; for other clients it is not kept."""
    chunk = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"four"}}]}\n\n'
    translator = StreamTranslator(source="openai_chat", target=target)
    for _ in range(1_000):
        translator.feed(chunk)
    tracemalloc.start()
    try:
        for _ in range(99_000):
            translator.feed(chunk)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 99_000 * per_event
