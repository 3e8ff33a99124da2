"""The models that clients can ask for, in the form that each client expects."""

from collections.abc import Mapping

from dragoman.accounts.keys import ANONYMOUS, Caller, check_model, may_use_model
from dragoman.config.model import Config
from dragoman.dialects.base import Json
from dragoman.dialects.registry import DEFAULT_DIALECT, DIALECTS, dialect_named
from dragoman.providers.profile import Profile
from dragoman.routing.choose import choose, list_model_names
from dragoman.server.paths import Endpoint


def build_models_body(
    config: Config, endpoint: Endpoint, headers: Mapping[str, str], caller: Caller = ANONYMOUS
) -> Json:
    """The model list, or one model. A model that no route serves is a 404 that lists the existing ones."""
    surface = dialect_named(find_client_dialect(endpoint, headers)).surface
    if endpoint.name == "model":
        check_model(caller, endpoint.model)
        return surface.describe_model(endpoint.model, _find_profile(config, endpoint.model))
    names = [name for name in list_model_names(config) if may_use_model(caller, name)]
    return surface.list_models(
        names, [surface.describe_model(name, _find_profile(config, name)) for name in names]
    )


def find_client_dialect(endpoint: Endpoint, headers: Mapping[str, str]) -> str:
    """The client's dialect. Several APIs list their models under one path, so the headers decide there."""
    if endpoint.name in ("models", "model") and endpoint.dialect == DEFAULT_DIALECT:
        for name, dialect in DIALECTS.items():
            if any(header in headers for header in dialect.surface.client_headers):
                return name
    return endpoint.dialect


def _find_profile(config: Config, name: str) -> Profile:
    """The facts of the model that would answer."""
    target = choose(config, name).targets[0]
    return config.providers[target.provider].build_profile(target.model)
