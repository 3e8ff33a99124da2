"""Answers about models: the list, one model, and all routes."""

from collections.abc import Mapping
from types import MappingProxyType

from dragoman.accounts.keys import ANONYMOUS, Caller, check_model, may_use_model
from dragoman.config.config import Config
from dragoman.config.provider import ALIAS_PREFIX
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.providers.profile import Profile
from dragoman.routing.choose import choose, is_pattern
from dragoman.server.model_lists import Reported, list_served_models
from dragoman.server.paths import Endpoint, find_client_dialect

NONE_REPORTED: Mapping[str, Reported] = MappingProxyType({})


def build_models_body(
    config: Config,
    endpoint: Endpoint,
    headers: Mapping[str, str],
    caller: Caller = ANONYMOUS,
    reported: Mapping[str, Reported] = NONE_REPORTED,
) -> Json:
    """The model list, or one model. A model that no route serves is a 404 that lists the existing ones.

    `reported`: the models that the providers report.
    """
    http_api = dialect_named(find_client_dialect(endpoint, headers)).http_api
    if endpoint.name == "model":
        check_model(caller, endpoint.model)
        return http_api.describe_model(endpoint.model, _find_profile(config, endpoint.model))
    windows = list_served_models(config, reported)
    names = [name for name in windows if may_use_model(caller, name)]
    entries = [http_api.describe_model(name, _find_profile(config, name, windows[name])) for name in names]
    agent = headers.get("user-agent", "")
    for position, name in enumerate(names):
        if not http_api.lists_model(name, agent):
            names[position] = entries[position]["id"] = f"{ALIAS_PREFIX}{name}"
    return http_api.list_models(names, entries)


def describe_models(config: Config) -> Json:
    """All routes and providers with their models, for `dragoman models --json` and the admin API."""
    return {
        "routes": [
            {"match": route.match, "targets": list(map(str, route.targets)), "strict": route.strict}
            for route in config.routes
        ],
        "providers": [
            {
                "name": provider.name,
                "dialect": provider.dialect,
                "base_url": provider.base_url,
                "models": [model for model in provider.models if not is_pattern(model)],
                "obstacle": provider.obstacle,
            }
            for provider in config.providers.values()
        ],
        "default": list(map(str, config.default)),
    }


def _find_profile(config: Config, name: str, window: int = 0) -> Profile:
    """The facts of the model that would answer. `window`: what its server reports, if no fact states it."""
    target = choose(config, name).targets[0]
    profile = config.providers[target.provider].build_profile(target.model)
    is_known = profile.facts.context_tokens or not window
    return profile if is_known else profile.with_facts(context_tokens=window)
