"""Search engines: how a query is sent to each, and where its answer has the pages, as rows of one table."""

from collections.abc import Iterator
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.config.tools import SearchMapping, WebSearchSettings
from dragoman.gateway_tools.tool import ToolFailed
from dragoman.gateway_tools.web_client import send
from dragoman.hub.blocks import Citation
from dragoman.wire.fields import encode

#: Bytes of an engine's answer.
MAX_ANSWER = 4 * 1024 * 1024
#: Characters of the text about one page.
MAX_TEXT = 2000

#: The address of each engine that has a fixed one, and its mapping.
ENGINES: dict[str, tuple[str, SearchMapping]] = {
    "searxng": ("", SearchMapping(fixed={"format": "json"})),
    "brave": (
        "https://api.search.brave.com/res/v1/web/search",
        SearchMapping(
            items="web.results", text="description", count="count", key_header="x-subscription-token"
        ),
    ),
    "tavily": (
        "https://api.tavily.com/search",
        SearchMapping(
            method="POST",
            query="query",
            count="max_results",
            key_header="authorization",
            key_prefix="Bearer ",
        ),
    ),
    "exa": (
        "https://api.exa.ai/search",
        SearchMapping(
            method="POST",
            query="query",
            count="numResults",
            text="text",
            key_header="x-api-key",
            fixed={"contents": {"text": {"maxCharacters": MAX_TEXT}}},
        ),
    ),
    "json": ("", SearchMapping()),
}


async def search(settings: WebSearchSettings, query: str) -> list[Citation]:
    """The pages that an engine finds. Raises `ToolFailed`."""
    address, mapping = ENGINES[settings.engine]
    mapping = settings.mapping or mapping
    address = settings.address or address
    if settings.engine == "searxng" and urlsplit(address).path in ("", "/"):
        address = address.rstrip("/") + "/search"
    fields: dict[str, object] = {**mapping.fixed, mapping.query: query}
    if mapping.count:
        fields[mapping.count] = settings.results
    headers = {"accept": "application/json"}
    if settings.api_key and mapping.key_header:
        headers[mapping.key_header] = mapping.key_prefix + settings.api_key.reveal()
    body = b""
    if mapping.method == "POST":
        headers["content-type"] = "application/json"
        body = encode(fields)
    else:
        address += ("&" if "?" in address else "?") + urlencode(
            {name: str(value) for name, value in fields.items()}
        )
    answer = await send(mapping.method, address, headers=headers, body=body, limit=MAX_ANSWER)
    if answer.status != 200:
        raise ToolFailed(f"the search engine answered with status {answer.status}")
    return list(_read_pages(answer.body, mapping))[: settings.results]


def _read_pages(body: bytes, mapping: SearchMapping) -> Iterator[Citation]:
    try:
        value: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise ToolFailed("the search engine answered with something that is not JSON") from None
    items = _find(value, mapping.items) if mapping.items else value
    if not isinstance(items, list):
        raise ToolFailed(f"the search engine's answer has no list at {mapping.items!r}")
    for item in items:
        url = _find(item, mapping.url)
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            title, text = _find(item, mapping.title), _find(item, mapping.text)
            yield Citation(url=url, title=_clean(title), quote=_clean(text)[:MAX_TEXT])


def _find(value: object, path: str) -> object:
    """The value at a path such as `web.results`; None if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _clean(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""
