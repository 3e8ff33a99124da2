"""The model list has the models that the providers report, and no client waits for a provider."""

import asyncio
from collections.abc import Callable, Mapping
from threading import Event

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.provider import Provider, TargetName
from dragoman.routing.choose import choose, list_model_names
from dragoman.server.model_lists import MAX_AGE, RETRY_AFTER, ModelLists, list_served_models
from dragoman.server.models import build_models_body
from dragoman.server.paths import find_endpoint

TEXT = """
[providers.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:1/v1"
[providers.vendor]
dialect = "anthropic"
base_url = "https://vendor.example"
api_key = "k"
[[routes]]
match = "mine"
target = "local/large"
[[routes]]
match = "claude-*"
target = "vendor/*"
"""
CONFIG = load(TEXT, "f.toml", {})
REPORTED = {"local": {"large": 32_768, "small:latest": 0}, "vendor": {"claude-9": 0, "other": 0}}


@pytest.mark.rule("M21")
def test_a_reported_model_has_its_own_name_if_that_leads_to_it() -> None:
    assert list_served_models(CONFIG, REPORTED) == {
        "mine": 0,
        "local/large": 32_768,
        "local/small:latest": 0,
        "claude-9": 0,
        "vendor/other": 0,
    }


NAMES = st.text("ab/,:*-9", min_size=1, max_size=8)


@pytest.mark.rule("M21")
@given(st.dictionaries(st.sampled_from(["local", "vendor"]), st.dictionaries(NAMES, st.integers(0, 9))))
def test_every_listed_name_leads_to_a_target_and_each_reported_model_is_listed(
    reported: Mapping[str, Mapping[str, int]],
) -> None:
    names = list_served_models(CONFIG, reported)
    assert list(names)[: len(list_model_names(CONFIG))] == list_model_names(CONFIG)
    targets = {choose(CONFIG, name).targets[0] for name in names}
    for provider, models in reported.items():
        for model in models:
            if "*" in model:
                assert not any(model in name for name in names)
                continue
            shortened = TargetName(provider, model.removesuffix(":latest"))
            assert {TargetName(provider, model), shortened} & targets


@pytest.mark.rule("M4", "M21")
@pytest.mark.parametrize(
    ("path", "headers", "key", "name", "window"),
    [
        ("/v1/models", {}, "data", "id", "context_length"),
        ("/v1/models", {"anthropic-version": "x"}, "data", "id", "max_input_tokens"),
        ("/v1beta/models", {}, "models", "baseModelId", "inputTokenLimit"),
    ],
)
def test_each_dialect_has_the_reported_window(
    path: str, headers: dict[str, str], key: str, name: str, window: str
) -> None:
    endpoint = find_endpoint(path)
    assert endpoint is not None
    body = build_models_body(CONFIG, endpoint, headers, reported=REPORTED)
    entries = {entry[name]: entry for entry in msgspec.convert(body[key], list[dict[str, object]])}
    assert entries["local/large"][window] == 32_768
    assert window not in entries["local/small:latest"]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def run_lists(
    scenario: Callable[[ModelLists, Clock], object], read: Callable[[Provider], Mapping[str, int]]
) -> None:
    async def run() -> None:
        clock = Clock()
        result = scenario(ModelLists(read, clock), clock)
        if asyncio.iscoroutine(result):
            await result

    asyncio.run(run())


ONE = load(TEXT.replace('dialect = "anthropic"', 'dialect = "anthropic"\nlist_models = false'), "f.toml", {})


def test_a_client_does_not_wait_for_a_provider_that_does_not_answer() -> None:
    may_answer = Event()

    def read(provider: Provider) -> Mapping[str, int]:
        may_answer.wait(60)
        return {"late": 1}

    async def scenario(lists: ModelLists, clock: Clock) -> None:
        assert await lists.find(ONE) == {}
        may_answer.set()
        while not (found := await lists.find(ONE)):
            await asyncio.sleep(0.01)
        assert found == {"local": {"late": 1}}

    run_lists(scenario, read)


def test_a_list_is_kept_and_read_again_when_it_is_old() -> None:
    answers = [{"one": 1}, {}, {"two": 2}]
    asked: list[str] = []

    def read(provider: Provider) -> Mapping[str, int]:
        asked.append(provider.name)
        return answers[len(asked) - 1]

    async def settle(lists: ModelLists, count: int) -> dict[str, Mapping[str, int]]:
        """The lists after so many reads."""
        found = await lists.find(ONE)
        while len(asked) < count or lists._running:
            await asyncio.sleep(0.01)
        return await lists.find(ONE) if len(asked) == count else found

    async def scenario(lists: ModelLists, clock: Clock) -> None:
        assert await settle(lists, 1) == {"local": {"one": 1}}
        assert await settle(lists, 1) == {"local": {"one": 1}}
        clock.now += MAX_AGE + 1
        # A provider that answers no more does not empty the list.
        assert await settle(lists, 2) == {"local": {"one": 1}}
        clock.now += MAX_AGE + 1
        assert await settle(lists, 3) == {"local": {"two": 2}}

    run_lists(scenario, read)
    assert RETRY_AFTER < MAX_AGE


def test_a_list_of_another_address_is_not_used() -> None:
    changed = load(TEXT.replace("127.0.0.1:1/", "127.0.0.1:2/"), "f.toml", {})

    async def scenario(lists: ModelLists, clock: Clock) -> None:
        for config, expected in ((CONFIG, "http://127.0.0.1:1/v1"), (changed, "http://127.0.0.1:2/v1")):
            while expected not in (await lists.find(config)).get("local", {}):
                await asyncio.sleep(0.01)

    run_lists(scenario, lambda provider: {provider.base_url: 1})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("", ""), id="asked"),
        pytest.param(
            (
                'base_url = "http://127.0.0.1:1/v1"\n',
                'base_url = "http://127.0.0.1:1/v1"\nlist_models = false\n',
            ),
            id="off",
        ),
        pytest.param(
            (
                'base_url = "http://127.0.0.1:1/v1"\n',
                'base_url = "http://127.0.0.1:1/v1"\nproxy = "http://127.0.0.1:3"\n',
            ),
            id="proxy",
        ),
        pytest.param(
            ('base_url = "http://127.0.0.1:1/v1"\n', 'base_url = "http://127.0.0.1:1/v1"\nverify = false\n'),
            id="certificates",
        ),
        pytest.param(
            ('base_url = "http://127.0.0.1:1/v1"\n', 'base_url = "http://127.0.0.1:1/v1"\nauth = "client"\n'),
            id="the client's credential",
        ),
        pytest.param(
            (
                'base_url = "http://127.0.0.1:1/v1"\n',
                'base_url = "http://127.0.0.1:1/v1"\napi_key = "env:UNSET"\n',
            ),
            id="no key",
        ),
        pytest.param(
            ('dialect = "openai_chat"\nbase_url = "http://127.0.0.1:1/v1"\n', 'dialect = "embedded"\n'),
            id="program",
        ),
    ],
)
def test_only_a_provider_that_the_gateway_calls_itself_is_asked(change: tuple[str, str]) -> None:
    config: Config = load(TEXT.replace(*change) if change[0] else TEXT, "f.toml", {})
    asked: list[str] = []

    def read(provider: Provider) -> Mapping[str, int]:
        asked.append(provider.name)
        return {"m": 1}

    async def scenario(lists: ModelLists, clock: Clock) -> None:
        while "vendor" not in await lists.find(config):
            await asyncio.sleep(0.01)
        await lists.find(config)

    run_lists(scenario, read)
    assert ("local" in asked) == (change == ("", ""))
