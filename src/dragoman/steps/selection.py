"""Which steps apply to a request, and what happens if one of them fails."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from typing import cast

from dragoman.config.config import Config, Route
from dragoman.config.provider import Provider
from dragoman.config.steps import STEP_ENTRY_POINTS, StepSettings
from dragoman.hub.blocks import AnyBlock
from dragoman.hub.errors import ConfigError, DragomanError, Failure
from dragoman.hub.events import Event, ReplyEvent, ReplyFailed, ReplyFinished
from dragoman.hub.request import Message, Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import TargetFacts
from dragoman.steps.force_reasoning import ForceReasoning
from dragoman.steps.step import TransformStep

#: What code of other packages may raise. `SystemExit` would end the gateway.
CODE_ERRORS = (Exception, SystemExit)
#: Every reply has one of these at its end.
ENDINGS = (ReplyFinished, ReplyFailed)

#: By the names of `BUILT_IN_STEPS`.
BUILT_IN: dict[str, Callable[[Mapping[str, object]], TransformStep]] = {"force_reasoning": ForceReasoning}


class StepFailed(DragomanError):
    """The code of a step raised an exception."""

    kind = "server"
    default_status = 500
    default_code = "step_failed"


class StepSelection:
    """The steps of one configuration."""

    def __init__(self, config: Config) -> None:
        self._settings = config.steps
        used = {name for provider in config.providers.values() for name in provider.steps}
        used |= {name for route in config.routes for name in route.steps}
        self._steps = {
            name: build_step(name, config.steps.get(name, StepSettings())) for name in sorted(used)
        }

    def select(self, provider: Provider, model: str, route: Route) -> "RequestSteps | None":
        """The steps of the provider, then of the route, that apply to this model; None if there are none."""
        if not self._steps:
            return None
        names = dict.fromkeys((*provider.steps, *route.steps))
        chosen = {name: self._steps[name] for name in names if self._applies(name, model)}
        return RequestSteps(chosen) if chosen else None

    def _applies(self, name: str, model: str) -> bool:
        settings = self._settings.get(name)
        return settings is None or fnmatchcase(model, settings.models)


class RequestSteps:
    """The steps of one request to one target, in their order."""

    def __init__(self, steps: Mapping[str, TransformStep]) -> None:
        self._steps = steps
        #: A step builds stages, so the reply must be read.
        self.changes_reply = any(
            type(step).build_stage is not TransformStep.build_stage for step in steps.values()
        )

    def change_request(self, request: Request, target: TargetFacts) -> Request:
        """The request after all steps; the same object if nothing changes."""
        for name, step in self._steps.items():
            try:
                changed: object = step.change_request(request, target)
            except CODE_ERRORS as error:
                raise _build_error(name, type(error).__name__) from error
            request = _check_request(name, changed)
        return request

    def build_stages(self, request: Request, target: TargetFacts) -> list[Stage]:
        """The stages of one round, in the order of the steps."""
        stages: list[Stage] = []
        for name, step in self._steps.items():
            try:
                stage: object = step.build_stage(request, target)
            except CODE_ERRORS as error:
                raise _build_error(name, type(error).__name__) from error
            if stage is not None:
                stages.append(StepStage(name, stage))
        return stages


def _check_request(name: str, changed: object) -> Request:
    """The request that a step returns. Raises `StepFailed` if parts of it have wrong types."""
    if not isinstance(changed, Request):
        raise _build_error(name, f"it returned {type(changed).__name__}, not a Request")
    messages: Iterable[object] = changed.messages
    for message in messages:
        if not isinstance(message, Message) or not all(isinstance(each, AnyBlock) for each in message.blocks):
            raise _build_error(name, "it returned a message that is no Message of blocks")
    return changed


class StepStage:
    """Runs the stage of a step. Its mistakes become a `ReplyFailed`; the gateway goes on."""

    def __init__(self, name: str, stage: object) -> None:
        """Raises `StepFailed` if the object is no stage."""
        if not (callable(getattr(stage, "feed", None)) and hasattr(stage, "unchanged_kinds")):
            raise _build_error(name, f"{type(stage).__name__} is no stage: it needs feed and unchanged_kinds")
        self._name = name
        self._stage = cast(Stage, stage)
        self._has_failed = False

    @property
    def unchanged_kinds(self) -> frozenset[type]:
        return frozenset() if self._has_failed else self._stage.unchanged_kinds

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if self._has_failed:
            return []
        try:
            events: object = self._stage.feed(event)
        except CODE_ERRORS as error:
            return self._fail(type(error).__name__)
        if not isinstance(events, list) or not all(isinstance(each, Event) for each in events):
            return self._fail("feed returned what is no list of events")
        if isinstance(event, ENDINGS) and not any(isinstance(each, ENDINGS) for each in events):
            return self._fail("it lost the ending of the reply")
        return events

    def _fail(self, reason: str) -> list[ReplyEvent]:
        self._has_failed = True
        return [ReplyFailed("failed", _build_error(self._name, reason).failure)]


def build_step(name: str, settings: StepSettings) -> TransformStep:
    """The step of a table: one that is built in, or that of an entry point. Raises `ConfigError`."""
    used = settings.use or name
    build = BUILT_IN.get(used)
    if build is None:
        points = entry_points(group=STEP_ENTRY_POINTS, name=used)
        if not points:
            raise ConfigError(f"steps.{name}: no installed package has a step {used!r}")
        try:
            build = next(iter(points)).load()
        except CODE_ERRORS as error:
            raise ConfigError(f"steps.{name}: its package cannot be imported: {error!r}") from error
    try:
        step: object = build(settings.settings)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"steps.{name}.settings: {error}") from None
    except CODE_ERRORS as error:
        raise ConfigError(f"steps.{name}: it cannot be built: {error!r}") from error
    if not isinstance(step, TransformStep):
        raise ConfigError(f"steps.{name}: expected a TransformStep")
    return step


def _build_error(name: str, reason: str) -> StepFailed:
    """The reason is without the message of an exception, which may contain parts of a prompt."""
    message = f"the step {name} failed ({reason})"
    failure = Failure(kind="server", status=500, message=message, code="step_failed")
    return StepFailed(message, failure=failure)
