"""The response store: its limits, its owners, and conversations that continue."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import ClassVar, ParamSpec

import msgspec
import pytest

from dragoman.config.settings import ResponsesSettings
from dragoman.hub.errors import DragomanError, RequestTooLarge
from dragoman.responses.store import DAY, ResponseStore, StoreTotals
from dragoman.responses.stored_response import StoredResponse
from dragoman.storage.port import StateStorage
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.storage.sqlite import SqliteStorage
from tests import postgres
from tests.responses.looped import looped as run_in_loop
from tests.states import ENGINES

NOW = 1_800_000_000.0
PLENTY = 10_000_000

Arguments = ParamSpec("Arguments")


@pytest.fixture(params=ENGINES, autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs on both engines."""
    url = postgres.create_schema() if request.param == "postgres" else ""
    Shelf.url = url
    yield
    if url:
        postgres.drop_schema(url)


def looped(test: Callable[Arguments, Awaitable[None]]) -> Callable[Arguments, None]:
    """Run a coroutine as a test, and close its stores."""

    @run_in_loop
    @wraps(test)
    async def runs(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            await test(*arguments, **named)
        finally:
            while Shelf.opened:
                await Shelf.opened.pop().close()

    return runs


class Shelf:
    """A store, with a clock and bounds that a test can move."""

    url = ""
    opened: ClassVar[list[StateStorage]] = []

    def __init__(self, storage: StateStorage | None = None, **bounds: int) -> None:
        self.now = NOW
        self.bounds = msgspec.structs.replace(ResponsesSettings(), **bounds)
        options = PostgresOptions(url=self.url, timeout=20.0)
        self.storage = storage or (PostgresStorage(options) if self.url else SqliteStorage())
        self.opened.append(self.storage)
        self.store = ResponseStore(self.storage, lambda: self.bounds, lambda: self.now)

    async def count_totals(self) -> StoreTotals:
        """The responses that can be retrieved, and the bytes of all that are stored."""
        query = "SELECT COALESCE(SUM(visible), 0), COALESCE(SUM(size), 0) FROM responses"
        ((count, size),) = await self.storage.read(lambda transaction: transaction.fetch(query))
        return StoreTotals(int(count), int(size))

    async def put(self, name: str, previous: str = "", *, owner: str = "", kilobytes: int = 0) -> bool:
        self.now += 1
        text = name + "." * (kilobytes * 1024)
        output = [{"type": "message", "id": f"msg_{name}", "role": "assistant", "content": text}]
        return await self.store.save(
            StoredResponse(
                id=name,
                owner=owner,
                previous=previous,
                created=self.now,
                status="completed",
                input=msgspec.json.encode([{"role": "user", "content": f"ask {name}"}]),
                output=msgspec.json.encode(output),
                body=msgspec.json.encode({"id": name, "object": "response"}),
            )
        )

    async def has(self, name: str, owner: str = "") -> bool:
        try:
            await self.store.get(name, owner)
        except DragomanError as error:
            return error.status != 404
        return True

    async def list_inputs(self, name: str, owner: str = "") -> list[str]:
        """What was asked in the conversation up to a response."""
        _, turns = await self.store.load_turns(name, owner, PLENTY)
        return [msgspec.json.decode(turn.input)[0]["content"] for turn in turns]


@looped
async def test_a_response_comes_back_as_it_was() -> None:
    shelf = Shelf()
    await shelf.put("one")
    found = await shelf.store.get("one", "")
    assert msgspec.json.decode(found.encode_response()) == {
        "id": "one",
        "object": "response",
        "output": [{"type": "message", "id": "msg_one", "role": "assistant", "content": "one"}],
    }


@looped
async def test_a_conversation_is_every_turn_in_order() -> None:
    shelf = Shelf()
    await shelf.put("one")
    await shelf.put("two", "one")
    await shelf.put("three", "two")
    await shelf.put("other", "one")
    assert await shelf.list_inputs("three") == ["ask one", "ask two", "ask three"]
    assert await shelf.list_inputs("other") == ["ask one", "ask other"]


@looped
async def test_of_too_many_the_oldest_give_way() -> None:
    shelf = Shelf(max_count=3)
    for name in "abcde":
        await shelf.put(name)
    assert [name for name in "abcde" if await shelf.has(name)] == ["c", "d", "e"]
    assert (await shelf.count_totals()).responses == 3


@looped
async def test_of_too_many_bytes_the_oldest_give_way() -> None:
    shelf = Shelf(max_mb=1)
    for name in "abcde":
        await shelf.put(name, kilobytes=300)
    assert [name for name in "abcde" if await shelf.has(name)] == ["c", "d", "e"]
    assert (await shelf.count_totals()).size <= 1024 * 1024


@looped
async def test_a_response_larger_than_all_room_is_not_kept() -> None:
    shelf = Shelf(max_mb=1)
    await shelf.put("small")
    assert not await shelf.put("large", kilobytes=2000)
    assert await shelf.has("small")
    assert not await shelf.has("large")


@looped
async def test_a_conversation_larger_than_all_room_ends_without_taking_others_with_it() -> None:
    shelf = Shelf(max_mb=1)
    await shelf.put("yours", owner="you")
    kept = [
        await shelf.put(name, previous, kilobytes=300)
        for name, previous in (("a", ""), ("b", "a"), ("c", "b"), ("d", "c"))
    ]
    assert kept == [True, True, True, False]
    assert await shelf.has("yours", owner="you")
    assert await shelf.list_inputs("c") == ["ask a", "ask b", "ask c"]
    assert not await shelf.has("d")


@looped
async def test_what_is_too_old_is_not_found_and_soon_not_there() -> None:
    shelf = Shelf(max_days=2)
    await shelf.put("old")
    shelf.now += 2 * DAY + 1
    assert not await shelf.has("old")
    await shelf.put("new")
    assert (await shelf.count_totals()).responses == 1


@looped
async def test_narrower_bounds_hold_with_the_next_write() -> None:
    shelf = Shelf()
    for number in range(200):
        await shelf.put(f"r{number}")
    shelf.bounds = msgspec.structs.replace(shelf.bounds, max_count=10)
    for number in range(300):
        await shelf.put(f"s{number}")
    assert (await shelf.count_totals()).responses <= 10


@looped
async def test_a_conversation_outlives_its_first_responses() -> None:
    shelf = Shelf(max_count=2)
    last = ""
    for name in "abcde":
        await shelf.put(name, last)
        last = name
    assert [name for name in "abcde" if await shelf.has(name)] == ["d", "e"]
    assert await shelf.list_inputs("e") == [f"ask {name}" for name in "abcde"]


@looped
async def test_a_deleted_response_is_gone_for_everybody_but_those_that_continue_it() -> None:
    shelf = Shelf()
    await shelf.put("one")
    await shelf.put("two", "one")
    await shelf.store.delete("one", "")
    assert not await shelf.has("one")
    assert await shelf.list_inputs("two") == ["ask one", "ask two"]
    with pytest.raises(DragomanError):
        await shelf.store.delete("one", "")


@looped
async def test_with_the_last_response_its_whole_conversation_goes() -> None:
    shelf = Shelf()
    await shelf.put("one")
    await shelf.put("two", "one")
    await shelf.store.delete("one", "")
    await shelf.store.delete("two", "")
    assert await shelf.count_totals() == StoreTotals(0, 0)


@looped
async def test_nothing_can_be_kept_that_continues_what_is_gone() -> None:
    shelf = Shelf()
    await shelf.put("one")
    await shelf.store.delete("one", "")
    assert not await shelf.put("two", "one")


@looped
async def test_each_owner_sees_only_its_own() -> None:
    shelf = Shelf()
    await shelf.put("mine", owner="me")
    assert await shelf.has("mine", "me")
    assert not await shelf.has("mine", "you")
    assert not await shelf.has("mine")
    assert not await shelf.put("stolen", "mine", owner="you")
    assert await shelf.store.load_items(["msg_mine"], "you") == [None]
    with pytest.raises(DragomanError):
        await shelf.store.delete("mine", "you")
    with pytest.raises(DragomanError):
        await shelf.store.load_turns("mine", "you", PLENTY)


@looped
async def test_items_are_found_by_their_ids_until_their_response_goes() -> None:
    shelf = Shelf()
    await shelf.put("one")
    found, missing = await shelf.store.load_items(["msg_one", "msg_none"], "")
    assert found is not None
    assert msgspec.json.decode(found)["content"] == "one"
    assert missing is None
    await shelf.store.delete("one", "")
    assert await shelf.store.load_items(["msg_one"], "") == [None]


@looped
async def test_a_conversation_longer_than_a_request_may_be_is_refused() -> None:
    shelf = Shelf()
    await shelf.put("one", kilobytes=10)
    await shelf.put("two", "one", kilobytes=10)
    with pytest.raises(RequestTooLarge):
        await shelf.store.load_turns("two", "", 15_000)


@looped
async def test_many_writers_at_once_lose_nothing() -> None:
    shelf = Shelf()
    await shelf.put("root")
    await asyncio.gather(*(shelf.put(f"r{number}", "root") for number in range(100)))
    assert (await shelf.count_totals()).responses == 101
    assert all([await shelf.has(f"r{number}") for number in range(100)])


@looped
async def test_an_id_is_stored_once_with_its_last_values() -> None:
    shelf = Shelf()
    await shelf.put("one")
    await shelf.put("one")
    assert (await shelf.count_totals()).responses == 1


@looped
async def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Shelf(SqliteStorage(tmp_path / "state.db"))
    await first.put("one")
    await first.put("two", "one")
    second = Shelf(SqliteStorage(tmp_path / "state.db"))
    assert await second.list_inputs("two") == ["ask one", "ask two"]


@looped
async def test_a_file_that_does_not_work_is_an_error_of_the_gateway(tmp_path: Path) -> None:
    shelf = Shelf(SqliteStorage(tmp_path / "state.db"))
    await shelf.put("one")
    spoiler = sqlite3.connect(tmp_path / "state.db")
    spoiler.execute("ALTER TABLE responses RENAME TO gone")
    spoiler.close()
    with pytest.raises(DragomanError) as caught:
        await shelf.store.get("one", "")
    # Clients repeat such a request.
    assert caught.value.status == 503
