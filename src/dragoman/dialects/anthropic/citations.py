"""Citations, both ways.

A citation belongs to the whole text of its block. The offsets that Anthropic tells point into the source, not
into the answer, so they stay extras.
"""

from dragoman.dialects.anthropic.spelling import take_text
from dragoman.dialects.base import Json
from dragoman.hub.content import Citation

#: The names that each kind of citation has for the source's address and title.
_FIELDS: dict[str, tuple[str, str]] = {
    "web_search_result_location": ("url", "title"),
    "search_result_location": ("source", "title"),
    "char_location": ("url", "document_title"),
    "page_location": ("url", "document_title"),
    "content_block_location": ("url", "document_title"),
}
_WEB = "web_search_result_location"


def _names(kind: object) -> tuple[str, str]:
    return _FIELDS.get(kind, _FIELDS[_WEB]) if isinstance(kind, str) else _FIELDS[_WEB]


def read_citation(told: Json, length: int) -> Citation:
    """Takes the object apart; whatever is no text stays in the extras. `length`: of the block's text."""
    url, title = _names(told.get("type"))
    return Citation(
        url=take_text(told, url),
        title=take_text(told, title),
        quote=take_text(told, "cited_text"),
        start=0,
        end=length,
        extras=told,
    )


def write_citation(citation: Citation, *, own: bool) -> Json | None:
    """None: a citation of another dialect that names no page, which Anthropic has no place for."""
    if own and citation.extras:
        url, title = _names(citation.extras.get("type"))
        named = {url: citation.url, title: citation.title, "cited_text": citation.quote}
        return {**citation.extras, **{name: value for name, value in named.items() if value}}
    if not citation.url:
        return None
    return {
        "type": _WEB,
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "encrypted_index": "",
    }
