"""Counts a request's tokens as the model that would answer it counts them."""

from dragoman.config.model import Config
from dragoman.dialects.base import Json
from dragoman.routing.choose import choose
from dragoman.server.paths import Endpoint
from dragoman.tokens.count import SHAPES, read_count_request
from dragoman.tokens.families import family_of
from dragoman.tokens.request import request_tokens


def count_answer(config: Config, endpoint: Endpoint, body: bytes) -> Json:
    """The answer to a client that wants its request counted; a model that nobody serves is not found."""
    dialect = endpoint.dialect
    request = read_count_request(dialect, body, endpoint.model)
    family = family_of(request.model, dialect)
    if request.model:
        target = choose(config, request.model).targets[0]
        provider = config.providers[target.provider]
        if provider.dialect != "embedded":
            family = family_of(target.model, provider.wire_dialect)
    return SHAPES[dialect](request_tokens(request, family))
