"""Ways to cut a stream into pieces, for the property that cuts do not matter."""

from itertools import pairwise
from typing import TypeVar

from hypothesis import strategies as st

Stream = TypeVar("Stream", str, bytes)

CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(stream: Stream, cuts: list[int]) -> list[Stream]:
    """The stream in pieces, some of them perhaps empty."""
    edges = [0, *sorted(min(place, len(stream)) for place in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def singly(stream: Stream) -> list[Stream]:
    """The stream in pieces of one."""
    return [stream[place : place + 1] for place in range(len(stream))]
