"""Splits requests into segments, so that a conversation stores each of its parts once.

Each request of a conversation repeats the whole history. `RequestMemory` compares a request with the last one
of its lane from both ends, at the speed of a comparison of memory. Only what is between is split, at the ends
of messages and blocks. The segments always add up to the request, byte for byte.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence

#: Bytes. Shorter segments are joined with the next one.
MIN_SEGMENT = 512
#: Segments at one end of a request from which on they are joined to one list.
MAX_ENDS = 6
#: Bytes of requests that are remembered, and lanes.
MAX_REMEMBERED = 32 * 1024 * 1024
MAX_LANES = 500

#: Where a request is cut. Both alternatives begin with one character, which makes the search fast.
#: After a quote: the end of a block. Claude Code moves its cache marks between requests, so the part before
#: a mark, or before a place where one can be, is a segment. Group 1 is the end of a list of messages, blocks
#: or tools: new ones are inserted there. Group 2 is between two of them. Both are cut after their brace.
_CUTS = re.compile(
    rb'\}(?:(?<="\})\s*+\](?=\s*+\})|\s*+(\])(?=\s*+(?:,\s*+"|\}\s*+\Z))|\s*+(,)\s*+(?=\{))'
    rb'|,\s*+"cache_control"'
)

#: A lane: requests that continue one another. Session, sub-agent, and the part with its target.
Lane = tuple[str, str, str]


class Segment:
    """A part of a request. The recorder's thread sets the id when the segment is in the file.

    `content` is the redacted part of a new segment. `parts`: the segments that this one joins.
    """

    __slots__ = ("content", "id", "parts", "raw")

    def __init__(self, raw: bytes, content: bytes = b"", parts: Sequence["Segment"] = ()) -> None:
        self.raw = raw
        self.content = content
        self.parts = parts
        self.id = 0


class RequestMemory:
    """The last request of each lane, as segments."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[Lane, list[Segment]] = OrderedDict()
        #: The lane that was used last, by its part: a new session often begins like another one.
        self._latest: dict[str, Lane] = {}
        self._size = 0

    def clear(self) -> None:
        self._lanes.clear()
        self._size = 0

    def match(self, lane: Lane, body: bytes) -> tuple[list[Segment], list[Segment], int, int]:
        """The known segments at the beginning and at the end of a request, and the place between them."""
        known = self._lanes.get(lane) or self._lanes.get(self._latest.get(lane[2], lane)) or []
        start, end, first, last = 0, len(body), 0, len(known)
        while first < last and body.startswith(known[first].raw, start, end):
            start += len(known[first].raw)
            first += 1
        while last > first and body.endswith(known[last - 1].raw, start, end):
            last -= 1
            end -= len(known[last].raw)
        return _join(known[:first]), _join(known[last:]), start, end

    def remember(self, lane: Lane, segments: list[Segment]) -> None:
        before = self._lanes.pop(lane, ())
        self._lanes[lane] = segments
        self._latest[lane[2]] = lane
        self._size += _measure(segments) - _measure(before)
        while self._size > MAX_REMEMBERED or len(self._lanes) > MAX_LANES:
            self._size -= _measure(self._lanes.popitem(last=False)[1])


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


def _join(segments: list[Segment]) -> list[Segment]:
    """The same segments, as one list if they are many: a request then has few references."""
    if len(segments) <= MAX_ENDS:
        return segments
    return [Segment(b"".join([segment.raw for segment in segments]), parts=segments)]


def _measure(segments: Sequence[Segment]) -> int:
    return sum(len(segment.raw) for segment in segments)
