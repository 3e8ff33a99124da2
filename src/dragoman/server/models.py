"""The models that clients can ask for, in the shape that each client expects."""

from collections.abc import Mapping
from typing import Protocol

from dragoman.config.model import Config
from dragoman.limits.caller import ANYONE, Caller, check_model, may_use
from dragoman.providers.profile import Profile
from dragoman.routing.choose import choose, model_names
from dragoman.server.paths import Endpoint

#: A fixed date: the registry knows names, not birthdays.
CREATED = 1_700_000_000
CREATED_TEXT = "2023-11-14T22:13:20Z"


class Shape(Protocol):
    def __call__(self, name: str, profile: Profile) -> dict[str, object]: ...


def models_body(
    config: Config, endpoint: Endpoint, headers: Mapping[str, str], caller: Caller = ANYONE
) -> dict[str, object]:
    """The list, or one model; asking for one that no route serves is a 404 that lists what exists."""
    dialect = endpoint.dialect
    if dialect != "gemini" and "anthropic-version" in headers:
        dialect = "anthropic"
    shape = SHAPES.get(dialect, _openai)
    if endpoint.name == "model":
        check_model(caller, endpoint.model)
        return shape(endpoint.model, _profile(config, endpoint.model))
    names = [name for name in model_names(config) if may_use(caller, name)]
    entries = [shape(name, _profile(config, name)) for name in names]
    if dialect == "anthropic":
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": entries, "has_more": False, "first_id": first, "last_id": last}
    if dialect == "gemini":
        return {"models": entries}
    return {"object": "list", "data": entries}


def _profile(config: Config, name: str) -> Profile:
    """What is known about the model that would answer."""
    target = choose(config, name).targets[0]
    return config.providers[target.provider].profile(target.model)


def _anthropic(name: str, profile: Profile) -> dict[str, object]:
    return {"type": "model", "id": name, "display_name": name, "created_at": CREATED_TEXT}


def _openai(name: str, profile: Profile) -> dict[str, object]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": profile.provider or "dragoman"}


def _gemini(name: str, profile: Profile) -> dict[str, object]:
    limits = {"inputTokenLimit": profile.context_tokens, "outputTokenLimit": profile.max_output_tokens}
    return {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
        **{key: limit for key, limit in limits.items() if limit},
    }


SHAPES: dict[str, Shape] = {"anthropic": _anthropic, "gemini": _gemini}
