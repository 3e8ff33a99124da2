"""Governance in the gateway: the same good calls for every client, from every upstream, streamed or whole."""

import pytest

from dragoman.hub.events import StopCause
from tests.exchange.governing import Block, events_of, hear, script
from tests.exchange.speech import DIALECTS

MENDING: dict[str, object] = {"tools": "hold", "harvest": "hermes", "rename": True, "dedupe": True}
TEXT_CALL = '<tool_call>\n{"name": "Read", "arguments": {"path": "a"}}\n</tool_call>'

#: What a bad model says, how it ends, and what its client should hear: a text and the arguments of its calls.
CASES: dict[str, tuple[tuple[Block, ...], StopCause, str, list[object]]] = {
    "a call in text": ((f"I will look.\n{TEXT_CALL}",), "end", "I will look.", [{"path": "a"}]),
    "two calls in text": (
        (TEXT_CALL + TEXT_CALL.replace('"a"', '"b"'),),
        "end",
        "",
        [{"path": "a"}, {"path": "b"}],
    ),
    "single quotes": ((("Read", "{'path': 'a',}"),), "tool_calls", "", [{"path": "a"}]),
    "beyond repair": ((("Read", "read it ]["),), "tool_calls", "", [{"text": "read it ]["}]),
    "a name in the wrong case": ((("rEAD", '{"path":"a"}'),), "tool_calls", "", [{"path": "a"}]),
    "a doubled call": ((("Read", '{"path":"a"}'),) * 2, "tool_calls", "", [{"path": "a"}]),
    "a good call": (("Yes.", ("Read", '{"path":"a"}')), "tool_calls", "Yes.", [{"path": "a"}]),
    "a good answer": (("Just words, <b>bold</b> ones.",), "end", "Just words, <b>bold</b> ones.", []),
}
#: Where arguments are objects on the wire, no model can get them wrong.
BROKEN = ("single quotes", "beyond repair")
WAYS = [
    (name, upstream, stream)
    for name in CASES
    for upstream in DIALECTS
    for stream in (True, False)
    if name not in BROKEN or upstream.startswith("openai") or (upstream == "anthropic" and stream)
]


@pytest.mark.rule("R72", "R73", "R74", "R80", "R81", "R90", "H12", "H36", "C15")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize(("name", "upstream", "stream"), WAYS)
def test_every_client_hears_the_same_good_calls(name: str, upstream: str, client: str, stream: bool) -> None:
    blocks, cause, text, arguments = CASES[name]
    events = events_of(*blocks, cause=cause, pieces=3)
    heard = hear(
        MENDING, script(upstream, events, stream=stream), client=client, upstream=upstream, stream=stream
    )
    assert heard.essence.text == text
    assert heard.essence.calls == tuple(("Read", each) for each in arguments)
    assert heard.told.record.ending == "finished"
