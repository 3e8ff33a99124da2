"""Reads and writes the options of web search."""

from dragoman.dialects.search_options import LOCATION, NOTE, spell_location, take_domains, take_location
from dragoman.hub.content import Extras, SearchOptions, Tool

FILTERS = "filters"
DOMAINS = "allowed_domains"
CONTEXT_SIZE = "search_context_size"
LIVE = "external_web_access"

PATHS = {
    "allowed_domains": f"{FILTERS}.{DOMAINS}",
    "location": LOCATION,
    "context_size": CONTEXT_SIZE,
    "live": LIVE,
}


def read_search(rest: Extras) -> SearchOptions | None:
    """Take the options out of a declaration. Options of another form stay in it."""
    filters = rest.get(FILTERS)
    domains = take_domains(filters, DOMAINS) if isinstance(filters, dict) else ()
    if domains and not filters:
        del rest[FILTERS]
    size, live = rest.get(CONTEXT_SIZE), rest.get(LIVE)
    if isinstance(size, str) and size:
        del rest[CONTEXT_SIZE]
    if isinstance(live, bool):
        del rest[LIVE]
    options = SearchOptions(
        allowed_domains=domains,
        location=take_location(rest),
        context_size=size if isinstance(size, str) else "",
        live=live if isinstance(live, bool) else None,
        paths=PATHS,
    )
    return None if options == SearchOptions(paths=PATHS) else options


def write_search(tool: Tool, *, own: bool) -> Extras:
    options = tool.search
    if options is None:
        return {}
    written: Extras = {}
    if options.allowed_domains:
        others = tool.extras.get(FILTERS) if own else None
        kept: Extras = others if isinstance(others, dict) else {}
        written[FILTERS] = {DOMAINS: list(options.allowed_domains), **kept}
    if options.location is not None:
        noted = tool.extras.get(NOTE + LOCATION) if own else None
        written[LOCATION] = noted or spell_location(options.location)
    if options.context_size:
        written[CONTEXT_SIZE] = options.context_size
    if options.live is not None:
        written[LIVE] = options.live
    return written
