"""Requests that Google refuses although they can be read. See `dragoman.dialects.request_rules`."""

from dragoman.dialects.gemini.names import EMPTY_PARTS, NO_PARTS, TOP
from dragoman.dialects.request_rules import UNDECLARED_CHOICE, RequestRule, find_undeclared_choice
from dragoman.hub.request import Request


def _find_empty_contents(request: Request) -> str:
    return "contents" if all(TOP in message.form.split() for message in request.messages) else ""


def _find_missing_parts(request: Request) -> str:
    """A content of the client without parts. An empty message of the model may be the gateway's own reply."""
    for message in request.messages:
        flags = message.form.split()
        if message.role != "assistant" and TOP not in flags and (NO_PARTS in flags or EMPTY_PARTS in flags):
            return f"{message.at}.parts"
    return ""


REQUEST_RULES: tuple[RequestRule, ...] = (
    RequestRule(_find_empty_contents, "expected at least one content, got an empty array", for_messages=True),
    RequestRule(_find_missing_parts, "expected at least one part, got nothing", for_messages=True),
    RequestRule(find_undeclared_choice, UNDECLARED_CHOICE),
)
