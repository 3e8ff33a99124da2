"""Which path is which endpoint, in whose dialect. One table; the query string is cut off before.

Addresses are written by people, so a version segment that is missing or doubled is forgiven.
"""

import re
from typing import NamedTuple


class Endpoint(NamedTuple):
    name: str
    dialect: str
    methods: tuple[str, ...]
    model: str = ""
    #: Of a stored response.
    id: str = ""


_POST = ("POST",)
_READ = ("GET", "HEAD")
_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_V1 = "(?:/v1){0,2}"
_GEMINI = r"(?:/v1(?:beta1?|alpha)?){1,2}(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/[^/]+)?"
_GEMINI_MODEL = rf"{_GEMINI}/(?:models|tunedModels)/(?P<model>.+)"

#: A path's pattern, the endpoint's name, its dialect and its methods; the first match is taken.
_TABLE: tuple[tuple[re.Pattern[str], str, str, tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), name, dialect, methods)
    for pattern, name, dialect, methods in (
        (rf"{_V1}/messages", "turn", "anthropic", _POST),
        (rf"{_V1}/messages/count_tokens", "count", "anthropic", _POST),
        (rf"{_V1}/chat/completions", "turn", "openai_chat", _POST),
        (rf"{_V1}/responses", "turn", "openai_responses", ("POST", "GET")),
        (rf"{_V1}/responses/input_tokens", "count", "openai_responses", _POST),
        (rf"{_V1}/responses/compact", "compact", "openai_responses", _POST),
        (rf"{_V1}/responses/(?P<id>[^/]+)/cancel", "cancel", "openai_responses", _POST),
        (rf"{_V1}/responses/(?P<id>[^/]+)", "response", "openai_responses", ("GET", "DELETE")),
        (rf"{_V1}/responses/(?P<id>[^/]+)/input_items", "input_items", "openai_responses", _READ),
        (rf"{_GEMINI_MODEL}:generateContent", "turn", "gemini", _POST),
        (rf"{_GEMINI_MODEL}:streamGenerateContent", "stream", "gemini", _POST),
        (rf"{_GEMINI_MODEL}:countTokens", "count", "gemini", _POST),
        (rf"{_V1}/models", "models", "openai_chat", _READ),
        (rf"{_V1}/models/(?P<model>.+)", "model", "openai_chat", _READ),
        (rf"{_GEMINI}/models", "models", "gemini", _READ),
        (rf"{_GEMINI}/models/(?P<model>.+)", "model", "gemini", _READ),
        (r"/admin(?:/.*)?", "admin", "openai_chat", _ANY),
        (r"/metrics", "metrics", "openai_chat", _READ),
        # Claude Code looks whether somebody is there, under one of these.
        (r"/(?:health|api/hello)?", "health", "openai_chat", _READ),
    )
)

#: The dialect in which an unknown path is answered, by what it begins with.
_PREFIXES = (
    ("/v1/messages", "anthropic"),
    ("/v1/responses", "openai_responses"),
    ("/v1beta", "gemini"),
    ("/v1alpha", "gemini"),
)


def find(path: str) -> Endpoint | None:
    """The endpoint of a path that the server has already decoded."""
    path = path.rstrip("/") or "/"
    for pattern, name, dialect, methods in _TABLE:
        found = pattern.fullmatch(path)
        if found:
            groups = found.groupdict()
            return Endpoint(name, dialect, methods, groups.get("model") or "", groups.get("id") or "")
    return None


def dialect_of(path: str) -> str:
    """Whose error shape to use for a path that is no endpoint."""
    for prefix, dialect in _PREFIXES:
        if path.startswith(prefix):
            return dialect
    return "gemini" if ":" in path.rpartition("/")[2] else "openai_chat"
