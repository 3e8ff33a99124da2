"""Answers about models: the list, one model, all routes, and the estimated token count of a request."""

from collections.abc import Mapping
from types import MappingProxyType

from dragoman.accounts.keys import ANONYMOUS, Caller, check_model, may_use_model
from dragoman.config.config import Config
from dragoman.config.provider import ALIAS_PREFIX, TargetName
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.providers.profile import Profile
from dragoman.routing.choose import ModelNotFound, choose, is_pattern
from dragoman.server.model_lists import Reported, list_served_models
from dragoman.server.paths import Endpoint, find_client_dialect
from dragoman.tokens.request import estimate_tokens, read_count_request
from dragoman.tokens.tokenizers import find_tokenizer

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


def build_count_body(config: Config, endpoint: Endpoint, body: bytes) -> Json:
    """The number of input tokens of a request, by the tokens of the model that would answer it.

    Raises `ModelNotFound` if neither a route nor a rule can serve the model. A model that only rules serve
    is counted by its own name: rules decide by the whole request, which is not here.
    """
    request = read_count_request(endpoint.dialect, body, endpoint.model)
    tokenizer = find_tokenizer(request.model, endpoint.dialect)
    target = _find_target(config, request.model) if request.model else None
    if target is not None:
        provider = config.providers[target.provider]
        if not provider.is_stand_in:
            tokenizer = find_tokenizer(target.model, provider.wire_dialect)
    return dialect_named(endpoint.dialect).counting.write_answer(estimate_tokens(request, tokenizer))


def _find_target(config: Config, model: str) -> TargetName | None:
    """The first target of the model's route; None if only rules can serve it."""
    try:
        return choose(config, model).targets[0]
    except ModelNotFound:
        if not config.rules:
            raise
    return None


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
