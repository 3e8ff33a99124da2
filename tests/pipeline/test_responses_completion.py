"""What later events of a Responses stream hold completes what was streamed, and repeats nothing of it."""

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dragoman import StreamTranslator, translate_reply
from dragoman.dialects.registry import dialect_named
from dragoman.hub.ids import IdSource
from tests.pipeline.recordings import DIALECTS
from tests.sse import collect_sse

Json = dict[str, object]

LS = '{"path": "/srv/über", "all": true}'
PATCH = "*** Begin Patch\n+größer\n*** End Patch"

#: The finished items of one response.
ITEMS: list[Json] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Second."}],
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I list the files.", "annotations": [], "logprobs": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "ls",
        "arguments": LS,
        "status": "completed",
    },
    {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_2",
        "name": "apply_patch",
        "input": PATCH,
        "status": "completed",
    },
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "call_3",
        "name": "pwd",
        "arguments": "{}",
        "status": "completed",
    },
]
REQUEST: dict[str, Json] = {
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "openai_responses": {"model": "m", "input": "Hi"},
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    },
}


def response(status: str, output: list[Json]) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": status,
        "output": output,
    }


def frames(*payloads: Json) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(payload["type"]).encode(), msgspec.json.encode(payload))
        for payload in payloads
    )


#: For each kind of item: the prefix of its delta and done events, and the member of `done` with the text.
EVENTS = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
    "message": ("response.output_text", "text"),
    "reasoning": ("response.reasoning_summary_text", "text"),
}


def texts_of(item: Json) -> list[str]:
    """The texts of an item that are streamed in deltas."""
    if item["type"] in ("function_call", "custom_tool_call"):
        return [str(item[EVENTS[str(item["type"])][1]])]
    parts = item.get("content") or item.get("summary")
    assert isinstance(parts, list)
    return [part["text"] for part in parts]


def place(item: Json, index: int, part: int) -> Json:
    """What names the text in an event."""
    return {"item_id": item["id"], "output_index": index, "content_index": part, "summary_index": part}


def added(item: Json, index: int) -> Json:
    empty: Json = {name: "" for name in ("arguments", "input") if name in item}
    empty |= {name: [] for name in ("content", "summary") if name in item}
    begun = {**item, **empty, "status": "in_progress"} if "status" in item else {**item, **empty}
    return {"type": "response.output_item.added", "output_index": index, "item": begun}


def delta(item: Json, index: int, part: int, text: str) -> Json:
    return {"type": EVENTS[str(item["type"])][0] + ".delta", **place(item, index, part), "delta": text}


def text_done(item: Json, index: int, part: int, text: str) -> Json:
    prefix, member = EVENTS[str(item["type"])]
    return {"type": prefix + ".done", **place(item, index, part), member: text}


def item_done(item: Json, index: int) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def read_both(stream: bytes, client: str) -> tuple[object, object]:
    """The stream as the client accumulates it, and the whole response that it gets otherwise."""
    translator = StreamTranslator(
        source="openai_responses", target=client, request=REQUEST[client], ids=IdSource("seed"), model="m"
    )
    written = translator.feed(stream) + translator.close()
    assert dialect_named(client).check_stream(written) == []
    whole = translate_reply(
        response("completed", ITEMS),
        source="openai_responses",
        target=client,
        request=REQUEST[client],
        ids=IdSource("seed"),
        model="m",
    )
    return collect_sse(dialect_named(client), written), whole.body


CREATED: Json = {"type": "response.created", "response": response("in_progress", [])}
COMPLETED: Json = {"type": "response.completed", "response": response("completed", ITEMS)}


