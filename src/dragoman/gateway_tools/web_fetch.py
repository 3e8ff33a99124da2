"""The tool `web_fetch`: a page of the public web as text."""

import asyncio
import codecs
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from dragoman.config.tools import WebFetchSettings
from dragoman.gateway_tools.hosted import HostedUses, find_hosted, remove_hosted
from dragoman.gateway_tools.page_text import read_page
from dragoman.gateway_tools.tool import (
    GatewayTool,
    ToolFailed,
    ToolOffer,
    ToolOutcome,
    ToolRun,
    build_function,
)
from dragoman.gateway_tools.web_client import WebAnswer, fetch, is_public
from dragoman.hub.blocks import Citation, HostedCall, HostedResult, Text
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode

COMMON_NAME = "web_fetch"
SEARCH = "web_search"
FUNCTION = build_function(
    "web_fetch",
    "Read a page of the public web as text.",
    {"url": {"type": "string", "description": "The http or https address of the page."}},
    "url",
)
#: Codecs of Python that no page has, and whose time is not linear.
_NO_CHARSETS = frozenset({"punycode", "idna"})
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/xhtml", "application/javascript")


class WebFetchTool(GatewayTool):
    """Replaces a hosted fetch by a function.

    With `with_search` the function is also offered beside a hosted search that the gateway replaces, so that
    the model can read what was found. `always_search`: the gateway replaces the search for every target.
    """

    def __init__(self, settings: WebFetchSettings, *, with_search: bool, always_search: bool = False) -> None:
        self._settings = settings
        self._with_search = with_search
        self._always_search = always_search

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer | None:
        hosted = find_hosted(request, target, COMMON_NAME, always=self._settings.always)
        if hosted is not None:
            return ToolOffer(
                functions=(FUNCTION,), request=remove_hosted(request, COMMON_NAME), context=HostedUses(hosted)
            )
        search = find_hosted(request, target, SEARCH, always=self._always_search)
        # A client may allow stored pages only.
        if not self._with_search or search is None or (search.search and search.search.live is False):
            return None
        return ToolOffer(functions=(FUNCTION,), context=HostedUses(search))

    async def run(self, run: ToolRun) -> ToolOutcome:
        url, uses = run.text("url"), run.context
        assert isinstance(uses, HostedUses)  # noqa: S101 (what `offer` returned)
        # As part of a web search, a page is shown only where searches can show one.
        common_name = uses.common_name
        if common_name == COMMON_NAME:
            uses.count("pages")
        try:
            title, text, address = await self._read(url, uses)
        except ToolFailed as error:
            shown = self.show_failure(run, str(error))
            return ToolOutcome(content=(Text(text=f"Error: {error}."),), is_error=True, shown=shown)
        shown = (
            _show_call(run, common_name),
            HostedResult(call_id=run.id, tool=common_name, text=text if common_name == COMMON_NAME else ""),
        )
        return ToolOutcome(
            content=(Text(text=text),), shown=shown, sources=(Citation(url=address, title=title or address),)
        )

    def show_failure(self, run: ToolRun, reason: str) -> tuple[HostedCall, HostedResult]:
        assert isinstance(run.context, HostedUses)  # noqa: S101 (what `offer` returned)
        name = run.context.common_name
        failed = HostedResult(call_id=run.id, tool=name, text=reason, is_error=True)
        return _show_call(run, name), failed

    async def _read(self, url: str, uses: HostedUses) -> tuple[str, str, str]:
        """Title, text and final address of a page."""
        limit = int(self._settings.max_mb * 1_000_000)
        answer = await fetch(url, limit=limit, allows=partial(self._find_check, uses))
        if answer.status >= 400:
            raise ToolFailed(f"the page answered with status {answer.status}")
        kind = answer.headers.get("content-type", "text/html").lower()
        if not kind.startswith(_TEXT_TYPES):
            raise ToolFailed(f"the page is no text ({kind.partition(';')[0][:60]})")
        # Reading a page of some megabytes takes too long for the event loop.
        title, text = await asyncio.to_thread(_read_text, answer, kind)
        return title, text[: self._settings.max_chars], answer.url

    def _find_check(self, uses: HostedUses, url: str) -> Callable[[str], bool] | None:
        """The check of the addresses of a URL. None for hosts that the configuration names."""
        if not uses.allows(url):
            raise ToolFailed("the client's lists of domains do not allow this page")
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return None if {host, f"{host}:{port}"} & set(self._settings.private) else is_public


def _show_call(run: ToolRun, common_name: str) -> HostedCall:
    arguments = encode({"url": run.arguments.get("url", "")}).decode()
    return HostedCall(id=run.id, tool=common_name, arguments=arguments)


def _read_text(answer: WebAnswer, kind: str) -> tuple[str, str]:
    """Title and text of an answer."""
    text = _decode(answer, kind)
    return read_page(text) if "html" in kind else ("", text)


def _decode(answer: WebAnswer, kind: str) -> str:
    charset = kind.partition("charset=")[2].partition(";")[0].strip(" \"'") or "utf-8"
    try:
        if codecs.lookup(charset).name not in _NO_CHARSETS:
            return answer.body.decode(charset, "replace")
    except (LookupError, UnicodeError):
        pass
    return answer.body.decode("utf-8", "replace")
