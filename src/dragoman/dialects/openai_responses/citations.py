"""Reads and writes the annotations of a text as citations."""

from dragoman.dialects.openai_responses.names import get_text
from dragoman.hub.blocks import Citation, Extras

#: The annotation that every client knows. Citations of other dialects become this one.
URL_CITATION = "url_citation"


def _take_text(values: Extras, name: str) -> str:
    text = get_text(values, name)
    if text:
        del values[name]
    return text


def _take_offset(values: Extras, name: str) -> int:
    value = values.get(name)
    if type(value) is not int or value < 0:
        return -1
    del values[name]
    return value


def read_citation(annotation: Extras) -> Citation:
    """Read an annotation of any type. Members of a wrong type stay in the extras."""
    rest = dict(annotation)
    return Citation(
        url=_take_text(rest, "url"),
        title=_take_text(rest, "title"),
        start=_take_offset(rest, "start_index"),
        end=_take_offset(rest, "end_index"),
        extras=rest,
    )


def write_citation(citation: Citation, length: int, *, same_dialect: bool) -> Extras | None:
    """Write an annotation; None if it is from another dialect and has no address.

    `length` is the length of the text so far.
    """
    if same_dialect and citation.extras:
        texts = {"url": citation.url, "title": citation.title}
        offsets = {"start_index": citation.start, "end_index": citation.end}
        return {
            **citation.extras,
            **{name: text for name, text in texts.items() if text},
            **{name: offset for name, offset in offsets.items() if offset >= 0},
        }
    if not citation.url:
        return None
    # Anthropic gives no offsets: its citations belong to the whole text of the block.
    return {
        "type": URL_CITATION,
        "start_index": max(citation.start, 0),
        "end_index": citation.end if citation.end >= 0 else length,
        "title": citation.title,
        "url": citation.url,
    }
