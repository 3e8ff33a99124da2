"""Splits requests into segments, so that a conversation stores each of its parts once.

Each request of a conversation repeats the whole history. `RequestMemory` compares a request with the last one
of its chain from both ends, at the speed of a comparison of memory. What is between is new: one segment. Only
the first request of a chain is split, at the ends of messages and blocks, because other sessions begin like
it. The segments always add up to the request, byte for byte.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from dragoman.records.block_refs import BlockRef

#: Bytes. Shorter segments are joined with the next one.
MIN_SEGMENT = 512
#: Segments at one end of a request from which on they are joined to one list.
MAX_ENDS = 6
#: Bytes of requests that are remembered, and chains.
MAX_REMEMBERED = 32 * 1024 * 1024
MAX_CHAINS = 500
#: Bytes that a request adds to a conversation. If there are more, it is compared with a first request, too.
MAX_NEW = 8192
#: First requests that are remembered for the beginnings of other sessions.
MAX_OPENINGS = 16

#: Where a request is cut. Both alternatives begin with one character, which makes the search fast.
#: After a quote: the end of a block. Claude Code moves its cache marks between requests, so the part before
#: a mark, or before a place where one can be, is a segment. Group 1 is the end of a list of messages, blocks
#: or tools: new ones are inserted there. Group 2 is between two of them. Both are cut after their brace.
_CUTS = re.compile(
    rb'\}(?:(?<="\})\s*+\](?=\s*+\})|\s*+(\])(?=\s*+(?:,\s*+"|\}\s*+\Z))|\s*+(,)\s*+(?=\{))'
    rb'|,\s*+"cache_control"'
)

_MARK = b',"cache_control"'
_ROLE = b'"role"'

#: What identifies a chain, the requests that continue one another: session, sub-agent, part with its target.
ChainKey = tuple[str, str, str]


class Segment:
    """A part of a request. The recorder's thread sets `ref` and `key` (a hash) when the file has it.

    `content` is the redacted part of a new segment. `parts`: the segments that this one joins. `is_shared`:
    other sessions may use it, too, so it is a block of its own.
    """

    __slots__ = ("_has_role", "content", "is_list", "is_shared", "key", "parts", "raw", "ref")

    def __init__(
        self, raw: bytes, content: bytes = b"", parts: Sequence["Segment"] = (), *, is_shared: bool = False
    ) -> None:
        self.raw = raw
        self.content = content
        self.parts = parts
        self.is_list = bool(parts)
        self.is_shared = is_shared
        self.ref: BlockRef | None = None
        self.key = b""
        self._has_role: bool | None = None

    @property
    def has_role(self) -> bool:
        """Whether a message may be in it. Searched once: many requests end with the same long segment."""
        if self._has_role is None:
            self._has_role = _ROLE in self.raw
        return self._has_role

    def cut(self, length: int) -> "Segment | None":
        """The beginning of a segment that is in the file; None if it is not, or if it is a list."""
        if self.ref is None or self.is_list:
            return None
        beginning = Segment(self.raw[:length], is_shared=self.is_shared)
        beginning.ref = BlockRef(self.ref.block, self.ref.start, self.ref.start + length)
        beginning.key = self.key
        return beginning


class KnownParts(NamedTuple):
    """What is known of a request: segments at its beginning and at its end. New: from `start` to `end`.

    `is_first`: it continues no request of its chain. `is_whole`: it has all of the one that it continues.
    """

    head: list[Segment]
    tail: list[Segment]
    start: int
    end: int
    is_first: bool
    is_whole: bool = False

    def is_grown(self, new: bytes) -> bool:
        """Whether `new`, what is between head and tail, is the end of the conversation; false if unsure."""
        if not self.is_whole or self.is_first or _ROLE not in new:
            return False
        return not any(segment.has_role for segment in self.tail)


class _LastRequest:
    """The last request of a chain. `checked`: the number of deletions after which its blocks were there."""

    __slots__ = ("checked", "segments", "size")

    def __init__(self, segments: list[Segment], checked: int) -> None:
        self.segments = segments
        self.checked = checked
        self.size = sum(len(segment.raw) for segment in segments)


class RequestMemory:
    """The last request of each chain, as segments.

    `has_blocks` tells whether the file has all these blocks, given by id and hash. `note_deletion` is called
    when blocks were deleted.
    """

    def __init__(self, has_blocks: Callable[[Mapping[int, bytes]], bool]) -> None:
        self._has_blocks = has_blocks
        self._chains: OrderedDict[ChainKey, _LastRequest] = OrderedDict()
        #: The latest first request, by its part: a new session often begins like another one.
        self._openings: OrderedDict[str, _LastRequest] = OrderedDict()
        self._size = 0
        self._deletions = 0

    def note_deletion(self) -> None:
        self._deletions += 1

    def match(self, chain: ChainKey, body: bytes) -> KnownParts:
        own = _match(self._check(self._chains.get(chain)), body, is_first=False)
        if own is not None and own.end - own.start <= MAX_NEW:
            return own
        # The conversation begins, or begins again: the agent has replaced its history.
        opening = _match(self._check(self._openings.get(chain[2])), body, is_first=True)
        found = [match for match in (own, opening) if match is not None]
        return min(
            found,
            key=lambda match: match.end - match.start,
            default=KnownParts([], [], 0, len(body), is_first=True),
        )

    def remember(self, chain: ChainKey, segments: list[Segment], *, is_first: bool) -> None:
        self._size -= before.size if (before := self._chains.pop(chain, None)) else 0
        self._chains[chain] = entry = _LastRequest(segments, self._deletions)
        self._size += entry.size
        while self._size > MAX_REMEMBERED or len(self._chains) > MAX_CHAINS:
            self._size -= self._chains.popitem(last=False)[1].size
        if is_first:
            self._openings.pop(chain[2], None)
            self._openings[chain[2]] = entry
            if len(self._openings) > MAX_OPENINGS:
                self._openings.popitem(last=False)

    def _check(self, entry: _LastRequest | None) -> _LastRequest | None:
        """`entry` if all its blocks are still stored, else None."""
        if entry is None or entry.checked == self._deletions:
            return entry
        if not self._has_blocks(dict(_list_blocks(entry.segments))):
            return None
        entry.checked = self._deletions
        return entry


def _match(entry: _LastRequest | None, body: bytes, *, is_first: bool) -> KnownParts | None:
    """Compare a request with another one. None: there is no other one."""
    if entry is None:
        return None
    known = entry.segments
    start, end, first, last = 0, len(body), 0, len(known)
    while first < last and body.startswith(known[first].raw, start, end):
        start += len(known[first].raw)
        first += 1
    while last > first and body.endswith(known[last - 1].raw, start, end):
        last -= 1
        end -= len(known[last].raw)
    head, tail = known[:first], known[last:]
    length = _find_cut(known[first].raw, body, start, end) if first < last and not is_first else 0
    if length and (beginning := known[first].cut(length)):
        head.append(beginning)
        start += length
    return KnownParts(head, tail, start, end, is_first, is_whole=first == last)


def _list_blocks(segments: Sequence[Segment]) -> Iterator[tuple[int, bytes]]:
    """The blocks of segments, by id and hash. Those of a list that is in the file are there as long as it."""
    for segment in segments:
        if segment.ref is not None:
            yield segment.ref.block, segment.key
        else:
            yield from _list_blocks(segment.parts)


def _find_cut(raw: bytes, body: bytes, start: int, end: int) -> int:
    """How much of a segment is known although the rest differs. No secret extends over the place.

    Claude Code moves its cache marks between requests. Otherwise the place is between two objects.
    """
    low, high = 0, min(len(raw), end - start)
    while low < high:
        middle = (low + high + 1) // 2
        if body.startswith(raw[low:middle], start + low):
            low = middle
        else:
            high = middle - 1
    if not (raw.startswith(_MARK, low) or body.startswith(_MARK, start + low)):
        low = raw.rfind(b"},{", 0, low) + 1
    return low if low >= MIN_SEGMENT else 0


def split_request(raw: bytes, content: bytes) -> list[Segment]:
    """A first request, or the part of it that is new, as shared segments. `content` is its redacted form."""
    places = [0, *cut_request(raw)] if raw else []
    return [Segment(raw[low:high], content[low:high], is_shared=True) for low, high in pairwise(places)]


def cut_request(data: bytes) -> list[int]:
    """The places at which a request, or a part of it, is cut. The last one is its end."""
    places, last = [], 0
    for found in _CUTS.finditer(data):
        at = found.start() + (found.lastindex is not None)
        if at > last and (at - last >= MIN_SEGMENT or found.lastindex == 1):
            places.append(at)
            last = at
    places.append(len(data))
    return places


def join_segments(segments: list[Segment]) -> list[Segment]:
    """The segments; if they are many, as parts of one segment, so that a request has few references."""
    if len(segments) <= MAX_ENDS:
        return segments
    return [Segment(b"".join([segment.raw for segment in segments]), parts=segments)]
