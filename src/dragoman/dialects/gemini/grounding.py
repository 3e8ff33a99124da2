"""Citations both ways: Gemini tells the sources once, and by byte offsets which text rests on which.

Our offsets count characters. All offsets of a text are converted in one walk over it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from dragoman.dialects.base import Json
from dragoman.hub.content import Citation

#: More than any honest reply has.
MAX_CITATIONS = 2_000
#: In longer texts cited words are not searched for.
MAX_SEARCHED = 1_000_000

#: The bytes that continue a character; every character has exactly one that does not.
_CONTINUING = bytes(range(0x80, 0xC0))


def read_citations(candidate: Json, text: str) -> list[Citation]:
    """The citations of a candidate's metadata that speak of this text."""
    told = chain(
        _of_grounding(candidate.get("groundingMetadata")), _of_recitation(candidate.get("citationMetadata"))
    )
    found = list(islice(told, MAX_CITATIONS))
    if text.isascii():
        return [_placed(citation, segment, text, {}) for citation, segment in found]
    wanted = {edge for citation, _ in found for edge in (citation.start, citation.end)}
    characters = character_offsets(text.encode("utf-8", "surrogatepass"), wanted)
    return [_placed(citation, segment, text, characters) for citation, segment in found]


def _placed(citation: Citation, segment: str, text: str, characters: dict[int, int]) -> Citation:
    """With offsets in characters, corrected by the cited words themselves if those are told."""
    start = characters.get(citation.start, citation.start)
    end = characters.get(citation.end, citation.end)
    if segment and text[max(start, 0) : max(end, 0)] != segment:
        start = text.find(segment) if len(text) <= MAX_SEARCHED else -1
        end = start + len(segment) if start >= 0 else -1
    if not 0 <= start <= end <= len(text):
        start = end = -1
    return msgspec.structs.replace(citation, start=start, end=end)


def _number(value: object, default: int) -> int:
    return value if type(value) is int and value >= 0 else default


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _of_grounding(metadata: object) -> Iterator[tuple[Citation, str]]:
    """Citations with offsets in bytes, and the words that they speak of."""
    if not isinstance(metadata, dict):
        return
    chunks = metadata.get("groundingChunks")
    sources = [_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
    for support in _objects(metadata.get("groundingSupports")):
        segment = support.get("segment")
        indices = support.get("groundingChunkIndices")
        if not isinstance(segment, dict) or not isinstance(indices, list):
            continue
        start, end = _number(segment.get("startIndex"), 0), _number(segment.get("endIndex"), -1)
        for index in indices:
            if type(index) is int and 0 <= index < len(sources):
                yield (
                    msgspec.structs.replace(sources[index], start=start, end=end),
                    _text(segment.get("text")),
                )


def _source(chunk: object) -> Citation:
    """One of web, retrievedContext, maps, image: all have an address and a title."""
    for inner in chunk.values() if isinstance(chunk, dict) else ():
        if isinstance(inner, dict):
            return Citation(
                url=_text(inner.get("uri")) or _text(inner.get("sourceUri")),
                title=_text(inner.get("title")),
                quote=_text(inner.get("text")),
            )
    return Citation()


def _of_recitation(metadata: object) -> Iterator[tuple[Citation, str]]:
    if not isinstance(metadata, dict):
        return
    for source in _objects(metadata.get("citationSources")) or _objects(metadata.get("citations")):
        yield (
            Citation(
                url=_text(source.get("uri")),
                title=_text(source.get("title")),
                start=_number(source.get("startIndex"), 0),
                end=_number(source.get("endIndex"), -1),
            ),
            "",
        )


def character_offsets(data: bytes, offsets: set[int]) -> dict[int, int]:
    """For each offset in bytes the one in characters."""
    found: dict[int, int] = {}
    before = characters = 0
    for offset in sorted(offset for offset in offsets if 0 <= offset <= len(data)):
        characters += len(data[before:offset].translate(None, _CONTINUING))
        found[offset] = characters
        before = offset
    return found


def byte_offsets(text: str, offsets: set[int]) -> dict[int, int]:
    """For each offset in characters the one in bytes."""
    found: dict[int, int] = {}
    before = size = 0
    for offset in sorted(offset for offset in offsets if 0 <= offset <= len(text)):
        size += len(text[before:offset].encode("utf-8", "surrogatepass"))
        found[offset] = size
        before = offset
    return found


class Grounding:
    """Gathers the citations of a foreign reply into one `groundingMetadata`."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, str, str], int] = {}
        self._supports: list[Json] = []
        self._queries: list[str] = []

    def asked(self, query: str) -> None:
        if len(self._queries) < MAX_CITATIONS:
            self._queries.append(query)

    def cite(self, part: int, before: int, text: str, citations: Sequence[Citation]) -> None:
        """The citations of a text that stands in the client's part number `part`, after `before` bytes."""
        # A citation without offsets is about the whole text.
        spans = [
            (c.start, c.end) if 0 <= c.start <= c.end <= len(text) else (0, len(text)) for c in citations
        ]
        sizes = byte_offsets(text, {edge for span in spans for edge in span})
        for citation, (start, end) in zip(citations, spans, strict=True):
            if len(self._supports) >= MAX_CITATIONS:
                return
            key = (citation.url, citation.title, "" if citation.url else citation.quote)
            if not any(key):
                continue
            segment: Json = {
                "startIndex": before + sizes[start],
                "endIndex": before + sizes[end],
                "text": text[start:end],
            }
            if part:
                segment["partIndex"] = part
            chunk = self._chunks.setdefault(key, len(self._chunks))
            self._supports.append({"segment": segment, "groundingChunkIndices": [chunk]})

    def metadata(self) -> Json:
        """`groundingMetadata`, or an empty object when there is nothing to tell."""
        metadata: Json = {}
        if self._chunks:
            metadata["groundingChunks"] = [_chunk(*key) for key in self._chunks]
            metadata["groundingSupports"] = self._supports
        if self._queries:
            metadata["webSearchQueries"] = self._queries
        return metadata


def _chunk(url: str, title: str, quote: str) -> Json:
    if url:
        return {"web": {"uri": url, "title": title}}
    return {"retrievedContext": {"title": title, "text": quote}}
