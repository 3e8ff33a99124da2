"""Answers the endpoints that count a request's prompt tokens, each in its own dialect's shape."""

from collections.abc import Callable

from dragoman.dialects.base import Json
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.tokens.costs import Family
from dragoman.tokens.families import family_of
from dragoman.tokens.request import request_tokens
from dragoman.wire.fields import decode, json_type

#: Gemini's clients may wrap the whole request.
WRAPPED = ("generateContentRequest", "generate_content_request")

MAX_BODY = 64 * 1024 * 1024


def read_count_request(dialect: str, body: bytes, model: str = "") -> Request:
    """The request that is to be counted; `model` is what the URL says (Gemini)."""
    value = decode(body, limit=MAX_BODY)
    if not isinstance(value, dict):
        raise ClientProtocolError("expected a JSON object as the request body")
    if dialect == "gemini":
        value = _unwrapped(value)
    if dialect == "anthropic":
        # A count has no answer to limit, but a request does.
        value.setdefault("max_tokens", 1)
    return dialect_named(dialect).read_request(value, Losses(), model=model)


def _unwrapped(body: Json) -> Json:
    for name in WRAPPED:
        if name in body:
            inner = body[name]
            if not isinstance(inner, dict):
                raise ClientProtocolError(f"expected an object, got {json_type(inner)}", path=name)
            return inner
    return body


def count_body(dialect: str, body: bytes, model: str = "", *, family: Family | None = None) -> Json:
    """The answer to a client that wants its request counted.

    `family` is that of the model which would answer, if it is known; otherwise the name that the client says
    decides, and then its dialect.
    """
    request = read_count_request(dialect, body, model)
    return SHAPES[dialect](request_tokens(request, family or family_of(request.model, dialect)))


def _anthropic(tokens: int) -> Json:
    return {"input_tokens": tokens}


def _gemini(tokens: int) -> Json:
    return {
        "totalTokens": tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
    }


def _openai(tokens: int) -> Json:
    return {"object": "response.input_tokens", "input_tokens": tokens}


SHAPES: dict[str, Callable[[int], Json]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "openai_responses": _openai,
    "openai_chat": _openai,
}
