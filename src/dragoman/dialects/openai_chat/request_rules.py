"""Requests that OpenAI refuses although they can be read. See `dragoman.dialects.request_rules`."""

from dragoman.dialects.openai_chat.tools import LEGACY
from dragoman.dialects.request_rules import UNDECLARED_CHOICE, RequestRule, find_undeclared_choice
from dragoman.hub.request import Request


def _find_undeclared_choice(request: Request) -> str:
    path = find_undeclared_choice(request)
    choice = request.tool_choice
    return "function_call" if path and choice is not None and choice.form == LEGACY else path


REQUEST_RULES: tuple[RequestRule, ...] = (RequestRule(_find_undeclared_choice, UNDECLARED_CHOICE),)
