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
#: Longer texts are not kept for their citations.
MAX_KEPT = 1_000_000

#: The bytes that continue a character; every character has exactly one that does not.
_CONTINUING = bytes(range(0x80, 0xC0))


class SaidText:
    """How long a text is that went by in pieces, and the text itself where it may be cited.

    Without the words offsets can still be told as long as every character is one byte.
    """

    __slots__ = ("_pieces", "characters", "size")

    def __init__(self, *, keep: bool) -> None:
        self.characters = 0
        self.size = 0
        self._pieces: list[str] | None = [] if keep else None

    def add(self, text: str) -> None:
        self.characters += len(text)
        self.size += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._pieces is not None:
            self._pieces.append(text)
            if self.characters > MAX_KEPT:
                self._pieces = None

    def words(self) -> str | None:
        return None if self._pieces is None else "".join(self._pieces)


def read_citations(candidate: Json, said: SaidText) -> list[Citation]:
    """The citations of a candidate's metadata that speak of this text."""
    told = chain(
        _of_grounding(candidate.get("groundingMetadata")), _of_recitation(candidate.get("citationMetadata"))
    )
    found = list(islice(told, MAX_CITATIONS))
    text = said.words()
    if text is None:
        known = said.characters if said.characters == said.size else -1
        return [_bounded(citation, citation.start, citation.end, known) for citation, _ in found]
    wanted = {edge for citation, _ in found for edge in (citation.start, citation.end)}
    characters = character_offsets(text.encode("utf-8", "surrogatepass"), wanted)
    return [_placed(citation, segment, text, characters) for citation, segment in found]


def _placed(citation: Citation, segment: str, text: str, characters: dict[int, int]) -> Citation:
    """With offsets in characters, corrected by the cited words themselves if those are told."""
    start, end = characters.get(citation.start, -1), characters.get(citation.end, -1)
    if segment and text[max(start, 0) : max(end, 0)] != segment:
        start = text.find(segment)
        end = start + len(segment) if start >= 0 else -1
    return _bounded(citation, start, end, len(text))


def _bounded(citation: Citation, start: int, end: int, length: int) -> Citation:
    """With these offsets if they lie within the text, otherwise with none."""
    if not 0 <= start <= end <= length:
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


def _sizes(said: SaidText, offsets: set[int]) -> dict[int, int]:
    """Like `byte_offsets`, for a text that was not kept: known only if every character is one byte."""
    if said.size != said.characters:
        return {}
    return {offset: offset for offset in offsets if 0 <= offset <= said.size}


class Grounding:
    """Gathers the citations of a foreign reply into one `groundingMetadata`."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, str, str], int] = {}
        self._supports: list[Json] = []
        self._queries: list[str] = []

    def asked(self, query: str) -> None:
        if len(self._queries) < MAX_CITATIONS:
            self._queries.append(query)

    def cite(self, part: int, before: int, said: SaidText, citations: Sequence[Citation]) -> None:
        """The citations of a text that stands in the client's part number `part`, after `before` bytes."""
        words = said.words()
        edges = {edge for citation in citations for edge in (citation.start, citation.end)}
        sizes = _sizes(said, edges) if words is None else byte_offsets(words, edges)
        for citation in citations[: MAX_CITATIONS - len(self._supports)]:
            key = (citation.url, citation.title, "" if citation.url else citation.quote)
            if not any(key):
                continue
            # A citation without offsets is about the whole text.
            exact = citation.start in sizes and citation.end in sizes and citation.start <= citation.end
            start, end = (citation.start, citation.end) if exact else (0, said.characters)
            segment: Json = {
                "startIndex": before + (sizes[start] if exact else 0),
                "endIndex": before + (sizes[end] if exact else said.size),
            }
            if words is not None:
                segment["text"] = words[start:end]
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
