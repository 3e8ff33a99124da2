"""`RuleFunctions`: runs the Python functions of rules, which are code of the user, within their time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from threading import Thread
from typing import TypeVar

import msgspec

from dragoman.config.config import Config
from dragoman.config.load_rules import resolve_function_file
from dragoman.config.provider import TargetName
from dragoman.config.rules import Rule
from dragoman.routing.choose import RouteChoice, apply_rule, find_direct_target
from dragoman.routing.traits import RequestTraits

#: Calls of one function that still run after their time. With so many of them the function is not called.
MAX_LATE = 4
#: Seconds in which the file of a function must be imported, at its first call.
MAX_IMPORT = 10.0

Result = TypeVar("Result")
#: What a function of a rule returns: a target, several in the order of trial, or None: the next rule decides.
FunctionResult = str | Sequence[str] | None
RuleFunction = Callable[[RequestTraits], FunctionResult]


class RuleFunctionFailed(Exception):
    """A function names no target because of a mistake. The text has the reason, and no part of the request.

    The cause is the exception of the function, if it raised one.
    """


class RuleFunctions:
    """The functions of one configuration. A new configuration imports their files again.

    Python cannot stop a thread, so each call has one of its own, which does not keep the gateway from ending.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: dict[str, RuleFunction] = {}
        #: The calls of each function that still run although their time is over.
        self._late: Counter[str] = Counter()

    async def choose(self, rule: Rule, model: str, traits: RequestTraits) -> RouteChoice | None:
        """What the rule's function chooses; None: the next rule decides. Raises `RuleFunctionFailed`."""
        name = rule.function
        function = self._loaded.get(name)
        if function is None:
            function = await self._run(name, MAX_IMPORT, load_function, name, self._config.path)
            self._loaded[name] = function
        result = await self._run(name, rule.timeout, function, traits)
        return build_function_choice(self._config, rule, model, result)

    async def _run(
        self, name: str, seconds: float, function: Callable[..., Result], *arguments: object
    ) -> Result:
        """Call code of the function `name` in a thread. Raises `RuleFunctionFailed`."""
        if self._late[name] >= MAX_LATE:
            raise RuleFunctionFailed(f"it is not called while {MAX_LATE} earlier calls still run")
        loop = asyncio.get_running_loop()
        ending: asyncio.Future[Result] = loop.create_future()

        def end(result: Result | None, error: RuleFunctionFailed | None) -> None:
            if ending.done():
                self._late[name] -= 1
            elif error is not None:
                ending.set_exception(error)
            else:
                ending.set_result(result)  # type: ignore[arg-type]  # Without an error there is a result.

        def work() -> None:
            result, error = None, None
            try:
                result = _call_guarded(function, *arguments)
            except RuleFunctionFailed as failed:
                error = failed
            # The loop may be closed: a late call can outlive it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(end, result, error)

        Thread(target=work, name="dragoman-rule", daemon=True).start()
        try:
            async with asyncio.timeout(seconds or None):
                return await ending
        except TimeoutError:
            raise RuleFunctionFailed(f"it took longer than {seconds:g} s") from None
        finally:
            if ending.cancelled():
                self._late[name] += 1


def _call_guarded(function: Callable[..., Result], *arguments: object) -> Result:
    """Call code of the user. Nothing that it raises, also not `SystemExit`, may end the gateway."""
    try:
        return function(*arguments)
    except RuleFunctionFailed:
        raise
    except BaseException as error:
        raise RuleFunctionFailed(f"it raised {type(error).__name__}") from error


def load_function(function: str, config_path: str) -> RuleFunction:
    """Import the function of a rule: `FILE.py:NAME`, relative to the configuration, or `module:NAME`."""
    place, _, name = function.rpartition(":")
    if place.endswith(".py"):
        path = resolve_function_file(function, config_path)
        spec = spec_from_file_location(f"dragoman_rule_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ImportError(place)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = import_module(place)
    found: RuleFunction | None = getattr(module, name, None)
    if not callable(found):
        raise RuleFunctionFailed(f"{place} has no function {name}")
    return found


def build_function_choice(
    config: Config, rule: Rule, model: str, result: FunctionResult
) -> RouteChoice | None:
    """The route choice for the result of a rule's function; None if the result is None or an empty list.

    Raises `RuleFunctionFailed` if the result has a wrong type, or contains what is no target and no route.
    """
    if result is None:
        return None
    names = (result,) if isinstance(result, str) else result
    if not isinstance(names, list | tuple):
        raise RuleFunctionFailed(f"it returned a value of type {type(names).__name__}")
    if len(names) == 1 and any(route.match == names[0] for route in config.routes):
        return apply_rule(config, msgspec.structs.replace(rule, function="", route=names[0]), model)
    targets = tuple(_find_target(config, name) for name in names)
    if not targets:
        return None
    return apply_rule(config, msgspec.structs.replace(rule, function="", targets=targets), model)


def _find_target(config: Config, name: object) -> TargetName:
    """The target of a name. A provider alone keeps the client's model name, as in the configuration."""
    if isinstance(name, str):
        target = TargetName(name, "*") if name in config.providers else find_direct_target(config, name)
        if target is not None:
            return target
    raise RuleFunctionFailed("it returned what is no target and no route")
