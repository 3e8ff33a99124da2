"""How this dialect spells things that the hub knows in one spelling only.

Flags in a request's `form` remember which of two spellings the client used. What an inner object says beyond
our vocabulary is kept beside the outer object's extras, under a name with a dot.
"""

from collections.abc import Iterable

from dragoman.dialects.base import Json
from dragoman.hub.request import Request

NAME = "openai_chat"

#: The request declared `functions`, the form that `tools` replaced: its replies use `function_call`.
LEGACY_FUNCTIONS = "functions"
#: `stop` was one string.
STOP_TEXT = "stop-text"
#: The end user was named by `safety_identifier`.
SAFETY_IDENTIFIER = "safety-identifier"

#: Shapes of a message's or a result's content.
AS_TEXT = "text"
AS_PARTS = "parts"
AS_NULL = "null"
ABSENT = "absent"


def form_of(flags: Iterable[str]) -> str:
    return " ".join(flags)


def has_flag(request: Request, flag: str) -> bool:
    """Whether a client of this dialect used the spelling that the flag stands for."""
    return request.dialect == NAME and flag in request.form.split()


def with_inner(outer: Json, name: str, inner: Json) -> Json:
    """Extras of an object together with those of the object under `name` in it."""
    return {**outer, **{f"{name}.{key}": value for key, value in inner.items()}} if inner else outer


def without_inner(extras: Json, name: str) -> tuple[Json, Json]:
    """What `with_inner` put together."""
    prefix = name + "."
    outer = {key: value for key, value in extras.items() if not key.startswith(prefix)}
    inner = {key[len(prefix) :]: value for key, value in extras.items() if key.startswith(prefix)}
    return outer, inner
