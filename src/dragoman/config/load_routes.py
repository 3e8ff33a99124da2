"""Reads `[[routes]]` and `default`, and finds routes that have no effect or cannot work."""

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache

from dragoman.config.agents import read_session_changes
from dragoman.config.config import Config, Route
from dragoman.config.document import TomlTable
from dragoman.config.governance import read_governance_changes
from dragoman.config.load_payload import read_payload
from dragoman.config.mistakes import collect_mistakes, raise_mistakes
from dragoman.config.provider import TargetName
from dragoman.config.value_kinds import read_keys
from dragoman.hub.errors import ConfigError, suggest_spelling
from dragoman.providers.presets import list_catalogues, load_catalogue

_OPEN_BRACKET = re.compile(r"\[[^\]]*$")
_WILDCARD = re.compile(r"[*?\[]")


def read_routes(root: TomlTable) -> tuple[Route, ...]:
    """The routes of the file, in their order."""
    routes: dict[str, Route] = {}
    found: list[ConfigError] = []
    for table in root.tables("routes"):
        with collect_mistakes(found):
            route = _read_route(table, root.table("providers").values, routes)
            routes[route.match] = route
    raise_mistakes(found)
    return tuple(routes.values())


def _read_route(table: TomlTable, providers: Mapping[str, object], earlier: Mapping[str, Route]) -> Route:
    found: list[ConfigError] = []
    targets: tuple[TargetName, ...] = ()
    with collect_mistakes(found):
        table.check(read_keys(Route))
    with collect_mistakes(found):
        _check_match(table, earlier)
    with collect_mistakes(found):
        targets = read_targets(table, "target", providers)
    raise_mistakes(found)
    if not targets:
        raise table.error("expected `target`", hint='for example target = "provider/model"')
    weights = table.values.get("weights", ())
    if isinstance(weights, list) and len(weights) != len(targets):
        raise table.error(f"expected one weight for each of the {len(targets)} targets", "weights")
    if weights and table.text("order") != "weighted":
        raise table.error('weights have no effect without order = "weighted"', "weights")
    if table.values.get("hedge") and len(targets) == 1:
        raise table.error("hedge has no effect with one target", "hedge")
    return table.build(
        Route,
        targets=targets,
        on_overflow=read_targets(table, "on_overflow", providers),
        on_refusal=read_targets(table, "on_refusal", providers),
        payload=read_payload(table),
        session_limits=read_session_changes(table),
        governance=read_governance_changes(table),
    )


def _check_match(table: TomlTable, earlier: Mapping[str, Route]) -> None:
    if table.values.get("match", "") == "":
        raise table.error("expected `match`: the model name that clients send, or a pattern")
    match = table.text("match")
    if match in earlier:
        raise table.error("an earlier route has the same name, so this one is never used", "match")
    if _OPEN_BRACKET.search(match):
        hint = "[45] matches one of the characters in the brackets"
        raise table.error(f'the pattern "{match}" has a [ without a ]', "match", hint=hint)


def read_targets(table: TomlTable, key: str, providers: Mapping[str, object]) -> tuple[TargetName, ...]:
    """The targets of a key, as `provider/model` or `provider`. `providers` are the known names."""
    targets = []
    for name in table.texts(key):
        provider, slash, model = name.partition("/")
        if provider not in providers:
            hint = suggest_spelling(provider, providers) or f"providers: {', '.join(providers) or 'none'}"
            before, comma, after = name.partition(",")
            if comma and before.strip() in providers:
                hint = f'write "{before.strip()}/{after.strip()}"'
            raise table.error(f'no provider "{provider}"', key, hint=hint)
        if slash and not model:
            raise table.error("expected a model after the slash", key)
        targets.append(TargetName(provider, model or "*"))
    return tuple(targets)


