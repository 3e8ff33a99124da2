"""Reads and writes citations as annotations, whose offsets count from the start of the whole message."""

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation


def read_annotation(value: Json, text_before: int) -> Citation:
    """Read an annotation of a text that follows `text_before` characters of earlier blocks.

    An annotation of unknown type keeps its whole value for clients of this dialect.
    """
    source = value.get("url_citation")
    if value.get("type") != "url_citation" or not isinstance(source, dict):
        return Citation(extras={"annotation": value})
    rest = dict(source)
    offsets: dict[str, object] = {}
    for name, key in (("start", "start_index"), ("end", "end_index")):
        offset = rest.get(key)
        if type(offset) is int and offset >= text_before:
            offsets[name] = offset - text_before
            del rest[key]
    for name in ("url", "title"):
        if isinstance(rest.get(name), str):
            offsets[name] = rest.pop(name)
    if isinstance(rest.get("content"), str):
        offsets["quote"] = rest.pop("content")
    outer = {name: inner for name, inner in value.items() if name not in ("type", "url_citation")}
    extras = {**({"url_citation": rest} if rest else {}), **({"outer": outer} if outer else {})}
    return msgspec.convert({**offsets, "extras": extras}, Citation)


def write_annotation(citation: Citation, text_before: int, *, same_dialect: bool) -> Json | None:
    """Write the annotation of a citation; None if this dialect has no place for its content."""
    unknown = citation.extras.get("annotation")
    if isinstance(unknown, dict):
        return unknown if same_dialect else None
    if not citation.url:
        return None
    fields: Json = {}
    if citation.start >= 0:
        fields["start_index"] = citation.start + text_before
    if citation.end >= 0:
        fields["end_index"] = citation.end + text_before
    fields["title"] = citation.title
    fields["url"] = citation.url
    written: Json = {"type": "url_citation", "url_citation": fields}
    if same_dialect:
        if citation.quote:
            fields["content"] = citation.quote
        fields.update(_object(citation.extras.get("url_citation")))
        written.update(_object(citation.extras.get("outer")))
    return written


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
