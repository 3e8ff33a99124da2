"""Requests that Anthropic refuses although they can be read. See `dragoman.dialects.request_rules`."""

from dragoman.dialects.request_rules import UNDECLARED_CHOICE, RequestRule, find_undeclared_choice
from dragoman.hub.request import Request, list_declared_tools

#: The smallest `budget_tokens`, by the documentation of extended thinking.
LEAST_BUDGET = 1_024


def _find_missing_schema(request: Request) -> str:
    for tool in list_declared_tools(request):
        if tool.kind == "function" and tool.schema is None:
            return f"{tool.at}.input_schema"
    return ""


def _find_undeclared_choice(request: Request) -> str:
    # A toolset and an MCP server add tools whose names the request does not contain.
    if "mcp_servers" in request.extras or any(not tool.name for tool in request.tools):
        return ""
    return find_undeclared_choice(request)


def _find_wrong_budget(request: Request) -> str:
    thinking = request.reasoning
    if thinking is None or thinking.mode != "on":
        return ""
    return "thinking.budget_tokens" if (thinking.budget or 0) < LEAST_BUDGET else ""


REQUEST_RULES: tuple[RequestRule, ...] = (
    RequestRule(_find_missing_schema, "expected an object, got nothing"),
    RequestRule(_find_undeclared_choice, UNDECLARED_CHOICE),
    RequestRule(_find_wrong_budget, f"expected an integer of at least {LEAST_BUDGET}"),
)
