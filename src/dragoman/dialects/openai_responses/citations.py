"""Reads and writes citations as annotations of a text."""

from dragoman.hub.content import Citation, Extras

#: The annotation that every client knows. Citations of other dialects are written with this type.
URL_CITATION = "url_citation"


def _read_offset(value: object) -> int:
    return value if type(value) is int and value >= 0 else -1


def read_citation(annotation: Extras) -> Citation:
    """Read an annotation of any type. Fields of another type than expected stay in the extras."""
    url, title = annotation.get("url"), annotation.get("title")
    start, end = _read_offset(annotation.get("start_index")), _read_offset(annotation.get("end_index"))
    taken = {
        "url": isinstance(url, str) and url,
        "title": isinstance(title, str) and title,
        "start_index": start >= 0,
        "end_index": end >= 0,
    }
    return Citation(
        url=url if isinstance(url, str) else "",
        title=title if isinstance(title, str) else "",
        start=start,
        end=end,
        extras={name: value for name, value in annotation.items() if not taken.get(name)},
    )


def write_citation(citation: Citation, length: int, *, own: bool) -> Extras | None:
    """Write an annotation of a text with `length` characters so far; None if the source has no address."""
    if own:
        annotation: Extras = {**citation.extras}
        if citation.url:
            annotation["url"] = citation.url
        if citation.title:
            annotation["title"] = citation.title
        if citation.start >= 0:
            annotation["start_index"] = citation.start
        if citation.end >= 0:
            annotation["end_index"] = citation.end
        return annotation
    if not citation.url:
        return None
    # Anthropic gives no offsets: its citations belong to the whole text block.
    return {
        "type": URL_CITATION,
        "start_index": max(citation.start, 0),
        "end_index": citation.end if citation.end >= 0 else length,
        "title": citation.title,
        "url": citation.url,
    }
