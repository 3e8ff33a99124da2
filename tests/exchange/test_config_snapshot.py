"""A reload changes what begins after it, and nothing that is under way."""

import asyncio

import msgspec
import pytest

from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider, TargetName
from dragoman.config.settings import Secret
from dragoman.exchange.config_snapshot import ConfigSnapshot, ProviderHandle
from dragoman.hub.errors import Failure
from dragoman.routing.health import TargetKey
from dragoman.upstream.port import UpstreamRequest
from tests.exchange.clock import run
from tests.exchange.fakes import (
    Bench,
    RememberingClient,
    Script,
    ScriptedAnswer,
    ScriptedUpstream,
    Wait,
    ask,
    provider,
)
from tests.exchange.sample_replies import CHAT_STREAM


class Closable(ScriptedUpstream):
    is_closed = False

    async def send(self, call: UpstreamRequest) -> ScriptedAnswer:
        assert not self.is_closed, "used after it was closed"
        return await super().send(call)

    async def close(self) -> None:
        self.is_closed = True


def slow() -> Closable:
    return Closable(Script(pieces=[CHAT_STREAM[0], Wait(5), *CHAT_STREAM[1:]]))


def with_key(config: Config, name: str, key: str) -> Config:
    changed = msgspec.structs.replace(config.providers[name], keys=(Secret(key),))
    return msgspec.structs.replace(config, providers={**config.providers, name: changed})


def test_a_provider_is_the_same_if_everything_about_it_is() -> None:
    one = provider("up", keys=["a", "b"])
    assert one == provider("up", keys=["a", "b"])
    assert one != provider("up", keys=["a", "c"])
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != "a"


def never(provider: Provider) -> ScriptedUpstream:
    raise AssertionError(f"nobody asked for {provider.name}")


def test_the_next_view_takes_over_the_ways_to_providers_that_are_the_same() -> None:
    first = ConfigSnapshot(Config(providers={"a": provider("a"), "b": provider("b")}), never)
    second = ConfigSnapshot(
        Config(providers={"a": provider("a"), "b": provider("b", retries=7)}), never, first
    )
    assert second.handles["a"] is first.handles["a"]
    assert second.handles["b"] is not first.handles["b"]
    assert first.release() == [first.handles["b"]]
    assert first.release() == []
    assert set(second.release()) == set(second.handles.values())


def test_only_an_upstream_that_was_used_is_closed() -> None:
    built: list[Closable] = []

    def build(provider: Provider) -> Closable:
        built.append(slow())
        return built[-1]

    unused, used = ProviderHandle(provider("a"), build), ProviderHandle(provider("b"), build)
    assert used.upstream is used.upstream
    run(unused.close())
    run(used.close())
    assert unused.existing_upstream is None
    assert [upstream.is_closed for upstream in built] == [True]


def test_an_open_exchange_keeps_its_upstream_and_the_last_one_to_leave_closes_it() -> None:
    async def scenario() -> None:
        old = slow()
        bench = Bench({"up": old})
        clients = [RememberingClient() for _ in range(3)]
        exchanges = [bench.exchange(ask("openai_chat"), client) for client in clients]
        tasks = [asyncio.ensure_future(exchange.run()) for exchange in exchanges]
        await asyncio.sleep(1)
        bench.gateway.reload(Config())
        await asyncio.sleep(1)
        assert not old.is_closed
        await asyncio.gather(*tasks)
        assert [client.body for client in clients] == [b"".join(CHAT_STREAM)] * 3
        await asyncio.sleep(0)
        assert old.is_closed

    run(scenario())


def test_an_idle_upstream_whose_provider_changed_is_closed_at_once() -> None:
    async def scenario() -> None:
        upstreams = {"same": slow(), "changed": slow()}
        bench = Bench(upstreams)
        for contact in bench.gateway.snapshot.handles.values():
            assert contact.upstream is upstreams[contact.provider.name]
        bench.gateway.reload(with_key(bench.gateway.config, "changed", "new"))
        await asyncio.sleep(0)
        assert not upstreams["same"].is_closed
        assert upstreams["changed"].is_closed

    run(scenario())


@pytest.mark.parametrize("count", [1, 3])
def test_what_was_reloaded_several_times_is_closed_at_the_end(count: int) -> None:
    async def scenario() -> None:
        upstream = slow()
        bench = Bench({"up": upstream})
        task = asyncio.ensure_future(bench.exchange(ask("openai_chat"), RememberingClient()).run())
        await asyncio.sleep(1)
        for number in range(count):
            bench.gateway.reload(with_key(bench.gateway.config, "up", f"key {number}"))
        await bench.gateway.close()
        assert upstream.is_closed
        await task

    run(scenario())


def test_health_is_kept_for_what_stayed_and_forgotten_for_what_changed() -> None:
    async def scenario() -> None:
        bench = Bench({"same": slow(), "changed": slow()})
        gateway = bench.gateway
        for target in gateway.config.routes[0].targets:
            gateway.health.record_failure(TargetKey(target, 0), Failure(kind="server", message="broken"), 0.0)
        gateway.reload(with_key(gateway.config, "changed", "new"))
        assert [target.provider for target, _ in gateway.health.list_cooldowns(1.0)] == ["same"]

    run(scenario())


def test_an_exchange_that_was_made_before_a_reload_and_runs_after_it_is_answered() -> None:
    async def scenario() -> None:
        bench = Bench({"up": ScriptedUpstream(Script(pieces=CHAT_STREAM))})
        client = RememberingClient()
        exchange = bench.exchange(ask("openai_chat"), client)
        bench.gateway.reload(Config())
        await exchange.run()
        assert client.body == b"".join(CHAT_STREAM)

    run(scenario())


def test_however_often_it_is_reloaded_each_upstream_is_closed_after_its_last_exchange() -> None:
    async def scenario() -> None:
        upstreams = {f"up{number}": slow() for number in range(10)}
        bench = Bench(upstreams)
        everything = bench.gateway.config
        tasks = {}
        for name in upstreams:
            target = Route(match="*", targets=(TargetName(name, "*"),))
            config = Config(providers={name: everything.providers[name]}, routes=(target,))
            bench.gateway.reload(config)
            exchange = bench.exchange(ask("openai_chat"), RememberingClient())
            tasks[name] = asyncio.ensure_future(exchange.run())
            await asyncio.sleep(0.1)
        assert not any(upstream.is_closed for upstream in upstreams.values())
        for name, task in tasks.items():
            await task
            await asyncio.sleep(0)
            assert upstreams[name].is_closed == (name != "up9")
        await bench.gateway.close()
        assert upstreams["up9"].is_closed

    run(scenario())
