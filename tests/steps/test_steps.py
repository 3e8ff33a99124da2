"""Transformation steps: of other packages by their entry point, selected by provider, model and route."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.steps import BUILT_IN_STEPS, StepSettings
from dragoman.exchange.gateway import Gateway
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.events import BlockClosed, ReplyEvent, ReplyFinished
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.hub.usage import Usage
from dragoman.providers.profile import TargetFacts
from dragoman.steps.selection import BUILT_IN, StepSelection
from dragoman.steps.step import TransformStep
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import Bench, ExchangeResult, ScriptedUpstream
from tests.exchange.governing import question, script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import events_of_round, read_asked

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "steps.md").read_text("utf-8")
CODE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUTE = '[[routes]]\nmatch = "*"\ntarget = "up"\n'


def provider(dialect: str, more: str = "") -> str:
    return f'[providers.up]\ndialect = "{dialect}"\nbase_url = "http://127.0.0.1:9/v1"\n{more}\n'


@pytest.fixture
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the page, installed."""
    (tmp_path / "terse_step.py").write_text(CODE, "utf-8")
    info = tmp_path / "terse_step-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: terse-step\nVersion: 1.0\n")
    (entry,) = re.findall(r'```toml\n\[project.entry-points."dragoman.steps"\]\n(.*?)```', PAGE, re.DOTALL)
    (info / "entry_points.txt").write_text("[dragoman.steps]\n" + entry.replace('"', ""))
    monkeypatch.syspath_prepend(str(tmp_path))


def ask(
    config: Config, client: str, dialect: str, text: str = "a \u2014 b"
) -> tuple[ExchangeResult, Request]:
    """An exchange, and the request as the upstream reads it."""
    upstream = ScriptedUpstream(script(dialect, events_of_round(0, [Text(text=text)], Usage())))
    bench = Bench({"up": upstream})
    bench.gateway = Gateway(config, upstreams={"up": upstream})
    result = run(bench.run_exchange(question(client)))
    return result, read_asked(dialect, upstream.calls[0])


def find_system(request: Request) -> str:
    texts = [b.text for m in request.messages if m.role != "user" for b in m.blocks if isinstance(b, Text)]
    return "\n".join(texts)


@pytest.mark.rule("R76")
@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_the_step_of_the_page_works_for_every_api(client: str, dialect: str) -> None:
    assert len(CODE.splitlines()) <= 30
    table = "[steps.terse]\nsettings = { words = 50 }\n"
    config = load(provider(dialect, 'steps = ["terse"]') + table + ROUTE, "dragoman.toml", {})
    result, asked = ask(config, client, dialect)
    assert find_system(asked).startswith("Answer in 50 words or less.")
    assert read_essence(client, result.client.body).text == "a - b"


@pytest.mark.usefixtures("_package")
def test_the_test_of_the_page_passes() -> None:
    names: dict[str, object] = {}
    exec(TEST, names)  # noqa: S102 (the page is ours)
    test = names["test_the_step"]
    assert callable(test)
    test()


@pytest.mark.usefixtures("_package")
@pytest.mark.parametrize(
    ("more", "route", "is_used"),
    [
        ('steps = ["terse"]', "", True),
        ("", 'steps = ["terse"]\n', True),
        ("", "", False),
        ('steps = ["narrow"]', "", False),
    ],
)
def test_a_step_is_selected_by_provider_route_and_model(more: str, route: str, is_used: bool) -> None:
    tables = '[steps.narrow]\nuse = "terse"\nmodels = "qwen*"\n'
    more += '\ngovernance.tools = "live"'
    config = load(provider("anthropic", more) + tables + ROUTE + route, "dragoman.toml", {})
    result, asked = ask(config, "anthropic", "anthropic")
    assert ("Answer in" in find_system(asked)) is is_used
    assert result.record.lane == ("translate" if is_used else "forward")


class Broken(TransformStep):
    """A step that raises at the place in its settings."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._place = settings["place"]

    def change_request(self, request: Request, target: TargetFacts) -> Request:
        return self._fail("request", request)

    def build_stage(self, request: Request, target: TargetFacts) -> Stage:
        self._fail("build", None)
        return BrokenStage(self)

    def _fail(self, place: str, value: Request | None) -> Request:
        if place == self._place:
            raise KeyError("a part of the prompt")
        return value  # type: ignore[return-value]  # the mistake


class BrokenStage:
    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self, step: Broken) -> None:
        self._step = step

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, BlockClosed):
            self._step._fail("stage", None)
        return [event]


def ask_with_step(client: str, place: str) -> ExchangeResult:
    """The answer to a client whose provider has the step `force_reasoning`, which fails at this place."""
    table = f'[steps.force_reasoning]\nsettings = {{ place = "{place}" }}\n'
    config = load(provider("openai_chat", 'steps = ["force_reasoning"]') + table + ROUTE, "dragoman.toml", {})
    upstream = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Hi.")], Usage())))
    bench = Bench({"up": upstream})
    bench.gateway = Gateway(config, upstreams={"up": upstream})
    return run(bench.run_exchange(question(client)))


@pytest.mark.parametrize("place", ["request", "build", "stage"])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_step_that_raises_fails_its_request_alone(
    client: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "force_reasoning", Broken)
    result = ask_with_step(client, place)
    assert result.record.failure is not None
    assert "the step force_reasoning failed (KeyError)" in result.record.failure.message
    assert b"the step force_reasoning failed (KeyError)" in result.client.body
    assert b"a part of the prompt" not in result.client.body
    assert result.client.status == (200 if place == "stage" else 500)


class Wrong(TransformStep):
    """A step that returns what it must not, at the place in its settings."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._place = str(settings["place"])

    def change_request(self, request: Request, target: TargetFacts) -> Any:
        wrong = {
            "no request": None,
            "no message": replace(request, messages=("hi",)),
            "no block": replace(request, messages=(replace(request.messages[0], blocks=("hi",)),)),
        }
        if self._place == "leaves":
            raise SystemExit(3)
        return wrong.get(self._place, request)

    def build_stage(self, request: Request, target: TargetFacts) -> Any:
        return WrongStage(self._place) if self._place != "no stage" else 42


