"""Waiting calls: what the other gateways find, also after a time in which the state was away."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from dragoman.config.settings import Secret
from dragoman.peers import calls as calls_module
from dragoman.peers.calls import SharedCalls
from dragoman.peers.store import PEERS_SCHEMA, find_holder
from dragoman.storage.port import StateStorage
from dragoman.storage.postgres import PostgresOptions, PostgresStorage
from dragoman.upstream.port import UpstreamRequest
from tests import postgres
from tests.loopback import LoopbackServer
from tests.postgres_proxy import PostgresProxy, run_proxy
from tests.states import StateBed, build_state_fixture

state = build_state_fixture(PEERS_SCHEMA)

OWNER = "owner"
SECRET = "quiet-meadow-lantern"


async def find_address(storage: StateStorage, call: str) -> str:
    """The address of the gateway that waits for the call; empty if there is none."""
    now = storage.clock()
    holder = await storage.read(lambda transaction: find_holder(transaction, OWNER, [call], now))
    return holder.address if holder else ""


def announce(storage: StateStorage) -> SharedCalls:
    calls = SharedCalls(storage, storage.clock)
    calls.announce("http://first")
    return calls


def test_calls_are_found_until_its_session_waits_no_more(state: StateBed) -> None:
    async def main() -> None:
        storage, other = state.open(), state.open()
        calls = announce(storage)
        for waiting in (("a", "b"), ("c",), ()):
            calls.register("session", OWNER, waiting, 60.0)
            await calls.wait_until_written()
            found = {call for call in "abc" if await find_address(other, call)}
            assert found == set(waiting)
        calls.register("session", OWNER, ("d",), 60.0)
        await calls.wait_until_written()
        # The sessions of a gateway end with it.
        await calls.close()
        assert not await find_address(other, "d")
        await storage.close()
        await other.close()

    asyncio.run(main())


def test_a_session_that_never_waited_writes_nothing(state: StateBed) -> None:
    async def main() -> None:
        storage = state.open()
        calls = announce(storage)
        calls.register("session", OWNER, (), 0.0)
        assert calls._writing is None
        await storage.close()

    asyncio.run(main())


class Listener(LoopbackServer):
    """Another gateway: keeps the bytes of a request and knows no session."""

    def __init__(self) -> None:
        super().__init__()
        self.received = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self.received = head + await reader.readexactly(length)
        writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
        writer.close()


@pytest.mark.rule("R120")
def test_another_gateway_gets_no_credential_and_no_header_of_the_client(
    state: StateBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        first, second = state.open(), state.open()
        async with Listener() as listener:
            holder = SharedCalls(first, first.clock)
            monkeypatch.setattr(calls_module, "build_process_name", lambda: "elsewhere:1:1")
            holder.announce(f"http://127.0.0.1:{listener.port}")
            holder.register("session", OWNER, ("call-1",), 60.0)
            await holder.wait_until_written()
            monkeypatch.undo()
            sender = SharedCalls(second, second.clock)
            sender.announce("http://second")
            headers = {"authorization": f"Bearer {SECRET}", "x-api-key": SECRET, "dragoman-key": SECRET}
            request = UpstreamRequest(
                body=b"the body",
                model="m",
                stream=True,
                headers={**headers, "x-session-id": "named"},
                credential={name: Secret(value) for name, value in headers.items()},
                caller=SECRET,
            )
            assert await sender.forward("up", OWNER, ["call-1"], request) is None
        assert b"the body" in listener.received
        assert b"named" in listener.received
        assert SECRET.encode() not in listener.received
        await first.close()
        await second.close()

    asyncio.run(main())


class Outage:
    """A gateway whose connections to the state can be cut, and a look at the state from another one."""

    def __init__(self, proxy: PostgresProxy, url: str) -> None:
        schema = url.partition("search_path=")[2]
        cut = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?search_path={schema}"
        self.proxy = proxy
        self.storage = PostgresStorage(PostgresOptions(url=cut, timeout=5.0), None, PEERS_SCHEMA)
        self.other = PostgresStorage(PostgresOptions(url=url, timeout=20.0), None, PEERS_SCHEMA)
        self.calls = announce(self.storage)

    async def register(self, session: str, *calls: str) -> None:
        self.calls.register(session, OWNER, calls, 60.0)
        async with asyncio.timeout(20):
            await self.calls.wait_until_written()

    async def find(self, call: str) -> bool:
        return bool(await find_address(self.other, call))

    async def recover(self, call: str) -> None:
        """The state is back. Returns when the call is stored."""
        self.proxy.is_down = False
        async with asyncio.timeout(30):
            while not await self.find(call):
                await asyncio.sleep(0.05)


def meet_outage(act: Callable[[Outage], Awaitable[None]]) -> None:
    url = postgres.create_schema()

    async def main() -> None:
        with ExitStack() as stack:
            outage = Outage(stack.enter_context(run_proxy(postgres.shared_url())), url)
            await act(outage)
            await outage.calls.close()
            await outage.storage.close()
            await outage.other.close()

    asyncio.run(main())
    postgres.drop_schema(url)


def test_calls_of_an_outage_are_stored_after_it() -> None:
    async def act(outage: Outage) -> None:
        await outage.register("before", "a")
        outage.proxy.fail()
        await outage.register("meanwhile", "b")
        await outage.register("before", "a", "c")
        await outage.recover("b")
        assert [await outage.find(call) for call in "abc"] == [True] * 3

    meet_outage(act)


def test_sessions_that_ended_in_an_outage_leave_no_call() -> None:
    async def act(outage: Outage) -> None:
        await outage.register("before", "a")
        outage.proxy.fail()
        await outage.register("before")
        await outage.register("short", "b")
        await outage.register("short")
        await outage.register("last", "c")
        await outage.recover("c")
        assert [await outage.find(call) for call in "abc"] == [False, False, True]

    meet_outage(act)


def test_the_time_of_a_call_begins_when_its_session_began_to_wait() -> None:
    """Not when the state accepted it: a result would be sent to a session that has ended."""

    async def act(outage: Outage) -> None:
        outage.proxy.fail()
        begun = outage.storage.clock()
        outage.calls.register("session", OWNER, ("a",), 60.0)
        await asyncio.sleep(0.5)
        await outage.recover("a")
        rows = await outage.other.read(
            lambda transaction: transaction.fetch("SELECT expires FROM parked_calls")
        )
        assert rows[0][0] == pytest.approx(begun + 60.0, abs=0.4)

    meet_outage(act)


def test_without_the_state_a_result_is_replayed_and_a_known_secret_stays_valid() -> None:
    async def act(outage: Outage) -> None:
        secret = await outage.calls.find_secret()
        outage.proxy.fail()
        request = UpstreamRequest(body=b"", model="m", stream=False, key=0, headers={})
        assert await outage.calls.forward("provider", OWNER, ["a"], request) is None
        assert secret
        assert await outage.calls.find_secret() == secret

    meet_outage(act)