def warn_about_routes(root: TomlTable, config: Config) -> None:
    """Warn about a file without providers, routes that are never used, and names that no model has."""
    if not config.providers:
        root.warn("there are no providers, so every request is refused", hint="`dragoman setup` adds one")
    for number, (route, table) in enumerate(zip(config.routes, root.tables("routes"), strict=True)):
        earlier = next(
            (each.match for each in config.routes[:number] if _covers(each.match, route.match)), ""
        )
        if earlier and _WILDCARD.search(route.match):
            root.warn(
                f'never used, because "{earlier}" above it matches the same names',
                *("routes", number),
                hint="move it above that route",
            )
        for target in route.targets:
            _warn_about_names(root, config, target, route.match, "routes", number, "target")
        _warn_about_order(table, config, route)
    if config.default and any(route.match == "*" for route in config.routes):
        root.warn('never used, because the route "*" matches every name', "default")
    elif not any(route.match == "*" for route in config.routes):
        for target in config.default:
            _warn_about_names(root, config, target, "*", "default")


def _warn_about_order(table: TomlTable, config: Config, route: Route) -> None:
    """Warn about settings of the order of targets that have no effect."""
    if route.order == "listed":
        if "sticky" in table.values:
            hint = "its targets are tried in their order; set another `order`"
            table.warn('`sticky` has no effect with order = "listed"', "sticky", hint=hint)
    elif len(route.targets) == 1:
        table.warn("`order` has no effect with one target", "order")
    elif route.order == "weighted" and not route.weights:
        hint = f"for example weights = {[1] * len(route.targets)}"
        table.warn("without `weights` all targets have the same share", "order", hint=hint)
    elif route.order == "cheapest":
        for target in (each for each in route.targets if each.model != "*"):
            if config.providers[target.provider].find_fact("price_input", target.model) is None:
                hint = f'set it: [providers.{target.provider}.models."{target.model}"] price_input = 1.0'
                table.warn(f"the price of {target} is unknown, so it is tried last", "target", hint=hint)


def _covers(pattern: str, other: str) -> bool:
    """Whether the pattern matches every name that the other one matches. Only `*` is understood."""
    return not re.search(r"[?\[]", pattern) and fnmatchcase(other, pattern)


def _warn_about_names(
    root: TomlTable, config: Config, target: TargetName, match: str, *keys: str | int
) -> None:
    """Warn if names of another vendor's models reach a provider that does not have them."""
    provider = config.providers[target.provider]
    own = [layer.models for layer in provider.layers if not layer.is_stated]
    if not own or provider.program is not None:
        return
    asked = match if target.model == "*" else target.model
    foreign = next(_list_foreign(asked, own[0]), "")
    if foreign:
        problem = f"{target.provider} has no model such as {foreign}"
        if target.model == "*":
            problem = (
                f"the requested name goes to {target.provider} unchanged, which {problem.partition(' ')[2]}"
            )
        root.warn(problem, *keys, hint=f'name one of its models: "{target.provider}/MODEL"')


def _list_foreign(asked: str, own: Iterable[str]) -> Iterator[str]:
    """Names of exclusive models that `asked` matches, and that no pattern of the own catalogue matches."""
    patterns = [pattern for pattern in own if pattern != "*"]
    for name in _list_exclusive_names():
        if fnmatchcase(name, asked) or (not _WILDCARD.search(asked) and asked.startswith(name)):
            shown = name if _WILDCARD.search(asked) else asked
            if not any(fnmatchcase(shown, pattern) for pattern in patterns):
                yield shown


@cache
def _list_exclusive_names() -> tuple[str, ...]:
    """A name for each catalogue entry whose models only their vendor has."""
    catalogues = filter(None, map(load_catalogue, list_catalogues()))
    patterns = [pattern for each in catalogues if each.exclusive for pattern in each.models if pattern != "*"]
    names = (pattern.partition("[")[0].rstrip("*-") for pattern in patterns)
    # A name without a version, such as `claude`, is the beginning of others.
    return tuple(
        dict.fromkeys(
            name
            for name in names
            if name and "*" not in name and not name.isalpha() and not name.endswith("-20")
        )
    )
