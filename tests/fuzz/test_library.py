"""Some thousand damaged replies and requests through the library; `python -m tests.fuzz` runs any number.

The checks themselves are tested too: each must find a fault that is put in on purpose.
"""

from collections.abc import Callable

import msgspec
import pytest

from dragoman.dialects.registry import DIALECTS as REGISTERED
from dragoman.pipeline.translate import StreamTranslator
from tests.fuzz import library
from tests.fuzz.corpus import DIALECTS, ClientRequest
from tests.fuzz.library import HangError, Run, build_run, find_faults, load_corpus, minimise
from tests.fuzz.outcomes import has_end, read_outcome

RUNS = 4000
BATCHES = 8

CHAT = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
HALF_CALL = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1",'
    b'"type":"function","function":{"name":"Read","arguments":"{\\"file_path\\": \\"no"}}]},'
    b'"finish_reason":null}]}\n\n'
    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
    b"data: [DONE]\n\n"
)


def chat_run(data: bytes, **changes: object) -> Run:
    run = Run(name="made", kind="stream", source="openai_chat", target="anthropic", data=data)
    return msgspec.structs.replace(run, **changes)


def kinds_of(run: Run) -> set[str]:
    return {fault.kind for fault in find_faults(run)}


@pytest.mark.rule("S11", "S15")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_damaged_input_has_a_fault(batch: int) -> None:
    size = RUNS // BATCHES
    runs = (build_run(1, number) for number in range(batch * size, (batch + 1) * size))
    assert [f"{run.name}: {fault.kind}: {fault.detail}" for run in runs for fault in find_faults(run)] == []


def test_a_number_always_names_the_same_input_and_all_pairs_and_kinds_come() -> None:
    runs = [build_run(7, number) for number in range(400)]
    assert runs[:50] == [build_run(7, number) for number in range(50)]
    assert runs[:50] != [build_run(8, number) for number in range(50)]
    assert len({(run.source, run.target) for run in runs}) == 16
    assert {run.kind for run in runs} == set(library._CHECKS)
    assert {run.governance is None for run in runs} == {True, False}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_generated_stream_is_legal_and_has_an_end(dialect: str) -> None:
    streams = load_corpus().streams[dialect][-20:]
    # Models also send arguments that are no object, and the writer alone does not mend them.
    faults = [fault for stream in streams for fault in REGISTERED[dialect].check_stream(stream)]
    assert [fault for fault in faults if "arguments" not in fault.message] == []
    assert all(has_end(dialect, stream) for stream in streams)
    assert all(read_outcome(dialect, stream).ending in ("finished", "short") for stream in streams)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_without_its_last_events_has_no_end(dialect: str) -> None:
    for stream in load_corpus().streams[dialect][-20:]:
        events = stream.split(b"\n\n")
        ends = [number for number, event in enumerate(events) if has_end(dialect, event + b"\n\n")]
        assert ends
        assert not has_end(dialect, b"\n\n".join(events[: ends[0]]) + b"\n\n")


def with_feed(patch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]) -> None:
    """Change what the library gives to clients."""
    original = StreamTranslator.close
    patch.setattr(StreamTranslator, "close", lambda self: change(original(self)))


def raise_key_error(stream: bytes) -> bytes:
    raise KeyError("no such block")


def loop_forever(stream: bytes) -> bytes:
    while True:
        pass


SUCCESS = (
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn",'
    b'"stop_sequence":null},"usage":{"output_tokens":1}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("exception", raise_key_error),
        ("illegal stream", lambda stream: stream + stream),
        ("false success", lambda stream: SUCCESS),
        ("hang", loop_forever),
    ],
)
def test_a_fault_of_the_library_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, change: Callable[[bytes], bytes]
) -> None:
    run = chat_run(CHAT[:100])
    assert find_faults(run) == []
    with_feed(monkeypatch, change)
    monkeypatch.setattr(library, "PATIENCE", 0.2)
    assert kind in kinds_of(run)


def test_a_half_call_that_is_completed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = chat_run(HALF_CALL, target="openai_chat")
    assert find_faults(run) == []
    original = StreamTranslator.feed
    completed = (rb"{\"file_path\": \"no", rb"{\"file_path\": \"no\"}")
    monkeypatch.setattr(StreamTranslator, "feed", lambda self, data: original(self, data).replace(*completed))
    assert kinds_of(run) == {"wrong call"}


def test_a_request_that_the_target_cannot_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    request = ClientRequest(b'{"model":"m","messages":[{"role":"user","content":"hi"}]}')
    run = Run(
        name="made", kind="request", source="openai_chat", target="gemini", data=request.body, request=request
    )
    assert find_faults(run) == []
    monkeypatch.setattr(REGISTERED["gemini"], "write_request", lambda *_: {"contents": 1})
    assert kinds_of(run) == {"unreadable request"}


def test_a_failing_input_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_on_stop(self: StreamTranslator, data: bytes) -> bytes:
        if b'"stop"' in data:
            raise KeyError("stop")
        return b""

    monkeypatch.setattr(StreamTranslator, "feed", break_on_stop)
    assert minimise(chat_run(CHAT), "exception").data == b'"stop"'


def test_a_hang_is_no_ordinary_error() -> None:
    assert not issubclass(HangError, Exception)
