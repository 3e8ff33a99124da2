"""The names of the API, and the flags that record how a request was written.

Flags in the `form` of a request record which of several spellings it used. The unknown fields of an inner
object are kept in the extras of the outer object, under a name with a dot.
"""

from collections.abc import Iterable

from dragoman.dialects.interfaces import Json
from dragoman.hub.request import Request
from dragoman.wire.fields import Fields

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

#: OpenAI's cache mark, and Anthropic's, which OpenRouter and LiteLLM accept on Chat parts.
BREAKPOINT = "prompt_cache_breakpoint"
CACHE_CONTROL = "cache_control"

#: The form of thoughts and refusals that are parts of the content.
AS_PART = "part"


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


def read_optional_text(fields: Fields, name: str) -> str:
    """Read a text whose absence means empty. An empty text stays in the extras."""
    if fields.rest().get(name) == "":
        return ""
    return fields.text_or(name, "")
