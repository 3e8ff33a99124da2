"""Requests that OpenAI refuses although they can be read. See `dragoman.dialects.request_rules`."""

from dragoman.dialects.openai_responses.request_reader import NO_INPUT
from dragoman.dialects.openai_responses.tools import NAMED_TYPES
from dragoman.dialects.request_rules import UNDECLARED_CHOICE, RequestRule, find_undeclared_choice
from dragoman.hub.request import Request

#: Fields that stand for earlier input.
_CONTINUED = ("conversation", "prompt")


def _find_missing_input(request: Request) -> str:
    is_continued = request.previous_response_id or any(request.extras.get(name) for name in _CONTINUED)
    return "input" if NO_INPUT in request.form.split() and not is_continued else ""


def _find_undeclared_choice(request: Request) -> str:
    choice = request.tool_choice
    if choice is None:
        return ""
    listed = choice.extras.get("tools") if choice.mode == "allowed" else [{"type": choice.kind}]
    entries = listed if isinstance(listed, list) else []
    # A hosted tool is named by its type; the request does not have the names of the tools of an MCP server.
    is_by_name = all(isinstance(entry, dict) and entry.get("type") in NAMED_TYPES for entry in entries)
    return find_undeclared_choice(request) if is_by_name else ""


REQUEST_RULES: tuple[RequestRule, ...] = (
    RequestRule(
        _find_missing_input,
        "expected a string or an array, got nothing",
        hint="send input, or a previous_response_id, prompt or conversation to continue",
    ),
    RequestRule(_find_undeclared_choice, UNDECLARED_CHOICE),
)
