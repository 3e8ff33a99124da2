"""References to blocks: the parts of a content, and their form in the file."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from dragoman.records.compact import CompactStream

_PACKED = msgspec.msgpack.Decoder(list[int | list[int]])


class BlockRef(NamedTuple):
    """A part of a content: a block, or the bytes of it from `start` to `end`, which is negative for all.

    `repeated`: the lengths of the repeated parts of a stream in its compact form. They stand before it.
    """

    block: int
    start: int = 0
    end: int = -1
    repeated: tuple[int, ...] = ()

    def cut(self, content: bytes) -> bytes:
        """These bytes of the block's content."""
        content = content if self.end < 0 else content[self.start : self.end]
        if not self.repeated:
            return content
        ends = list(accumulate(self.repeated, initial=0))
        parts = tuple(content[low:high] for low, high in pairwise(ends))
        return CompactStream(content[ends[-1] :], parts).expand()


def pack_refs(blocks: Sequence[BlockRef]) -> bytes:
    """The parts. The id of a block is written as the difference to the one before."""
    packed: list[int | tuple[int, ...]] = []
    before = 0
    for block, start, end, repeated in blocks:
        packed.append(block - before if end < 0 and not repeated else (block - before, start, end, *repeated))
        before = block
    return msgspec.msgpack.encode(packed)


def unpack_refs(data: bytes) -> list[BlockRef]:
    blocks: list[BlockRef] = []
    block = 0
    for each in _PACKED.decode(data):
        step, start, end, *repeated = (each, 0, -1) if isinstance(each, int) else each
        block += step
        blocks.append(BlockRef(block, start, end, tuple(repeated)))
    return blocks
