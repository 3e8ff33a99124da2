"""Where texts came from: annotations of this dialect and the hub's citations."""

from dragoman.hub.content import Citation, Extras

#: The annotation that every client knows, and the only one that others' citations can become.
URL_CITATION = "url_citation"


def _offset(value: object) -> int:
    return value if type(value) is int and value >= 0 else -1


def read_citation(annotation: Extras) -> Citation:
    """An annotation of any type; takes it apart. Members of a wrong type stay with the extras."""
    url, title = annotation.get("url"), annotation.get("title")
    start, end = _offset(annotation.get("start_index")), _offset(annotation.get("end_index"))
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


def spell_citation(citation: Citation, length: int, *, own: bool) -> Extras | None:
    """An annotation of a text that is this long so far; None for a source that has no address."""
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
    # Who gives no offsets (Anthropic) means the whole of the text block.
    return {
        "type": URL_CITATION,
        "start_index": max(citation.start, 0),
        "end_index": citation.end if citation.end >= 0 else length,
        "title": citation.title,
        "url": citation.url,
    }
