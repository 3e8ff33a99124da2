"""Reads and writes citations.

A citation belongs to the whole text of its block. Anthropic's offsets point into the source, not into the
answer, so they stay in the extras.
"""

from dragoman.dialects.anthropic.names import take_text
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation

#: The fields that hold the source's address and title in each kind of citation.
_FIELDS: dict[str, tuple[str, str]] = {
    "web_search_result_location": ("url", "title"),
    "search_result_location": ("source", "title"),
    "char_location": ("url", "document_title"),
    "page_location": ("url", "document_title"),
    "content_block_location": ("url", "document_title"),
}
_WEB = "web_search_result_location"


def _find_field_names(kind: object) -> tuple[str, str]:
    return _FIELDS.get(kind, _FIELDS[_WEB]) if isinstance(kind, str) else _FIELDS[_WEB]


def read_citation(value: Json, length: int) -> Citation:
    """Read a citation object and empty it; fields that are not text stay in the extras.

    `length` is the length of the block's text.
    """
    url, title = _find_field_names(value.get("type"))
    return Citation(
        url=take_text(value, url),
        title=take_text(value, title),
        quote=take_text(value, "cited_text"),
        start=0,
        end=length,
        extras=value,
    )


def write_citation(citation: Citation, *, same_dialect: bool) -> Json | None:
    """Write a citation; None if it is from another dialect and has no address, which Anthropic requires."""
    if same_dialect and citation.extras:
        url, title = _find_field_names(citation.extras.get("type"))
        named = {url: citation.url, title: citation.title, "cited_text": citation.quote}
        return {**citation.extras, **{name: text for name, text in named.items() if text}}
    if not citation.url:
        return None
    return {
        "type": _WEB,
        "url": citation.url,
        "title": citation.title or None,
        "cited_text": citation.quote,
        "encrypted_index": "",
    }
