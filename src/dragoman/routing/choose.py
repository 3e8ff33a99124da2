"""Finds the targets for the model name of a request."""

from difflib import get_close_matches
from fnmatch import fnmatchcase

import msgspec

from dragoman.config.config import Config, Route
from dragoman.config.provider import TargetName, remove_alias
from dragoman.config.rules import Rule
from dragoman.hub.errors import ClientProtocolError, DragomanError, Failure
from dragoman.hub.request import EFFORTS, Effort

#: Names in an error message, and characters of the client's model name in it.
MAX_LISTED = 20
MAX_QUOTED = 200

_PATTERN = frozenset("*?[")


class ModelNotFound(DragomanError):
    """No route serves the requested model."""

    kind = "not_found"
    default_status = 404
    default_code = "model_not_found"


class RouteChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The targets of a request in the order of preference, and the route with its settings.

    A request without a configured route has one with default settings, named `direct` or `default`, or after
    the rule that chose its targets.
    """

    #: The targets of the route, with the client's model name instead of `*`.
    targets: tuple[TargetName, ...]
    route: Route
    #: The effort that the end of the model's name sets.
    effort: Effort | None = None
    #: The rule that decided; empty: no rule did.
    rule: str = ""
    #: The name in the prompt's tag, if it decided. The client chose it.
    tag: str = ""
    #: The gateway answers with this text itself; then there are no targets.
    answer: str = ""


def choose(config: Config, model: str) -> RouteChoice:
    """Find the targets of a model name. Raises `ModelNotFound` if there are none.

    A request without a model name (`model` is empty) is invalid unless a pattern or the default serves it:
    clients that probe a gateway take a 404 for a missing endpoint.

    The order is: a route with exactly this name, `provider/model`, a route that this name without its effort
    matches, the first route whose pattern matches, the default.
    """
    exact = choose_exact(config, model)
    if exact is not None:
        return exact
    base, effort = _split_effort(model)
    for route in config.routes:
        if effort and route.effort_suffix and fnmatchcase(base, route.match):
            return _build_choice(route, base, effort=effort)
    for route in config.routes:
        if fnmatchcase(model, route.match):
            return _build_choice(route, model)
    if config.default:
        return _build_choice(Route(match="default", targets=config.default), model)
    if not model:
        hint = f"there are: {_list_served(config)}"
        raise ClientProtocolError("expected the name of a model, got nothing", path="model", hint=hint)
    raise _build_not_found(config, model)


def choose_exact(config: Config, model: str) -> RouteChoice | None:
    """The targets of a route with exactly this name, or of `provider/model`; None if there is neither.

    `provider,model` means the same: users of claude-code-router write it. The prefix of an alias is ignored.
    """
    for name in dict.fromkeys((model, remove_alias(model))):
        for route in config.routes:
            if route.match == name:
                return _build_choice(route, name)
    model = remove_alias(model)
    target = find_direct_target(config, model)
    return _build_choice(Route(match="direct", targets=(target,)), model) if target else None


def find_direct_target(config: Config, model: str) -> TargetName | None:
    """The target that a name such as `provider/model` or `provider,model` means; None for other names."""
    for separator in "/,":
        provider, _, rest = model.partition(separator)
        if rest.strip() and provider.strip() in config.providers:
            return TargetName(provider.strip(), rest.strip())
    return None


def apply_rule(config: Config, rule: Rule, model: str, tag: str = "") -> RouteChoice | None:
    """The choice of a rule that holds; None if it leads nowhere. `tag` is the name in the prompt's tag."""
    if rule.answer:
        return RouteChoice(
            targets=(), route=Route(match=rule.name, targets=()), rule=rule.name, answer=rule.answer
        )
    if rule.uses_tag:
        found = choose_exact(config, tag) if tag else None
        return msgspec.structs.replace(found, rule=rule.name, tag=tag) if found else None
    if not rule.route:
        return _build_choice(Route(match=rule.name, targets=rule.targets), model, rule=rule.name)
    route = next(each for each in config.routes if each.match == rule.route)
    base, effort = _split_effort(model) if route.effort_suffix else (model, None)
    return _build_choice(route, base, effort=effort, rule=rule.name)


def _split_effort(model: str) -> tuple[str, Effort | None]:
    """The name without its end, and the effort that the end sets; the whole name if it sets none."""
    base, _, suffix = model.rpartition("-")
    effort = next((each for each in EFFORTS if each == suffix), None) if base else None
    return (base, effort) if effort else (model, None)


def _build_choice(route: Route, model: str, *, effort: Effort | None = None, rule: str = "") -> RouteChoice:
    targets = _fill_in_model(route.targets, model)
    return RouteChoice(targets=targets, route=route, effort=effort, rule=rule)


def _fill_in_model(targets: tuple[TargetName, ...], model: str) -> tuple[TargetName, ...]:
    """Replace the model `*` by the name that the client sent."""
    return tuple(TargetName(t.provider, model) if t.model == "*" else t for t in targets)


def is_pattern(name: str) -> bool:
    return not _PATTERN.isdisjoint(name)


def list_model_names(config: Config) -> list[str]:
    """The model names that clients can request, in the order of the configuration.

    A target that only patterns lead to is listed with its direct name, `provider/model`.
    """
    names = [route.match for route in config.routes if not is_pattern(route.match)]
    targets = [t for route in config.routes if is_pattern(route.match) for t in route.targets]
    names += [str(target) for target in (*targets, *config.default) if target.model != "*"]
    for provider in config.providers.values():
        names += [f"{provider.name}/{model}" for model in provider.models if not is_pattern(model)]
    return list(dict.fromkeys(names))


def _list_requestable(config: Config) -> list[str]:
    """What a client can request, with patterns and the direct names of every provider."""
    names = [*list_model_names(config), *(route.match for route in config.routes if is_pattern(route.match))]
    return [*names, *(f"{provider}/MODEL" for provider in config.providers)]


def _list_served(config: Config) -> str:
    """What a client can request, for a message: at most `MAX_LISTED` names."""
    names = _list_requestable(config)
    known = ", ".join(names[:MAX_LISTED]) or "none"
    return f"{known} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else known


def _build_not_found(config: Config, model: str) -> ModelNotFound:
    close = get_close_matches(model[:MAX_QUOTED], _list_requestable(config), n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else ""
    message = f"there is no model {model[:MAX_QUOTED]!r} here; there are: {_list_served(config)}{suggestion}"
    return ModelNotFound(
        message,
        failure=Failure(kind="not_found", status=404, message=message, code="model_not_found", param="model"),
    )
