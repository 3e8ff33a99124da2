"""Requests for a web search alone."""

from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Request

#: The common name of hosted web searches.
SEARCH = "web_search"


def refuse_lost_search(request: Request) -> None:
    """Raise if a request offers a web search and no other tool, and the target runs none.

    Claude Code and Gemini CLI send such a request for the search alone. Without it, a model invents pages.
    """
    common_names = {tool.common_name for tool in request.tools if tool.kind == "hosted"}
    if SEARCH in common_names and all(tool.kind == "hosted" for tool in request.tools):
        raise ClientProtocolError(
            "the model cannot search the web, and the gateway has no search engine",
            path="tools",
            hint="configure one in [tools.web_search]",
        )
