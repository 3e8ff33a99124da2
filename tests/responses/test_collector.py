"""The storing client: a response is stored before its last event leaves."""

import msgspec
import pytest

from dragoman.exchange.client import DirectConnection
from dragoman.responses.collector import ResponseCollector, StoringClient
from dragoman.responses.compaction import CompactionCollector
from dragoman.responses.members import Members, ResponseFacts
from dragoman.wire.sse import Frame, Output, RawEvents, encode_sse
from tests.exchange.fakes import RememberingClient
from tests.responses.looped import looped

FACTS = ResponseFacts(id="resp_ours", previous="resp_before")
STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json", "content-length": "2"}
DONE = Frame("", b"[DONE]")


def event(kind: str, **fields: object) -> Frame:
    return Frame(kind, msgspec.json.encode({"type": kind, **fields}))


def lifecycle(kind: str, **fields: object) -> Frame:
    return event(f"response.{kind}", response={"id": "resp_ours", "store": True, "output": [], **fields})


DELTA = event("response.output_text.delta", delta='they say \\"response\\": {}')
ITEM = {"type": "message", "id": "msg_1", "content": []}


def responses_in(stream: bytes) -> list[dict[str, object]]:
    payloads = [frame.partition(b"data: ")[2] for frame in stream.split(b"\n\n") if frame]
    return [
        found["response"]
        for found in map(msgspec.json.decode, (data for data in payloads if data[:1] == b"{"))
        if "response" in found
    ]


async def drained() -> None:
    """At once."""


SLOW = DirectConnection(encode_sse, lambda data: False, drained)


class Storage:
    """Remembers what it was given, and what the client had seen by then."""

    def __init__(self, client: RememberingClient, *, stores: bool = True) -> None:
        self._client = client
        self._stores = stores
        self.stored: list[Members] = []
        self.seen = b""

    async def __call__(self, response: Members) -> bool:
        self.stored.append(response)
        self.seen = self._client.body
        return self._stores


@pytest.mark.rule("P67")
@pytest.mark.parametrize("forwarded", [True, False])
@pytest.mark.parametrize("trails", [True, False])
@looped
async def test_a_stream_is_stored_before_its_last_event_leaves(trails: bool, forwarded: bool) -> None:
    def output(*frames: Frame) -> Output:
        return RawEvents(encode_sse(frames)) if forwarded else frames

    inner = RememberingClient()
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.start(200, STREAM)
    await client.send(output(lifecycle("created"), DELTA))
    last = output(lifecycle("completed", status="completed"), DONE)
    if trails:
        await client.send(last)
        await client.end()
    else:
        await client.end(last)
    assert b"response.created" in storage.seen
    assert b"response.completed" not in storage.seen
    assert len(storage.stored) == 1
    assert inner.is_ended
    assert inner.body.endswith(b"data: [DONE]\n\n")


@looped
async def test_forwarded_events_that_do_not_matter_pass_as_they_are() -> None:
    inner = RememberingClient()
    client = StoringClient(inner, ResponseCollector(FACTS), Storage(inner))
    await client.start(200, STREAM)
    strange = b"event: response.output_text.delta\r\ndata: {\r\n\r\n"
    for data in (encode_sse([DELTA]), strange):
        await client.send(RawEvents(data))
    assert inner.body == encode_sse([DELTA]) + strange


@looped
async def test_items_that_the_last_event_leaves_out_are_stored_all_the_same() -> None:
    inner = RememberingClient()
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.start(200, STREAM)
    await client.send([event("response.output_item.done", output_index=0, item=ITEM)])
    await client.end([lifecycle("completed", status="completed")])
    assert msgspec.json.decode(storage.stored[0]["output"]) == [ITEM]
    assert responses_in(inner.body)[-1]["output"] == [ITEM]


@looped
async def test_items_that_took_the_direct_connection_are_stored_too() -> None:
    inner = RememberingClient()
    inner.direct = SLOW
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.start(200, STREAM)
    assert client.direct is not None
    output = [event("response.output_item.done", output_index=0, item=ITEM)]
    assert client.direct.encode(output) == encode_sse(output)
    await client.end([lifecycle("completed", status="completed")])
    assert msgspec.json.decode(storage.stored[0]["output"]) == [ITEM]


@looped
async def test_a_last_event_without_required_members_gets_them() -> None:
    inner = RememberingClient()
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.start(200, STREAM)
    await client.end([event("response.completed", response={"output": None})])
    assert bytes(storage.stored[0]["output"]) == b"[]"
    assert bytes(storage.stored[0]["status"]) == b'"completed"'


@pytest.mark.parametrize("collector", [ResponseCollector, CompactionCollector])
@looped
async def test_a_response_that_could_not_be_stored_has_store_false(
    collector: type[ResponseCollector],
) -> None:
    inner = RememberingClient()
    client = StoringClient(inner, collector(FACTS), Storage(inner, stores=False))
    await client.start(200, STREAM)
    items = [{"type": "message", "content": [{"type": "output_text", "text": "in short"}]}]
    await client.end([lifecycle("completed", status="completed", output=items)])
    (response,) = responses_in(inner.body)
    assert (response["id"], response["status"], response["store"]) == ("resp_ours", "completed", False)


@looped
async def test_a_whole_response_is_stored_and_its_length_is_computed_anew() -> None:
    inner = RememberingClient()
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.respond(200, JSON, b"{}")
    assert inner.json()["status"] == "completed"
    assert inner.headers["content-length"] == str(len(inner.body))
    assert storage.seen == b""
    assert len(storage.stored) == 1


@looped
async def test_an_error_passes_and_nothing_is_stored() -> None:
    inner = RememberingClient()
    storage = Storage(inner)
    client = StoringClient(inner, ResponseCollector(FACTS), storage)
    await client.respond(400, JSON, b'{"error": {}}')
    assert (inner.status, inner.body, storage.stored) == (400, b'{"error": {}}', [])


@looped
async def test_the_text_of_a_summary_is_not_sent() -> None:
    inner = RememberingClient()
    inner.direct = SLOW
    client = StoringClient(inner, CompactionCollector(FACTS), Storage(inner))
    assert client.direct is None
    await client.start(200, STREAM)
    await client.send([DELTA])
    assert inner.writes == []
