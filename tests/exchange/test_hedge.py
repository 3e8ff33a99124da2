"""A slow first target: the next one is called too, the first content wins, and both calls are paid."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from types import FrameType

import msgspec
import pytest

from dragoman.accounts.keys import Caller
from dragoman.accounts.limits import Limits
from dragoman.accounts.store import ReservationRequest
from dragoman.accounts.usage import ExchangeUsage
from dragoman.config.config import Route
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Timeouts
from dragoman.exchange import hedge
from dragoman.exchange.record import ExchangeRecord
from dragoman.hub.errors import Failure
from dragoman.pipeline.plan import RequestPlan
from dragoman.records.taps import MetaTap
from dragoman.routing.health import TargetKey
from tests.exchange.clock import run
from tests.exchange.fakes import (
    JSON,
    Bench,
    Break,
    ExchangeResult,
    Order,
    Piece,
    RememberingClient,
    Script,
    ScriptedUpstream,
    Unreachable,
    Wait,
    ask,
    provider,
)
from tests.exchange.sample_replies import (
    ANTHROPIC_START,
    CHAT_START,
    CHAT_STREAM,
    CHAT_WHOLE,
    DIALECTS,
    chat_text,
    error,
)

#: Seconds, and the tokens that `CHAT_STREAM` and `CHAT_WHOLE` report.
DELAY = 2.0
REPORTED = 12
PLAIN = {"content-type": JSON}
FIRST, SECOND, THIRD = (TargetName(name, "model") for name in ("first", "second", "third"))


def good(*, stream: bool = True, after: float = 0.0, wait: float = 0.0, text: str = "good day") -> Script:
    """An answer whose head comes after a time, and whose content comes later still."""
    if stream:
        pieces: list[Piece] = [CHAT_START, Wait(wait), chat_text(text), *CHAT_STREAM[3:]]
        return Script(pieces=pieces, after=after)
    body = CHAT_WHOLE.replace(b"good day", text.encode())
    return Script(pieces=[b" ", Wait(wait), body], headers=PLAIN, after=after)


def refusal(status: int, *, after: float = 0.0) -> Script:
    return Script(status=status, pieces=[error("no")], headers=PLAIN, after=after)


def priced(name: str, price: float, dialect: str = "openai_chat") -> Provider:
    """A provider whose tokens cost so many dollars for each million."""
    facts: dict[str, object] = {"price_input": price, "price_output": price}
    return msgspec.structs.replace(provider(name, dialect, retries=0), models={"*": facts})


class Race:
    """A gateway with targets that cost 1, 10 and 100 dollars for a million tokens."""

    def __init__(
        self,
        *scripts: Script | Unreachable,
        delay: float = DELAY,
        order: Order = "listed",
        dialect: str = "openai_chat",
        timeouts: Timeouts | None = None,
    ) -> None:
        names = ("first", "second", "third")[: len(scripts)]
        self.upstreams = [ScriptedUpstream(script) for script in scripts]
        providers = [priced(name, 10.0**place, dialect) for place, name in enumerate(names)]
        if timeouts is not None:
            providers[0] = msgspec.structs.replace(providers[0], timeouts=timeouts)
        self.bench = Bench(
            dict(zip(names, self.upstreams, strict=True)), providers, hedge=delay, order=order, ping=0
        )

    def run(self, dialect: str = "openai_chat", *, stream: bool = True) -> ExchangeResult:
        return run(self.bench.run_exchange(ask(dialect, stream=stream)))

    @property
    def calls(self) -> list[int]:
        return [len(upstream.calls) for upstream in self.upstreams]

    @property
    def failing(self) -> set[TargetName]:
        return {each.target for each in self.bench.gateway.health.list_cooldowns(0.0)}


def list_attempts(record: ExchangeRecord) -> list[tuple[TargetName, str]]:
    return [(each.target, each.failure.kind if each.failure else "") for each in record.attempts]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_second_target_answers_if_the_first_is_slow(dialect: str, stream: bool) -> None:
    race = Race(good(stream=stream, wait=60), good(stream=stream, text="from the second"))
    result = race.run(dialect, stream=stream)
    assert result.client.status == 200
    assert b"from the second" in result.client.body
    assert b"good day" not in result.client.body
    assert result.client.headers["x-dragoman-target"] == "second/model"
    assert result.client.headers["x-dragoman-failed"] == "first/model (cancelled 499)"
    assert race.upstreams[1].called_at == [DELAY]
    assert race.upstreams[0].answers[0].closed_at == DELAY
    assert list_attempts(result.record) == [(FIRST, "cancelled"), (SECOND, "")]
    assert (result.record.target, result.record.ending, result.record.tries) == (SECOND, "finished", 2)
    assert result.record.first_token_seconds == DELAY
    assert race.failing == set()


@pytest.mark.parametrize("stream", [True, False])
def test_a_target_that_sends_no_head_is_slow_too(stream: bool) -> None:
    race = Race(good(stream=stream, after=60), good(stream=stream))
    result = race.run(stream=stream)
    assert (result.record.target, race.upstreams[0].answers) == (SECOND, [])
    assert race.calls == [1, 1]


@pytest.mark.parametrize("stream", [True, False])
def test_the_first_target_may_still_be_first_with_its_content(stream: bool) -> None:
    race = Race(good(stream=stream, wait=3), good(stream=stream, wait=60, text="late"), good(stream=stream))
    result = race.run(stream=stream)
    assert b"good day" in result.client.body
    assert race.calls == [1, 1, 0]
    assert race.upstreams[1].answers[0].closed_at == 3
    assert list_attempts(result.record) == [(SECOND, "cancelled"), (FIRST, "")]
    assert result.record.upstream_id == ""
    assert result.record.tally is not None
    assert result.record.tally.usage is not None
    assert result.record.tally.usage.output == 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("delay", [DELAY, 0.0])
def test_a_first_target_in_time_is_the_only_one(stream: bool, delay: float) -> None:
    race = Race(good(stream=stream, wait=1.5 if delay else 60), good(stream=stream), delay=delay)
    result = race.run(stream=stream)
    assert (race.calls, result.record.tries, result.record.target) == ([1, 0], 1, FIRST)
    assert "x-dragoman-retries" not in result.client.headers
    assert result.record.used.input == REPORTED


def test_a_long_reply_that_has_begun_calls_no_second_target() -> None:
    slow = Script(pieces=[CHAT_START, chat_text("a"), Wait(30), chat_text("b"), *CHAT_STREAM[3:]])
    race = Race(slow, good())
    assert race.run().record.ending == "finished"
    assert race.calls == [1, 0]


@pytest.mark.parametrize("stream", [True, False])
def test_both_calls_are_charged_at_their_own_prices(stream: bool) -> None:
    race = Race(good(stream=stream, wait=60), good(stream=stream))
    result = race.run(stream=stream)
    assert len(result.record.other_calls) == 1
    cancelled = (result.record.used.input or 0) - REPORTED
    assert cancelled > 0
    output = (result.record.used.output or 0) - 3
    # The prices of a million tokens are 1 and 10 dollars.
    assert result.record.cost == pytest.approx((cancelled + output) * 1 + (REPORTED + 3) * 10, abs=1)
    assert result.record.saved == 0


def test_usage_that_the_slow_target_has_reported_is_charged() -> None:
    start = ANTHROPIC_START.replace(b'"input_tokens":12', b'"input_tokens":5000')
    race = Race(
        Script(pieces=[start, Wait(60)]), Script(pieces=[start, Break()]), good(), dialect="anthropic"
    )
    reported = b'"input_tokens":5000' in start
    exchange_usage: list[int] = []

    async def scenario() -> None:
        client = RememberingClient()
        exchange = race.bench.exchange(ask("anthropic"), client)
        task = asyncio.create_task(exchange.run())
        await asyncio.sleep(5)
        exchange.abandon()
        await task
        exchange_usage.append(exchange.record.used.input or 0)

    run(scenario())
    assert reported
    assert exchange_usage == [5000]


@pytest.mark.parametrize("stream", [True, False])
def test_two_failures_are_an_ordinary_error(stream: bool) -> None:
    race = Race(refusal(500, after=5), refusal(429, after=4))
    result = race.run("anthropic", stream=stream)
    assert result.client.status in (429, 500, 502, 503, 529)
    assert result.client.json()["type"] == "error"
    assert set(list_attempts(result.record)) == {(FIRST, "server"), (SECOND, "rate_limit")}
    assert race.calls == [1, 1]
    assert race.failing == {FIRST, SECOND}
    assert (result.record.cost, result.record.other_calls) == (0, [])


def test_a_third_target_follows_two_that_fail() -> None:
    race = Race(refusal(500, after=5), Unreachable(after=1), good())
    result = race.run()
    assert (race.calls, result.record.target) == ([1, 1, 1], THIRD)
    assert result.client.body == b"".join([CHAT_START, chat_text("good day"), *CHAT_STREAM[3:]])
    assert result.record.retries == 2


@pytest.mark.parametrize("broken", [refusal(500), Unreachable(), Script(pieces=[CHAT_START, Break()])])
def test_a_second_target_that_fails_leaves_the_first_alone(broken: Script | Unreachable) -> None:
    race = Race(good(wait=10), broken)
    result = race.run()
    assert (result.record.target, result.record.ending) == (FIRST, "finished")
    assert race.failing == {SECOND}
    assert result.record.other_calls == []


def test_a_first_target_that_fails_late_leaves_the_second_alone() -> None:
    race = Race(refusal(500, after=4), good(wait=10), good())
    result = race.run()
    assert (race.calls, result.record.target) == ([1, 1, 0], SECOND)
    assert race.failing == {FIRST}


def test_a_first_target_that_fails_early_is_followed_as_usual() -> None:
    race = Race(refusal(500), good())
    assert race.run().record.target == SECOND
    assert race.upstreams[1].called_at == [0.0]


def test_a_second_target_that_cools_down_is_left_out() -> None:
    race = Race(good(wait=10), good(), good())
    failure = Failure(kind="server", status=500, message="no")
    race.bench.gateway.health.record_failure(TargetKey(SECOND, 0), failure, 0.0)
    result = race.run()
    assert (race.calls, result.record.target) == ([1, 0, 1], THIRD)


def test_a_time_limit_holds_for_each_of_two_calls() -> None:
    race = Race(Script(pieces=[Wait(500)]), good(wait=100), timeouts=Timeouts(first_byte=30, idle=60))
    result = race.run()
    assert (result.record.target, result.record.ending) == (SECOND, "finished")
    assert list_attempts(result.record) == [(FIRST, "timeout"), (SECOND, "")]
    assert race.upstreams[0].answers[0].closed_at == pytest.approx(30, abs=1)


def test_the_time_limits_of_the_winner_hold_after_its_first_content() -> None:
    slow = Script(pieces=[CHAT_START, Wait(5), chat_text("a"), Wait(500)])
    race = Race(slow, good(wait=100), timeouts=Timeouts(first_byte=30, idle=60))
    result = race.run()
    assert (result.record.target, result.record.ending) == (FIRST, "truncated")
    assert result.record.broken is not None
    assert "it sent no data for 60 s" in result.record.broken.message


@pytest.mark.rule("R126")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("leaves", "open_calls"), [(1.0, 1), (5.0, 2), (12.0, 1)])
def test_a_client_that_leaves_ends_every_call(leaves: float, open_calls: int, stream: bool) -> None:
    """Before the second call, during both, and after the first content."""
    if stream:
        answer = Script(pieces=[CHAT_START, Wait(10), chat_text("a"), Wait(60)])
    else:
        answer = Script(pieces=[b" ", Wait(60)], headers=PLAIN)
        open_calls = min(2, 1 + int(leaves > DELAY))
    race = Race(answer, answer)

    async def scenario() -> ExchangeRecord:
        exchange = race.bench.exchange(ask("openai_chat", stream=stream), RememberingClient())
        task = asyncio.create_task(exchange.run())
        await asyncio.sleep(leaves)
        exchange.abandon()
        await task
        return exchange.record

    record = run(scenario())
    closed = [answer.closed_at for upstream in race.upstreams for answer in upstream.answers]
    assert closed.count(leaves) == open_calls
    assert None not in closed
    assert record.is_cancelled
    # Every request that was sent is charged.
    assert len(record.other_calls) == (leaves > DELAY)
    assert record.cost


def test_a_gateway_that_stops_ends_both_calls_with_an_error() -> None:
    race = Race(good(wait=60), good(wait=60))

    async def scenario() -> RememberingClient:
        client = RememberingClient()
        exchange = race.bench.exchange(ask("openai_chat"), client)
        task = asyncio.create_task(exchange.run())
        await asyncio.sleep(5)
        exchange.stop(Failure(kind="overloaded", status=503, message="stopped"))
        await task
        return client

    client = run(scenario())
    assert (client.status, b"stopped" in client.body) == (503, True)
    assert [upstream.answers[0].closed_at for upstream in race.upstreams] == [5, 5]


def test_a_slow_target_is_not_the_fastest_any_more() -> None:
    race = Race(good(wait=60), good(wait=0.5), order="fastest")
    assert race.run().record.target == SECOND
    first_words = race.bench.gateway.balancer.list_first_words()
    assert first_words[FIRST] == pytest.approx(DELAY + 0.5)
    assert first_words[SECOND] == pytest.approx(0.5)
    again = race.run()
    assert (again.record.target, again.record.tries) == (SECOND, 1)


class TapRecorder:
    """Keeps the taps of all exchanges."""

    def __init__(self) -> None:
        self.taps: list[MetaTap] = []

    def start(self, record: ExchangeRecord, plan: RequestPlan, route: Route | None) -> MetaTap:
        self.taps.append(MetaTap(record, plan, record.identity, None, keep=lambda tap: None))
        return self.taps[-1]


@pytest.mark.parametrize(("wait", "targets"), [(60.0, [FIRST, SECOND]), (4.0, [SECOND, FIRST])])
def test_a_record_has_both_calls_with_the_answer_last(wait: float, targets: Sequence[TargetName]) -> None:
    race = Race(good(after=1, wait=wait), good(after=1, wait=0 if wait > DELAY * 10 else 60))
    race.bench.gateway.recorder = recorder = TapRecorder()
    result = race.run()
    (tap,) = recorder.taps
    assert [call.target for call in tap.calls] == targets
    assert [call.status for call in tap.calls] == [200, 200]
    assert [each.target for each in result.record.attempts] == targets


@pytest.mark.parametrize("delay", [DELAY, 0.0])
def test_the_budget_covers_both_calls(delay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    reserved: list[ReservationRequest] = []

    async def check_model(usage: ExchangeUsage, model: str) -> None: ...

    async def reserve(usage: ExchangeUsage, request: ReservationRequest | None) -> None:
        assert request is not None
        reserved.append(request)

    monkeypatch.setattr(ExchangeUsage, "check_model", check_model)
    monkeypatch.setattr(ExchangeUsage, "reserve", reserve)
    race = Race(good(), good(), good(), delay=delay)
    asked = ask("openai_chat")
    asked.caller = Caller(id="key", limits=Limits(cost_per_day=10**9))
    run(race.bench.run_exchange(asked))
    ((tokens, cost), least) = reserved[0].maximum, reserved[0].minimum
    # Two calls at most run at once: those of the two most expensive targets, at 10 and 100 dollars.
    calls, price = (2, 110) if delay else (1, 100)
    assert cost == pytest.approx(tokens / calls * price)
    assert least.tokens < tokens / calls


def count_calls(seconds: float) -> Counter[str]:
    """The functions of the module `hedge` that an exchange with two targets calls."""
    calls: Counter[str] = Counter()

    def observe(frame: FrameType, event: str, value: object) -> None:
        if event == "call" and frame.f_globals["__name__"] == hedge.__name__:
            calls[frame.f_code.co_name] += 1

    bench = Bench({"first": ScriptedUpstream(good()), "second": ScriptedUpstream(good())}, hedge=seconds)
    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        assert run(bench.run_exchange(ask("openai_chat"))).client.status == 200
    finally:
        sys.setprofile(before)
    return calls


def test_a_route_without_a_hedge_calls_nothing_of_it() -> None:
    assert count_calls(0.0) == Counter()
    assert count_calls(DELAY)["list_second_targets"] == 1
