"""The watchdogs of all open replies, where one of them is in an odd state."""

import asyncio

import pytest

from dragoman.accounts.keys import ANONYMOUS
from dragoman.config.settings import Timeouts
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.exchange import CLOSING
from dragoman.exchange.record import ExchangeRecord
from dragoman.exchange.sender import ResponseSender
from dragoman.exchange.watchdog import Watchdog, WatchdogTimer
from dragoman.hub.errors import Failure
from dragoman.wire.sse import Frame
from tests.exchange.clock import run
from tests.exchange.fakes import (
    Bench,
    Break,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Wait,
    ask,
    provider,
)


def watchdog_of(seen: list[str], name: str, *, fails: bool = False) -> Watchdog:
    def ping() -> None:
        seen.append(name)
        assert not fails, "this one is broken"

    return Watchdog(0.0, ping_every=1.0, ping=ping, abandon=lambda: None)


def test_one_that_fails_does_not_stop_the_heart_of_all_others() -> None:
    seen: list[str] = []
    complaints: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        timer = WatchdogTimer()
        watchdogs = [
            watchdog_of(seen, "good"),
            watchdog_of(seen, "bad", fails=True),
            watchdog_of(seen, "fine"),
        ]
        for watchdog in watchdogs:
            timer.add(watchdog)
        await asyncio.sleep(3.2)
        for watchdog in watchdogs:
            timer.remove(watchdog)

    run(scenario())
    assert seen.count("good") == seen.count("fine") == 3
    assert len(complaints) == seen.count("bad")


def test_a_sign_of_life_that_comes_too_late_is_not_sent() -> None:
    """The refusal is decided in the same moment in which the sign of life was."""
    client = RememberingClient()
    question = ask("openai_chat")

    async def scenario() -> None:
        watchdog = watchdog_of([], "x")
        record = ExchangeRecord(question.metadata, ANONYMOUS)
        sender = ResponseSender(dialect_named("openai_chat"), client, record, watchdog, lambda: None)
        sender.ping()
        await sender.refuse(Failure(kind="overloaded", status=503, message="busy"))
        sender.close()

    run(scenario())
    assert client.status == 503
    assert client.body.startswith(b'{"error"')


def test_output_that_was_released_behind_a_slow_ping_comes_before_the_end() -> None:
    client = RememberingClient(slowness=3.0)

    async def scenario() -> None:
        record = ExchangeRecord(ask("openai_chat").metadata, ANONYMOUS)
        sender = ResponseSender(
            dialect_named("openai_chat"), client, record, watchdog_of([], "x"), lambda: None
        )
        await sender.send([Frame("", b"first")])
        sender.ping()
        sender.send_soon([Frame("", b"released")])
        # The ping is out after three seconds; what was released is then on its way.
        await asyncio.sleep(4)
        await sender.finish([Frame("", b"last")])

    run(scenario())
    assert client.body == b"data: first\n\n: keep-alive\n\ndata: released\n\ndata: last\n\n"
    assert client.is_ended


def test_an_exchange_that_is_stopped_behind_a_slow_sign_of_life_still_reports_its_end() -> None:
    client = RememberingClient(slowness=3.0)
    upstream = ScriptedUpstream(Script(pieces=[Wait(10.8), Break()]))
    bench = Bench({"up": upstream}, [provider("up", retries=0)])

    async def scenario() -> None:
        exchange = bench.exchange(ask("openai_responses"), client)
        # The sign of life is on its way from 10 to 13 seconds, and the failure has to wait for it.
        asyncio.get_running_loop().call_later(12, exchange.stop, CLOSING)
        await exchange.run()

    run(scenario())
    assert client.is_ended
    assert b"shutting down" in client.body


@pytest.mark.rule("S13")
@pytest.mark.parametrize(
    ("piece", "is_progress"),
    [
        (b": keep-alive\n\n", False),
        (b":\n\n: a : b\r\n\r\n:", False),
        (b": keep-alive\n\ndata: {}\n\n", True),
        (b"data: {}\n\n: keep-alive\n\n", True),
        (b"data", True),
    ],
)
def test_comments_of_an_upstream_are_no_progress(piece: bytes, is_progress: bool) -> None:
    watchdog = watchdog_of([], "x")
    closed: list[bool] = []
    watchdog.watch_upstream(Timeouts(first_byte=10, idle=10), lambda: closed.append(True), 0.0)
    for now in range(12):
        watchdog.count_received(piece)
        watchdog.check(float(now))
    assert bool(closed) is not is_progress
