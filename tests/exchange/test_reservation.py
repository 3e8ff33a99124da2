"""A reservation is stored while the request is translated, and nothing is sent before it is stored."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar, cast

import pytest

from dragoman.accounts.keys import Caller
from dragoman.accounts.limits import Limits
from dragoman.accounts.store import ACCOUNTS_SCHEMA
from dragoman.exchange.gateway import Gateway
from dragoman.exchange.large_bodies import MAX_INLINE_BODY
from dragoman.governance.settings import Governance
from dragoman.healing.learned import LEARNED_SCHEMA
from dragoman.hub.errors import ClientProtocolError, DragomanError
from dragoman.pipeline.plan import RequestPlan
from dragoman.storage.database import StorageError
from dragoman.storage.port import StateStorage, Work
from tests.exchange.fakes import Bench, ExchangeResult, RememberingClient, Script, ScriptedUpstream, ask
from tests.exchange.sample_replies import CHAT_STREAM
from tests.states import StateBed, build_state_fixture

Result = TypeVar("Result")

state = build_state_fixture(ACCOUNTS_SCHEMA, LEARNED_SCHEMA)

LIMITS = Limits(tokens_per_day=10**6, requests_per_minute=100)
COUNT = "SELECT COUNT(*) FROM reservations"
SPENT = "SELECT COALESCE(SUM(tokens), 0) FROM spending"


class LateStorage:
    """A state whose transactions are answered when `answer` is set, or fail then."""

    def __init__(self, storage: StateStorage, events: list[str]) -> None:
        self._storage = storage
        self._events = events
        self.answer = asyncio.Event()
        self.fails = False
        self.is_late = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def run(self, work: Work[Result], *, locks: Collection[str] = ()) -> Result:
        if not self.is_late:
            return await self._storage.run(work, locks=locks)
        self._events.append("asked")
        if self.fails:
            await self.answer.wait()
            raise StorageError("the database is gone")
        result = await self._storage.run(work, locks=locks)
        await self.answer.wait()
        self._events.append("stored")
        return result


class Stage:
    """A gateway with a late state. `events` has the order of what happened."""

    def __init__(self, state: StateBed, monkeypatch: pytest.MonkeyPatch, limits: Limits = LIMITS) -> None:
        self.events: list[str] = []
        self.upstream = ScriptedUpstream(Script(pieces=list(CHAT_STREAM)))
        self.bench = Bench({"up": self.upstream})
        self.storage = LateStorage(state.open(), self.events)
        config = self.bench.gateway.config
        self.bench.gateway = Gateway(
            config, upstreams={"up": self.upstream}, storage=cast(StateStorage, self.storage)
        )
        self.question = ask("anthropic")
        self.question.caller = Caller(id="key", name="ann", limits=limits)
        self.client = RememberingClient()
        self.is_built = asyncio.Event()
        self.building: Callable[[], object] = lambda: None
        build, loop = RequestPlan.build_target_request, asyncio.get_running_loop()

        def build_target_request(*args: Any, **options: Any) -> Any:
            self.events.append("built")
            loop.call_soon_threadsafe(self.is_built.set)
            self.building()
            return build(*args, **options)

        monkeypatch.setattr(RequestPlan, "build_target_request", build_target_request)
        send = self.upstream.send

        async def note_send(call: Any) -> Any:
            self.events.append("sent")
            return await send(call)

        monkeypatch.setattr(self.upstream, "send", note_send)

    async def run(self, answer_after: Awaitable[object]) -> ExchangeResult:
        """Run the exchange. Its reservation is answered when the other thing is over."""
        # What a gateway reads or registers once is not late.
        await self.bench.gateway.learned.load()
        self.storage.is_late = True
        running = asyncio.ensure_future(self.bench.run_exchange(self.question, self.client))
        await answer_after
        self.storage.answer.set()
        result = await running
        self.storage.is_late = False
        return result

    async def count_left(self) -> tuple[int, int]:
        """The reservations that are left, and the tokens that are charged."""
        await self.bench.gateway.accounts.ledger.flush()
        read = self.storage.read
        rows = [await read(lambda transaction, sql=sql: transaction.fetch_one(sql)) for sql in (COUNT, SPENT)]
        await self.bench.gateway.close()
        return int(rows[0][0]), int(rows[1][0])


def run_late(test: Awaitable[None]) -> None:
    """Run a test that would wait for ever if its two sides waited for each other."""

    async def run() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(run())


def test_a_request_is_translated_while_its_reservation_is_stored(
    state: StateBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        stage = Stage(state, monkeypatch)
        result = await stage.run(stage.is_built.wait())
        assert stage.events[:4] == ["asked", "built", "stored", "sent"]
        assert result.client.status == 200
        assert "anthropic-ratelimit-requests-remaining" in result.client.headers
        left, charged = await stage.count_left()
        assert (left, charged > 0) == (0, True)

    run_late(check())


def test_a_late_refusal_sends_nothing(state: StateBed, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        stage = Stage(state, monkeypatch, Limits(requests_per_minute=1))
        provider = stage.bench.gateway.config.providers["up"]
        governance = Governance(tools="hold", rename=True)
        monkeypatch.setattr(type(provider), "find_governance", lambda *_: governance)
        await stage.bench.run_exchange(stage.question)
        stage.events.clear()
        stage.is_built.clear()
        result = await stage.run(stage.is_built.wait())
        assert "sent" not in stage.events
        assert result.client.status == 429
        assert result.record.refused is not None
        assert not result.record.interventions.is_governed
        assert (await stage.count_left())[0] == 0

    run_late(check())


def test_a_state_that_fails_late_sends_nothing(state: StateBed, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        stage = Stage(state, monkeypatch)
        stage.storage.fails = True
        result = await stage.run(stage.is_built.wait())
        assert "sent" not in stage.events
        assert result.client.status in (429, 529)
        assert (await stage.count_left()) == (0, 0)

    run_late(check())


def test_a_client_that_leaves_before_the_answer_gets_its_reservation_back(
    state: StateBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        stage = Stage(state, monkeypatch)
        await stage.bench.gateway.learned.load()
        stage.storage.is_late = True
        exchange = stage.bench.exchange(stage.question, stage.client)
        running = asyncio.ensure_future(exchange.run())
        await stage.is_built.wait()
        exchange.abandon()
        await running
        assert exchange.record.is_cancelled
        stage.storage.answer.set()
        assert await stage.count_left() == (0, 0)
        assert "sent" not in stage.events

    run_late(check())


def test_a_client_that_leaves_during_the_translation_gets_its_reservation_back(
    state: StateBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        stage = Stage(state, monkeypatch)
        # A large body is translated in a thread.
        stage.question = ask("anthropic", body={"system": "x" * MAX_INLINE_BODY})
        stage.question.caller = Caller(id="key", limits=LIMITS)
        may_end = threading.Event()
        stage.building = may_end.wait
        stage.storage.answer.set()
        exchange = stage.bench.exchange(stage.question, stage.client)
        running = asyncio.ensure_future(exchange.run())
        await stage.is_built.wait()
        exchange.abandon()
        await running
        may_end.set()
        assert await stage.count_left() == (0, 0)
        assert "sent" not in stage.events

    run_late(check())


class UnexpectedError(DragomanError):
    """A translation that fails for every target."""

    kind = "server"
    default_status = 500


@pytest.mark.parametrize(("error", "status"), [(ClientProtocolError, 400), (UnexpectedError, 500)])
def test_a_translation_that_fails_leaves_no_reservation(
    state: StateBed, monkeypatch: pytest.MonkeyPatch, error: type[DragomanError], status: int
) -> None:
    def fail() -> None:
        raise error("it cannot be translated")

    async def check() -> None:
        stage = Stage(state, monkeypatch)
        stage.building = fail
        result = await stage.run(stage.is_built.wait())
        assert result.client.status == status
        assert "sent" not in stage.events
        assert await stage.count_left() == (0, 0)

    run_late(check())


def test_a_refusal_counts_more_than_a_failed_translation(
    state: StateBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise UnexpectedError("it cannot be translated")

    async def check() -> None:
        stage = Stage(state, monkeypatch, Limits(requests_per_minute=1))
        await stage.bench.run_exchange(stage.question)
        stage.building = fail
        stage.is_built.clear()
        result = await stage.run(stage.is_built.wait())
        assert result.client.status == 429
        assert (await stage.count_left())[0] == 0

    run_late(check())
