"""Reads and writes the bodies of `countTokens`. The request may be wrapped in another object."""

from dragoman.dialects.base import CountFormat, Json
from dragoman.hub.errors import ClientProtocolError
from dragoman.wire.fields import json_type

#: The fields in which Gemini's clients may wrap the request.
WRAPPERS = ("generateContentRequest", "generate_content_request")


def read_body(body: Json) -> Json:
    for name in WRAPPERS:
        if name in body:
            inner = body[name]
            if not isinstance(inner, dict):
                raise ClientProtocolError(f"expected an object, got {json_type(inner)}", path=name)
            return inner
    return body


def write_answer(tokens: int) -> Json:
    return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}


COUNTING = CountFormat(family="gemini", read_body=read_body, write_answer=write_answer)