class WrongStage:
    unchanged_kinds: frozenset[type] = frozenset()

    def __init__(self, place: str) -> None:
        self._place = place

    def feed(self, event: ReplyEvent) -> Any:
        match self._place:
            case "no list":
                return None
            case "a generator":
                return (each for each in [event])
            case "no event":
                return ["hi"]
            case "a stage that leaves":
                raise SystemExit(3)
            case "no ending" if isinstance(event, ReplyFinished):
                return []
        return [event]


WRONG = {
    "no request": "it returned NoneType, not a Request",
    "no message": "it returned a message that is no Message of blocks",
    "no block": "it returned a message that is no Message of blocks",
    "leaves": "SystemExit",
    "no stage": "int is no stage",
    "no list": "feed returned what is no list of events",
    "a generator": "feed returned what is no list of events",
    "no event": "feed returned what is no list of events",
    "a stage that leaves": "SystemExit",
    "no ending": "it lost the ending of the reply",
}


@pytest.mark.parametrize("place", WRONG)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_step_that_returns_wrong_types_fails_its_request_alone(
    client: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "force_reasoning", Wrong)
    result = ask_with_step(client, place)
    assert f"the step force_reasoning failed ({WRONG[place]}".encode() in result.client.body
    assert result.record.failure is not None


def _raise(error: BaseException) -> Callable[[object], TransformStep]:
    def build(settings: object) -> TransformStep:
        raise error

    return build


@pytest.mark.parametrize("error", [RuntimeError("no licence"), SystemExit(3), ImportError("no library")])
def test_a_step_that_cannot_be_built_is_a_mistake_in_the_file(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "force_reasoning", _raise(error))
    config = load(provider("openai_chat", 'steps = ["force_reasoning"]') + ROUTE, "dragoman.toml", {})
    with pytest.raises(
        ConfigError, match=rf"steps\.force_reasoning: it cannot be built: {type(error).__name__}"
    ):
        StepSelection(config)


def test_the_package_of_a_step_may_be_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "lost_step-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost-step\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dragoman.steps]\nlost = lost_step_module:Step\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = load(provider("openai_chat", 'steps = ["lost"]') + ROUTE, "dragoman.toml", {})
    with pytest.raises(
        ConfigError, match=r"steps\.lost: its package cannot be imported: ModuleNotFoundError"
    ):
        StepSelection(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[steps.ters]\n", 'no installed package has a step "ters"'),
        ('[steps.a]\nuse = "force_reasonin"\n', "force_reasoning"),
        ("[steps.force_reasoning]\nwords = 5\n", "words"),
        (provider("openai_chat", 'steps = ["terse"]'), 'there is no step "terse"'),
        (provider("openai_chat") + ROUTE + 'steps = ["forc_reasoning"]', "force_reasoning"),
    ],
)
def test_mistakes_in_the_file_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text, "dragoman.toml", {})
    assert message in f"{caught.value} {caught.value.hint}"


def test_settings_that_a_step_refuses_are_a_mistake_in_the_file() -> None:
    text = (
        provider("openai_chat", 'steps = ["s"]')
        + '[steps.s]\nuse = "force_reasoning"\nsettings = { words = 5 }\n'
    )
    with pytest.raises(ConfigError, match=r"steps\.s\.settings: expected the text `instruction`"):
        StepSelection(load(text, "dragoman.toml", {}))


def test_the_built_in_steps_are_those_of_the_configuration() -> None:
    assert set(BUILT_IN) == set(BUILT_IN_STEPS)
    assert StepSettings().models == "*"


@pytest.mark.rule("R76")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses"])
def test_a_model_without_reasoning_is_made_to_reason(client: str, dialect: str) -> None:
    config = load(provider(dialect, 'steps = ["force_reasoning"]') + ROUTE, "dragoman.toml", {})
    text = "<reasoning_content>First this.</reasoning_content>\n\nThe answer."
    result, asked = ask(config, client, dialect, text)
    assert "<reasoning_content>" in find_system(asked)
    essence = read_essence(client, result.client.body)
    assert (essence.thoughts, essence.text) == ("First this.", "The answer.")


def test_a_thought_before_a_call_leaves_no_empty_text() -> None:
    config = load(provider("openai_chat", 'steps = ["force_reasoning"]') + ROUTE, "dragoman.toml", {})
    blocks: list[Text | Reasoning | ToolCall] = [
        Text(text="<reasoning_content>Read it.</reasoning_content>\n"),
        ToolCall(id="call_1abcdefgh", name="Read", arguments='{"path":"a"}'),
    ]
    upstream = ScriptedUpstream(script("openai_chat", events_of_round(0, blocks, Usage())))
    bench = Bench({"up": upstream})
    bench.gateway = Gateway(config, upstreams={"up": upstream})
    body = run(bench.run_exchange(question("anthropic"))).client.body
    essence = read_essence("anthropic", body)
    assert (essence.thoughts, essence.text) == ("Read it.", "")
    assert [name for name, _ in essence.calls] == ["Read"]
    assert b'"type":"text"' not in body