@pytest.mark.rule("F2")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("last", ["text done", "item done", "completed"])
@given(data=st.data())
@settings(max_examples=10, deadline=None, phases=[Phase.generate])
def test_the_rest_of_every_text_comes_with_a_later_event(last: str, client: str, data: st.DataObject) -> None:
    events = [CREATED]
    for index, item in enumerate(ITEMS):
        events.append(added(item, index))
        for part, text in enumerate(texts_of(item)):
            # A block without any delta opens with its finished item, so the order of blocks would differ.
            cuts = sorted(data.draw(st.lists(st.integers(1, len(text)), min_size=1, max_size=3)))
            # Nothing can be added to a part of reasoning that another part follows.
            cuts += [len(text)] if part + 1 < len(texts_of(item)) else []
            pieces = [text[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]
            events += [delta(item, index, part, piece) for piece in pieces]
            if last == "text done":
                events.append(text_done(item, index, part, text))
        if last != "completed":
            events.append(item_done(item, index))
    streamed, whole = read_both(frames(*events, COMPLETED), client)
    assert streamed == whole


@pytest.mark.rule("F2")
@pytest.mark.parametrize("client", DIALECTS)
def test_a_call_without_deltas_or_without_a_name_comes_with_the_response(client: str) -> None:
    half, none, nameless = ITEMS[2], ITEMS[3], ITEMS[4]
    unnamed = {name: value for name, value in nameless.items() if name != "name"}
    events = [CREATED]
    for index, item in enumerate(ITEMS[:2]):
        events += [added(item, index), item_done(item, index)]
    events += [added(half, 2), delta(half, 2, 0, LS[:9]), added(none, 3)]
    events += [delta(nameless, 4, 0, "{"), item_done(unnamed, 4)]
    streamed, whole = read_both(frames(*events, COMPLETED), client)
    assert streamed == whole


@pytest.mark.rule("F3")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("by_text", [True, False])
def test_calls_of_two_kinds_may_alternate_and_end_in_their_done_events(client: str, by_text: bool) -> None:
    events = [CREATED]
    for index, item in enumerate(ITEMS[:2]):
        events += [added(item, index), item_done(item, index)]
    events += [added(ITEMS[2], 2), added(ITEMS[3], 3)]
    for start in range(0, 12, 3):
        events += [
            delta(ITEMS[2], 2, 0, LS[start : start + 3]),
            delta(ITEMS[3], 3, 0, PATCH[start : start + 3]),
        ]
    for index in (3, 2):
        if by_text:
            events.append(text_done(ITEMS[index], index, 0, texts_of(ITEMS[index])[0]))
        events.append(item_done(ITEMS[index], index))
    events += [added(ITEMS[4], 4), item_done(ITEMS[4], 4)]
    streamed, whole = read_both(frames(*events, COMPLETED), client)
    assert streamed == whole


def read_contradiction(client: str, item: Json, text: str) -> StreamTranslator:
    """A stream in which an item has another text than its deltas."""
    events = [CREATED, added(item, 0), delta(item, 0, 0, text), item_done(item, 0)]
    ended: Json = {"type": "response.completed", "response": response("completed", [item])}
    translator = StreamTranslator(
        source="openai_responses", target=client, request=REQUEST[client], model="m"
    )
    written = translator.feed(frames(*events, ended)) + translator.close()
    assert dialect_named(client).check_stream(written) == []
    return translator


@pytest.mark.rule("F2")
@pytest.mark.parametrize("client", DIALECTS)
def test_a_finished_text_that_contradicts_what_was_streamed_is_a_loss(client: str) -> None:
    translator = read_contradiction(client, ITEMS[1], "I delete the files.")
    assert translator.failure is None
    assert [loss.reason for loss in translator.losses if "streamed" in loss.reason]


@pytest.mark.rule("F2", "G1")
@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize(
    ("item", "text"),
    [
        (ITEMS[2], '{"path": "/etc"}'),
        (ITEMS[2], '{"path": "/etc'),
        (ITEMS[2], "\u2028"),
        (ITEMS[3], "*** End"),
    ],
)
def test_a_call_whose_finished_arguments_contradict_the_streamed_ones_fails(
    client: str, item: Json, text: str
) -> None:
    failure = read_contradiction(client, item, text).failure
    assert failure is not None
    assert "the finished arguments of a call differ" in failure.message


@pytest.mark.rule("F2")
@pytest.mark.parametrize("client", DIALECTS)
def test_finished_arguments_in_another_form_are_the_streamed_ones(client: str) -> None:
    same = msgspec.json.encode(msgspec.json.decode(LS)).decode()
    assert same != LS
    assert read_contradiction(client, ITEMS[2], same).failure is None
