"""Records which of several spellings a request used, and keeps the unknown fields of inner objects.

Flags in the `form` of a request record the spelling. The unknown fields of an inner object are kept in the
extras of the outer object, under a name with a dot.
"""

from collections.abc import Iterable

from dragoman.dialects.base import Json
from dragoman.hub.request import Request

NAME = "openai_chat"

#: The request declared `functions`, which `tools` replaced: its replies use `function_call`.
LEGACY_FUNCTIONS = "functions"
#: `stop` was one string.
STOP_TEXT = "stop-text"
#: The id of the end user was in `safety_identifier`.
SAFETY_IDENTIFIER = "safety-identifier"

#: Forms of the content of a message or result.
AS_TEXT = "text"
AS_PARTS = "parts"
AS_NULL = "null"
ABSENT = "absent"


def build_form(flags: Iterable[str]) -> str:
    return " ".join(flags)


def has_flag(request: Request, flag: str) -> bool:
    """Whether the request is of this dialect and used the spelling of the flag."""
    return request.dialect == NAME and flag in request.form.split()


def add_inner(outer: Json, name: str, inner: Json) -> Json:
    """The extras of an object together with those of its inner object `name`."""
    return {**outer, **{f"{name}.{key}": value for key, value in inner.items()}} if inner else outer


def split_inner(extras: Json, name: str) -> tuple[Json, Json]:
    """The extras of the outer and of the inner object: the reverse of `add_inner`."""
    prefix = name + "."
    outer = {key: value for key, value in extras.items() if not key.startswith(prefix)}
    inner = {key[len(prefix) :]: value for key, value in extras.items() if key.startswith(prefix)}
    return outer, inner
