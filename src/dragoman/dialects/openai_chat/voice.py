"""What a Chat reply is saying: one block at a time, which the next kind of thing ends.

It knows nobody who uses it, so that a reply that is over is gone at once, without the help of the garbage
collector.
"""

from dragoman.dialects.base import Source
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.content import ReplyBlock
from dragoman.hub.seal import Seal


class Voice:
    """`field` is the key of the delta that continues the block, if there is one."""

    __slots__ = ("_builder", "_source", "block", "field", "kind", "model")

    def __init__(self, source: Source, builder: ReplyBuilder) -> None:
        self._source = source
        self._builder = builder
        #: The model that the reply names, for seals of an upstream whose model is not known otherwise.
        self.model = ""
        self.block = -1
        self.kind: type[ReplyBlock] | None = None
        self.field = ""

    def begin(self, block: ReplyBlock, field: str) -> None:
        self.block, self.kind, self.field = self._builder.open(block), type(block), field

    def hush(self) -> None:
        """End what is being said."""
        if self.kind is not None:
            self._builder.close(self.block)
            self.block, self.kind, self.field = -1, None, ""

    def seal_of(self, value: str) -> Seal:
        """The upstream's seal of a signature."""
        return Seal(self._source.issuer, self._source.model or self.model, value)
