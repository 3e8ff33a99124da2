"""The name of this dialect, and the flags by which a request remembers how its client spelled things."""

from collections.abc import Iterable

from dragoman.hub.request import Request

NAME = "openai_chat"

#: The request declared `functions`, the form that `tools` replaced: its replies use `function_call`.
LEGACY_FUNCTIONS = "functions"


def form_of(flags: Iterable[str]) -> str:
    return " ".join(flags)


def has_flag(request: Request, flag: str) -> bool:
    """Whether a client of this dialect used the spelling that the flag stands for."""
    return request.dialect == NAME and flag in request.form.split()
