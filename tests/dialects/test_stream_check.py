"""The stream checkers find damage of any kind in recorded streams, and nothing in the streams themselves."""

from pathlib import Path

import pytest

from dragoman.dialects.registry import DIALECTS

RECORDINGS = Path(__file__).parents[1] / "recordings"
STREAMS = [
    (name, path)
    for name in sorted(DIALECTS)
    for path in sorted((RECORDINGS / name).glob("stream-*.sse"))
    if not DIALECTS[name].check_stream(path.read_bytes())
]


def frames_of(path: Path) -> list[bytes]:
    stream = path.read_bytes().replace(b"\r\n", b"\n")
    return [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame and not frame.startswith(b":")]


def accepted(name: str, damaged: list[list[bytes]]) -> list[int]:
    """The numbers of the damaged streams in which the checker finds nothing."""
    return [n for n, frames in enumerate(damaged) if not DIALECTS[name].check_stream(b"".join(frames))]


@pytest.mark.parametrize(("name", "path"), STREAMS, ids=lambda value: getattr(value, "stem", value))
def test_damaged_recordings_are_refused(name: str, path: Path) -> None:
    frames = frames_of(path)
    assert accepted(name, [frames]) == [0]
    assert accepted(name, [frames + frames]) == []
    assert accepted(name, [frames[:end] for end in range(len(frames))]) == []
    assert accepted(name, [[*frames[:n], b"data: []\n\n", *frames[n:]] for n in range(len(frames))]) == []


def test_enough_streams_are_recorded() -> None:
    assert {name for name, _ in STREAMS} == set(DIALECTS)
    assert len(STREAMS) > 80


@pytest.mark.parametrize(
    "path", [path for name, path in STREAMS if name == "openai_responses"], ids=lambda path: path.stem
)
def test_no_event_of_a_response_can_be_left_out(path: Path) -> None:
    frames = [frame for frame in frames_of(path) if b"[DONE]" not in frame]
    assert accepted("openai_responses", [frames[:n] + frames[n + 1 :] for n in range(len(frames))]) == []


@pytest.mark.parametrize(
    "path", [path for name, path in STREAMS if name == "anthropic"], ids=lambda path: path.stem
)
def test_no_event_of_a_message_but_a_delta_or_a_ping_can_be_left_out(path: Path) -> None:
    frames = frames_of(path)
    optional = (b"event: content_block_delta", b"event: ping")
    needed = [n for n, frame in enumerate(frames) if not frame.startswith(optional)]
    assert accepted("anthropic", [frames[:n] + frames[n + 1 :] for n in needed]) == []
