"""The tool `web_search`: the web search of a client's vendor, through an engine or another model."""

import msgspec

from dragoman.config.tools import WebSearchSettings
from dragoman.gateway_tools.hosted import HostedUses, find_hosted, remove_hosted
from dragoman.gateway_tools.search_engines import search
from dragoman.gateway_tools.tool import (
    GatewayTool,
    ToolFailed,
    ToolOffer,
    ToolOutcome,
    ToolRun,
    build_function,
)
from dragoman.hub.blocks import Citation, HostedCall, HostedResult, SearchOptions, Text, Tool
from dragoman.hub.fold import Reply
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode

COMMON_NAME = "web_search"
FUNCTION = build_function(
    "web_search",
    "Search the web. Returns titles, addresses and excerpts of pages, each with a number to cite it by.",
    {"query": {"type": "string", "description": "What to search for."}},
    "query",
)


class WebSearchTool(GatewayTool):
    """Replaces a hosted web search by a function."""

    def __init__(self, settings: WebSearchSettings) -> None:
        self._settings = settings

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:
        hosted = find_hosted(request, target, COMMON_NAME, always=self._settings.always)
        if hosted is None:
            return None
        return ToolOffer(
            functions=(FUNCTION,),
            request=remove_hosted(request, COMMON_NAME),
            context=HostedUses(hosted),
        )

    async def run(self, run: ToolRun) -> ToolOutcome:
        query, uses = run.text("query"), run.context
        assert isinstance(uses, HostedUses)  # noqa: S101 (what `offer` returned)
        uses.count("searches")
        try:
            found, text = await self._search(run, query, uses.options)
        except ToolFailed as error:
            raise ToolFailed(f"the search failed: {error}") from None
        pages = [page for page in found if uses.allows(page.url)]
        listed = "\n".join(f"{page.title} {page.url}".strip() for page in pages)
        content = (Text(text=text or "The search found nothing."),) if text or not pages else ()
        shown = (_show_call(run), HostedResult(call_id=run.id, tool=COMMON_NAME, text=listed))
        return ToolOutcome(content=content, shown=shown, sources=tuple(pages))

    def show_failure(self, run: ToolRun, reason: str) -> tuple[HostedCall | HostedResult, ...]:
        return _show_call(run), HostedResult(call_id=run.id, tool=COMMON_NAME, text=reason, is_error=True)

    async def _search(self, run: ToolRun, query: str, options: SearchOptions) -> tuple[list[Citation], str]:
        """The pages of a search, and what a model answers, if a model searches."""
        if self._settings.engine == "model":
            return _read_reply(await run.ask_model(self._settings.target, _build_request(query, options)))
        sites = " OR ".join(f"site:{domain}" for domain in options.allowed_domains)
        return await search(self._settings, f"{query} {sites}".rstrip()), ""


def _show_call(run: ToolRun) -> HostedCall:
    query = run.arguments.get("query", "")
    return HostedCall(id=run.id, tool=COMMON_NAME, arguments=encode({"query": query}).decode())


def _build_request(query: str, options: SearchOptions) -> Request:
    tool = Tool(
        name=COMMON_NAME,
        kind="hosted",
        common_name=COMMON_NAME,
        search=msgspec.structs.replace(options, paths={}),
    )
    prompt = f"Search the web for the following, and report what you find with its sources.\n\n{query}"
    message = Message(role="user", blocks=(Text(text=prompt),))
    return Request(dialect="", model="", messages=(message,), tools=(tool,), max_tokens=4096)


def _read_reply(reply: Reply) -> tuple[list[Citation], str]:
    """The sources and the text of a model's answer. Sources are its citations and the pages that it found."""
    pages: dict[str, Citation] = {}
    texts: list[str] = []
    for block in reply.blocks:
        if isinstance(block, Text):
            texts.append(block.text)
            for citation in block.citations:
                if citation.url:
                    kept = Citation(url=citation.url, title=citation.title, quote=citation.quote)
                    pages[citation.url] = kept
        elif isinstance(block, HostedResult):
            for line in block.text.splitlines():
                title, _, url = line.strip().rpartition(" ")
                if "://" in url:
                    pages.setdefault(url, Citation(url=url, title=title))
    return list(pages.values()), "".join(texts)
