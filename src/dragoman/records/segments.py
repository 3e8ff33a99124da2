"""Splits the JSON of a request into segments, so that a conversation stores each of its parts once.

Each request of a conversation repeats the whole history. The cuts follow the JSON's members and elements, so
that a longer history has the same first segments. The segments always add up to the input, byte for byte.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

#: Bytes. A part of a larger segment becomes a segment of its own from this size on.
MIN_PART = 256
#: Bytes. Larger values are split further.
MAX_WHOLE = 1024
#: Levels of JSON below a segment at which it is split. A block of a message of a request is at the third.
MAX_DEPTH = 5

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


def split_request(body: bytes) -> list[bytes]:
    """The segments of a request: each member, and each element of its lists. One segment if it is no object.

    A segment begins after the segment before it: its own separators are its first bytes.
    """
    cuts: list[int] = []
    for start, end in _find_values(body, 0, len(body)):
        elements = list(_find_values(body, start, end)) if body[start : start + 1] == b"[" else []
        cuts += (start, elements[0][0]) if elements else (start, end)
        cuts += [last for _, last in elements]
    return _cut(body, cuts)


def split_segment(segment: bytes) -> list[bytes]:
    """The parts of a large segment: the blocks of a message, the long texts in a block."""
    if len(segment) <= MAX_WHOLE:
        return [segment]
    # The separators before the value are no JSON.
    start = next((at for at, byte in enumerate(segment[:64]) if byte in b'{["'), 0)
    cuts: list[int] = []
    _split_value(segment, start, len(segment), MAX_DEPTH, cuts)
    return _cut(segment, cuts)


def _split_value(data: bytes, start: int, end: int, depth: int, cuts: list[int]) -> None:
    for first, last in _find_values(data, start, end):
        if last - first > MAX_WHOLE:
            cuts.append(first)
            if depth:
                _split_value(data, first, last, depth - 1, cuts)
        if last - (cuts[-1] if cuts else 0) >= MIN_PART:
            cuts.append(last)


def _find_values(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of each member or element of the object or list at this place."""
    text = memoryview(data)[start:end]
    values: list[msgspec.Raw]
    try:
        values = (
            _ELEMENTS.decode(text) if data[start : start + 1] == b"[" else [*_MEMBERS.decode(text).values()]
        )
    except (ValueError, RecursionError):
        return
    position = start
    for raw in values:
        value = bytes(raw)
        # The first bytes find the place, which the comparison proves. Searching for all of them takes longer.
        at = data.find(value[:32], position, end)
        if at < 0 or data[at : at + len(value)] != value:
            continue
        position = at + len(value)
        yield at, position


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, *cuts, len(data)})
    return [data[first:last] for first, last in pairwise(places)]
