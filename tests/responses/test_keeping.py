"""Between the exchange and the client: the response is labelled on its way, and kept before its end."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.compaction import Compacting
from dragoman.responses.keeping import KeepingClient, KeepingLine
from dragoman.responses.labels import Label, Labelling
from dragoman.responses.stored import Members
from dragoman.wire.sse import write_frame
from tests.exchange.twin import RememberingClient
from tests.responses.looped import looped

LABEL = Label(id="resp_ours", previous="resp_before")
STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json", "content-length": "2"}


def event(kind: str, **fields: object) -> bytes:
    return write_frame(msgspec.json.encode({"type": kind, **fields}), kind)


def lifecycle(kind: str, **fields: object) -> bytes:
    return event(f"response.{kind}", response={"id": "resp_theirs", "store": False, "output": [], **fields})


DELTA = event("response.output_text.delta", delta='they say \\"response\\": {}')
ITEM = {"type": "message", "id": "msg_1", "content": []}


def responses_in(stream: bytes) -> list[dict[str, object]]:
    payloads = [frame.partition(b"data: ")[2] for frame in stream.split(b"\n\n") if frame]
    return [
        found["response"]
        for found in map(msgspec.json.decode, (data for data in payloads if data[:1] == b"{"))
        if "response" in found
    ]


class SlowLine:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> bool:
        self.written.append(data)
        return False

    async def drained(self) -> None:
        """At once."""


class Keeper:
    """Remembers what it was given, and what the client had seen by then."""

    def __init__(self, client: RememberingClient, *, keeps: bool = True) -> None:
        self._client = client
        self._keeps = keeps
        self.kept: list[Members] = []
        self.seen = b""

    async def __call__(self, response: Members) -> bool:
        self.kept.append(response)
        self.seen = self._client.body
        return self._keeps


@pytest.mark.rule("P67")
@pytest.mark.parametrize("trails", [True, False])
@looped
async def test_a_stream_is_kept_before_its_last_event_leaves(trails: bool) -> None:
    inner = RememberingClient()
    keeper = Keeper(inner)
    client = KeepingClient(inner, Labelling(LABEL), keeper)
    await client.head(200, STREAM)
    await client.send(lifecycle("created") + DELTA)
    last = lifecycle("completed", status="completed") + b"data: [DONE]\n\n"
    if trails:
        await client.send(last)
        await client.end()
    else:
        await client.end(last)
    assert b"response.created" in keeper.seen
    assert b"response.completed" not in keeper.seen
    assert len(keeper.kept) == 1
    assert inner.is_ended
    assert inner.body.endswith(b"data: [DONE]\n\n")
    assert [
        (each["id"], each["previous_response_id"], each["store"]) for each in responses_in(inner.body)
    ] == [("resp_ours", "resp_before", True)] * 2


@looped
async def test_events_that_carry_no_response_pass_as_they_are() -> None:
    inner = RememberingClient()
    client = KeepingClient(inner, Labelling(LABEL), Keeper(inner))
    await client.head(200, STREAM)
    strange = b"event: response.output_text.delta\r\ndata: {\r\n\r\n"
    for data in (DELTA, strange, b": keep-alive\n\n"):
        await client.send(data)
    assert inner.body == DELTA + strange + b": keep-alive\n\n"


@looped
async def test_items_that_the_last_event_leaves_out_are_kept_all_the_same() -> None:
    inner = RememberingClient()
    keeper = Keeper(inner)
    client = KeepingClient(inner, Labelling(LABEL), keeper)
    await client.head(200, STREAM)
    await client.send(event("response.output_item.done", output_index=0, item=ITEM))
    await client.end(lifecycle("completed", status="completed"))
    assert msgspec.json.decode(keeper.kept[0]["output"]) == [ITEM]
    assert responses_in(inner.body)[-1]["output"] == [ITEM]


@looped
async def test_a_last_event_that_lacks_everything_is_made_sound() -> None:
    inner = RememberingClient()
    keeper = Keeper(inner)
    client = KeepingClient(inner, Labelling(LABEL), keeper)
    await client.head(200, STREAM)
    await client.end(event("response.completed", response={"output": None}))
    assert bytes(keeper.kept[0]["output"]) == b"[]"
    assert bytes(keeper.kept[0]["status"]) == b'"completed"'


@looped
async def test_a_response_that_could_not_be_kept_says_so() -> None:
    inner = RememberingClient()
    client = KeepingClient(inner, Labelling(LABEL), Keeper(inner, keeps=False))
    await client.head(200, STREAM)
    await client.end(lifecycle("completed", status="completed"))
    (response,) = responses_in(inner.body)
    assert (response["id"], response["store"]) == ("resp_ours", False)


@looped
async def test_a_summary_that_could_not_be_kept_is_told_and_says_so() -> None:
    inner = RememberingClient()
    client = KeepingClient(inner, Compacting(LABEL), Keeper(inner, keeps=False))
    await client.head(200, STREAM)
    said = [{"type": "message", "content": [{"type": "output_text", "text": "in short"}]}]
    await client.end(lifecycle("completed", status="completed", output=said))
    (response,) = responses_in(inner.body)
    assert (response["status"], response["store"]) == ("completed", False)


@looped
async def test_a_whole_response_is_labelled_and_its_length_told_anew() -> None:
    inner = RememberingClient()
    keeper = Keeper(inner)
    client = KeepingClient(inner, Labelling(LABEL), keeper)
    await client.head(200, JSON)
    await client.end(b"{}")
    assert inner.json()["id"] == "resp_ours"
    assert inner.headers["content-length"] == str(len(inner.body))
    assert keeper.seen == b""


@looped
async def test_an_error_passes_and_nothing_is_kept() -> None:
    inner = RememberingClient()
    keeper = Keeper(inner)
    client = KeepingClient(inner, Labelling(LABEL), keeper)
    await client.head(400, JSON)
    await client.end(b'{"error": {}}')
    assert (inner.status, inner.body, keeper.kept) == (400, b'{"error": {}}', [])


@looped
async def test_the_short_way_labels_too() -> None:
    slow = SlowLine()
    line = KeepingLine(slow, Labelling(LABEL))
    assert line.write(lifecycle("created")) is False
    assert line.write(DELTA) is False
    assert responses_in(slow.written[0])[0]["id"] == "resp_ours"
    assert slow.written[1] == DELTA


@looped
async def test_nothing_is_written_for_what_is_left_out() -> None:
    slow = SlowLine()
    assert KeepingLine(slow, Compacting(LABEL)).write(DELTA) is True
    inner = RememberingClient()
    client = KeepingClient(inner, Compacting(LABEL), Keeper(inner))
    await client.head(200, STREAM)
    await client.send(DELTA)
    assert (slow.written, inner.writes) == ([], [])


@given(
    kinds=st.lists(st.sampled_from(["delta", "item", "created", "completed", "comment"]), max_size=12),
    cuts=st.sets(st.integers(0, 12)),
    crlf=st.booleans(),
)
def test_labels_do_not_depend_on_how_many_events_come_at_once(
    kinds: list[str], cuts: set[int], crlf: bool
) -> None:
    said = {
        "delta": DELTA,
        "item": event("response.output_item.done", output_index=0, item=ITEM),
        "created": lifecycle("created"),
        "completed": lifecycle("completed", status="completed"),
        "comment": DELTA.replace(b"delta", b"another.delta"),
    }
    events = [said[kind].replace(b"\n", b"\r\n") if crlf else said[kind] for kind in kinds]
    one_by_one, together = Labelling(LABEL), Labelling(LABEL)
    expected = b"".join(map(one_by_one.feed, events))
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    got = b"".join(together.feed(b"".join(events[a:b])) for a, b in pairwise(edges))
    assert got.replace(b"\r", b"") == expected.replace(b"\r", b"")
    assert (together.last is None) == (one_by_one.last is None)
