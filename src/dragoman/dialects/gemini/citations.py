"""Reads and writes citations. Gemini lists the sources once, and assigns them to text by byte offsets.

The hub's offsets count characters. All offsets of a text are converted in one pass over it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Citation, HostedCall
from dragoman.wire.fields import encode

#: The form of a search call that the metadata of a reply reports, and no part.
GROUNDED = "grounded"
#: The common name of Google's search.
SEARCH = "web_search"

#: More than a valid reply has.
MAX_CITATIONS = 2_000
#: Longer texts are not kept for their citations.
MAX_KEPT = 1_000_000

#: The bytes that continue a character; every character has exactly one other byte.
_CONTINUING = bytes(range(0x80, 0xC0))


class CitedText:
    """The length of a text that arrives in pieces, and the text itself if citations may need it.

    Without the text, offsets can still be converted as long as every character is one byte.
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

    @property
    def is_kept(self) -> bool:
        return self._pieces is not None

    def count_ascii(self, characters: int) -> None:
        """Add the length of an ASCII text. Called only if the text is not kept."""
        self.characters += characters
        self.size += characters

    def text(self) -> str | None:
        return None if self._pieces is None else "".join(self._pieces)


def read_citations(candidate: Json, cited: CitedText) -> list[Citation]:
    """The citations of a candidate's metadata that are about this text."""
    items = chain(
        _read_grounding(candidate.get("groundingMetadata")),
        _read_recitation(candidate.get("citationMetadata")),
    )
    found = list(islice(items, MAX_CITATIONS))
    text = cited.text()
    if text is None:
        known = cited.characters if cited.characters == cited.size else -1
        return [_set_offsets(citation, citation.start, citation.end, known) for citation, _ in found]
    wanted = {edge for citation, _ in found for edge in (citation.start, citation.end)}
    characters = convert_to_characters(text.encode("utf-8", "surrogatepass"), wanted)
    return [_place(citation, segment, text, characters) for citation, segment in found]


def read_queries(candidate: Json) -> list[str]:
    """The queries of Google's own searches in a candidate's metadata."""
    metadata = candidate.get("groundingMetadata")
    queries = metadata.get("webSearchQueries") if isinstance(metadata, dict) else None
    return [text for text in queries if isinstance(text, str) and text] if isinstance(queries, list) else []


def build_search(queries: tuple[str, ...], call_id: str) -> HostedCall:
    """The call of a search that the reply reports only in its metadata, for clients of other dialects."""
    arguments = encode({"query": queries[0]} if len(queries) == 1 else {"queries": queries}).decode()
    return HostedCall(id=call_id, tool=SEARCH, arguments=arguments, form=GROUNDED)


def _place(citation: Citation, segment: str, text: str, characters: dict[int, int]) -> Citation:
    """The citation with offsets in characters, corrected by the cited text if it is given."""
    start, end = characters.get(citation.start, -1), characters.get(citation.end, -1)
    if segment and text[max(start, 0) : max(end, 0)] != segment:
        start = text.find(segment)
        end = start + len(segment) if start >= 0 else -1
    return _set_offsets(citation, start, end, len(text))


def _set_offsets(citation: Citation, start: int, end: int, length: int) -> Citation:
    """The citation with these offsets, or without offsets if they are outside the text."""
    if not 0 <= start <= end <= length:
        start = end = -1
    return msgspec.structs.replace(citation, start=start, end=end)


def _number(value: object, default: int) -> int:
    return value if type(value) is int and value >= 0 else default


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _read_grounding(metadata: object) -> Iterator[tuple[Citation, str]]:
    """Citations with offsets in bytes, and the cited text of each."""
    if not isinstance(metadata, dict):
        return
    chunks = metadata.get("groundingChunks")
    sources = [_read_source(chunk) for chunk in chunks] if isinstance(chunks, list) else []
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


def _read_source(chunk: object) -> Citation:
    """The address and title of a web, retrievedContext, maps or image source."""
    for inner in chunk.values() if isinstance(chunk, dict) else ():
        if isinstance(inner, dict):
            return Citation(
                url=_text(inner.get("uri")) or _text(inner.get("sourceUri")),
                title=_text(inner.get("title")),
                quote=_text(inner.get("text")),
            )
    return Citation()


def _read_recitation(metadata: object) -> Iterator[tuple[Citation, str]]:
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


def convert_to_characters(data: bytes, offsets: set[int]) -> dict[int, int]:
    """The offset in characters for each offset in bytes."""
    found: dict[int, int] = {}
    before = characters = 0
    for offset in sorted(offset for offset in offsets if 0 <= offset <= len(data)):
        characters += len(data[before:offset].translate(None, _CONTINUING))
        found[offset] = characters
        before = offset
    return found


def convert_to_bytes(text: str, offsets: set[int]) -> dict[int, int]:
    """The offset in bytes for each offset in characters."""
    found: dict[int, int] = {}
    before = size = 0
    for offset in sorted(offset for offset in offsets if 0 <= offset <= len(text)):
        size += len(text[before:offset].encode("utf-8", "surrogatepass"))
        found[offset] = size
        before = offset
    return found


def _convert_without_text(cited: CitedText, offsets: set[int]) -> dict[int, int]:
    """Like `convert_to_bytes`, for a text that was not kept: works only if every character is one byte."""
    if cited.size != cited.characters:
        return {}
    return {offset: offset for offset in offsets if 0 <= offset <= cited.size}


class GroundingBuilder:
    """Collects the citations of another dialect's reply for one `groundingMetadata`."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, str, str], int] = {}
        self._supports: list[Json] = []
        self._queries: list[str] = []

    def add_query(self, query: str) -> None:
        if len(self._queries) < MAX_CITATIONS:
            self._queries.append(query)

    def cite(self, part: int, before: int, cited: CitedText, citations: Sequence[Citation]) -> None:
        """Add the citations of a text that is in the client's part number `part`, after `before` bytes."""
        text = cited.text()
        edges = {edge for citation in citations for edge in (citation.start, citation.end)}
        sizes = _convert_without_text(cited, edges) if text is None else convert_to_bytes(text, edges)
        for citation in citations[: MAX_CITATIONS - len(self._supports)]:
            key = (citation.url, citation.title, "" if citation.url else citation.quote)
            if not any(key):
                continue
            # A citation without offsets belongs to the whole text.
            exact = citation.start in sizes and citation.end in sizes and citation.start <= citation.end
            start, end = (citation.start, citation.end) if exact else (0, cited.characters)
            segment: Json = {
                "startIndex": before + (sizes[start] if exact else 0),
                "endIndex": before + (sizes[end] if exact else cited.size),
            }
            if text is not None:
                segment["text"] = text[start:end]
            if part:
                segment["partIndex"] = part
            chunk = self._chunks.setdefault(key, len(self._chunks))
            self._supports.append({"segment": segment, "groundingChunkIndices": [chunk]})

    def build(self) -> Json:
        """The `groundingMetadata`; empty if there are no queries and no citations."""
        metadata: Json = {}
        if self._chunks:
            metadata["groundingChunks"] = [_write_source(*key) for key in self._chunks]
            metadata["groundingSupports"] = self._supports
        if self._queries:
            metadata["webSearchQueries"] = self._queries
        return metadata


def _write_source(url: str, title: str, quote: str) -> Json:
    if url:
        return {"web": {"uri": url, "title": title}}
    return {"retrievedContext": {"title": title, "text": quote}}
