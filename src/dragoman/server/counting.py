"""Counts a request's tokens as the model that would answer it counts them."""

from dragoman.config.model import Config
from dragoman.dialects.base import Json
from dragoman.dialects.registry import dialect_named
from dragoman.routing.choose import choose
from dragoman.server.paths import Endpoint
from dragoman.tokens.families import find_family
from dragoman.tokens.request import estimate_tokens, read_count_request


def count_answer(config: Config, endpoint: Endpoint, body: bytes) -> Json:
    """The answer to a client that wants its request counted; a model that nobody serves is not found."""
    dialect = endpoint.dialect
    request = read_count_request(dialect, body, endpoint.model)
    family = find_family(request.model, dialect)
    if request.model:
        target = choose(config, request.model).targets[0]
        provider = config.providers[target.provider]
        if provider.dialect != "embedded":
            family = find_family(target.model, provider.wire_dialect)
    return dialect_named(dialect).counting.write_answer(estimate_tokens(request, family))
