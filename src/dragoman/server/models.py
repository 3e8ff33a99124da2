"""The models that clients can ask for, in the shape that each client expects."""

from collections.abc import Mapping
from typing import Protocol

from dragoman.accounts.keys import ANONYMOUS, Caller, check_model, may_use_model
from dragoman.config.model import Config
from dragoman.providers.profile import Profile
from dragoman.routing.choose import choose, list_model_names
from dragoman.server.paths import Endpoint

#: A fixed date: the registry knows names, not birthdays.
CREATED = 1_700_000_000
CREATED_TEXT = "2023-11-14T22:13:20Z"

#: Headers by which a vendor's clients can be told.
_SIGNS = {"anthropic-version": "anthropic", "x-goog-api-client": "gemini", "x-goog-api-key": "gemini"}


class Shape(Protocol):
    def __call__(self, name: str, profile: Profile) -> dict[str, object]: ...


def models_body(
    config: Config, endpoint: Endpoint, headers: Mapping[str, str], caller: Caller = ANONYMOUS
) -> dict[str, object]:
    """The list, or one model; asking for one that no route serves is a 404 that lists what exists."""
    dialect = dialect_of_client(endpoint, headers)
    shape = SHAPES.get(dialect, _openai)
    if endpoint.name == "model":
        check_model(caller, endpoint.model)
        return shape(endpoint.model, _profile(config, endpoint.model))
    names = [name for name in list_model_names(config) if may_use_model(caller, name)]
    entries = [shape(name, _profile(config, name)) for name in names]
    if dialect == "anthropic":
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": entries, "has_more": False, "first_id": first, "last_id": last}
    if dialect == "gemini":
        return {"models": entries}
    return {"object": "list", "data": entries}


def dialect_of_client(endpoint: Endpoint, headers: Mapping[str, str]) -> str:
    """Whose client asks, where several vendors list their models under one path."""
    if endpoint.name in ("models", "model") and endpoint.dialect != "gemini":
        return next((dialect for name, dialect in _SIGNS.items() if name in headers), endpoint.dialect)
    return endpoint.dialect


def _profile(config: Config, name: str) -> Profile:
    """What is known about the model that would answer."""
    target = choose(config, name).targets[0]
    return config.providers[target.provider].build_profile(target.model)


def _anthropic(name: str, profile: Profile) -> dict[str, object]:
    return {"type": "model", "id": name, "display_name": name, "created_at": CREATED_TEXT}


def _openai(name: str, profile: Profile) -> dict[str, object]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": profile.provider or "dragoman"}


def _gemini(name: str, profile: Profile) -> dict[str, object]:
    limits = {
        "inputTokenLimit": profile.facts.context_tokens,
        "outputTokenLimit": profile.facts.max_output_tokens,
    }
    return {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
        **{key: limit for key, limit in limits.items() if limit},
    }


SHAPES: dict[str, Shape] = {"anthropic": _anthropic, "gemini": _gemini}
