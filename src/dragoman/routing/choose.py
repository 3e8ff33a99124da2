"""From the model's name, as the client says it, to the targets that may serve it, in order."""

from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from dragoman.config.model import Config, Route, TargetName
from dragoman.hub.errors import DragomanError, Failure

#: How many names an error lists, and how much it repeats of the client's.
LISTED = 20
QUOTED = 200

_PATTERN = frozenset("*?[")


class ModelNotFound(DragomanError):
    kind = "not_found"
    default_status = 404
    default_code = "model_not_found"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    targets: tuple[TargetName, ...]
    strict: bool = False
    #: What the route asks of tool calls, beyond what the target's provider does.
    governance: dict[str, object] = {}
    #: What chose it, for logs: a route's pattern, `direct` or `default`.
    route: str


def choose(config: Config, model: str) -> Choice:
    """A route of just this name, else `provider/model`, else the first pattern that fits, or the default."""
    for route in config.routes:
        if route.match == model:
            return _taken(route, model)
    provider, _, rest = model.partition("/")
    if rest and provider in config.providers:
        return Choice(targets=(TargetName(provider, rest),), route="direct")
    for route in config.routes:
        if fnmatchcase(model, route.match):
            return _taken(route, model)
    if config.default:
        return Choice(targets=_named(config.default, model), route="default")
    raise _not_found(config, model)


def _taken(route: Route, model: str) -> Choice:
    return Choice(
        targets=_named(route.targets, model),
        strict=route.strict,
        governance=route.governance,
        route=route.match,
    )


def _named(targets: tuple[TargetName, ...], model: str) -> tuple[TargetName, ...]:
    """A target of model `*` takes the client's own name."""
    return tuple(TargetName(t.provider, model) if t.model == "*" else t for t in targets)


def is_pattern(name: str) -> bool:
    return not _PATTERN.isdisjoint(name)


def model_names(config: Config) -> list[str]:
    """Names that clients may ask for and that stand for one model, in the order of the file.

    Where only patterns lead to a target, its direct name is the one to ask for.
    """
    names = [route.match for route in config.routes if not is_pattern(route.match)]
    targets = [t for route in config.routes if is_pattern(route.match) for t in route.targets]
    names += [str(target) for target in (*targets, *config.default) if target.model != "*"]
    for provider in config.providers.values():
        names += [f"{provider.name}/{model}" for model in provider.models if not is_pattern(model)]
    return list(dict.fromkeys(names))


def _not_found(config: Config, model: str) -> ModelNotFound:
    names = [*model_names(config), *(route.match for route in config.routes if is_pattern(route.match))]
    names += [f"{provider}/MODEL" for provider in config.providers]
    known = ", ".join(names[:LISTED]) or "none"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    near = get_close_matches(model[:QUOTED], names, n=1)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    message = f"there is no model {model[:QUOTED]!r} here; there are: {known}{more}{guess}"
    return ModelNotFound(
        message,
        failure=Failure(kind="not_found", status=404, message=message, code="model_not_found", param="model"),
    )
