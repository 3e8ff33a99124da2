"""Which events of a forwarded stream need not be read: a run of deltas never hides an ending."""

import pytest

from dragoman.dialects.openai_chat.forwarding import FORWARDING

DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
TWO_OPEN = b'data: {"choices":[{"index":0,"finish_reason":null},{"index":1,"finish_reason":null}]}\n\n'
ENDING = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("run", [DELTA, DELTA * 3, DELTA.replace(b"\n", b"\r\n") * 2])
def test_deltas_are_a_run(run: bytes) -> None:
    assert FORWARDING.is_delta_run(run)


@pytest.mark.parametrize(
    "other",
    [
        ENDING,
        TWO_OPEN + ENDING,
        b"data: [DONE]\n\n",
        TWO_OPEN + b"data: [DONE]\n\n",
        b'data: {"error":{"message":"x"}}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
    ],
)
def test_other_events_end_a_run(other: bytes) -> None:
    assert not FORWARDING.is_delta_run(other)
    assert not FORWARDING.is_delta_run(DELTA + other)
    assert not FORWARDING.is_delta_run(other + DELTA)
