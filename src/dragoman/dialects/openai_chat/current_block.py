"""The open text, refusal or thought of a Chat reply.

It has no reference to its users. So a finished reply has no reference cycle, and its memory is free at once.
"""

from dragoman.dialects.base import Source
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.content import ReplyBlock
from dragoman.hub.seal import Seal


class CurrentBlock:
    """At most one open block. `field` is the field of deltas that continues it, empty if there is none."""

    __slots__ = ("_builder", "_source", "block", "field", "kind", "model")

    def __init__(self, source: Source, builder: ReplyBuilder) -> None:
        self._source = source
        self._builder = builder
        #: The model of the reply, for seals if the source does not name the model.
        self.model = ""
        self.block = -1
        self.kind: type[ReplyBlock] | None = None
        self.field = ""

    def open(self, block: ReplyBlock, field: str) -> None:
        self.block, self.kind, self.field = self._builder.open(block), type(block), field

    def close(self) -> None:
        """Close the open block, if there is one."""
        if self.kind is not None:
            self._builder.close(self.block)
            self.block, self.kind, self.field = -1, None, ""

    def build_seal(self, value: str) -> Seal:
        """The seal of a signature of the upstream."""
        return Seal(self._source.issuer, self._source.model or self.model, value)
