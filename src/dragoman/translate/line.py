"""The line that every reply runs through: reader, stages, grammar, sequencer, writer.

It cannot say anything illegal: what a stage or a hostile upstream breaks is caught by the grammar and
becomes a failed ending, told in the client's dialect.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from dragoman.dialects.base import StreamReader, StreamWriter
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyEvent, ReplyFailed
from dragoman.hub.grammar import GrammarChecker
from dragoman.hub.sequence import Sequencer


class Stage(Protocol):
    """A step on events. Grammatical in, grammatical out."""

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]: ...


class ReplyLine:
    """One reply on its way. `failure` tells why it ended badly, if it did."""

    def __init__(
        self,
        reader: StreamReader,
        stages: Sequence[Stage],
        writer: StreamWriter,
        *,
        sequential: bool,
    ) -> None:
        self._reader = reader
        self._steps: list[Callable[[ReplyEvent], list[ReplyEvent]]] = [stage.feed for stage in stages]
        if sequential:
            self._steps.append(Sequencer().feed)
        self._checker = GrammarChecker()
        self._writer = writer
        self.failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """The reply has had its last word; what the upstream still sends does not matter."""
        return self._checker.ended

    def feed(self, data: bytes) -> bytes:
        return b"" if self._checker.ended else self._run(self._reader.feed(data))

    def close(self) -> bytes:
        """The upstream is done. Whatever was still open ends now, truthfully."""
        return b"" if self._checker.ended else self._run(self._reader.close())

    def fail(self, failure: ReplyFailed) -> bytes:
        """Somebody else ended it: a time limit, a lost connection, a shutdown."""
        return b"" if self._checker.ended else self._run([failure])

    def _run(self, events: list[ReplyEvent]) -> bytes:
        written: list[bytes] = []
        try:
            for step in self._steps:
                events = [after for event in events for after in step(event)]
            self._write(events, written)
        except DragomanError as error:
            if not self._checker.ended:
                self._write([ReplyFailed("failed", error.failure)], written)
        return b"".join(written)

    def _write(self, events: list[ReplyEvent], written: list[bytes]) -> None:
        check, write = self._checker.check, self._writer.write
        for event in events:
            check(event)
            written.append(write(event))
            if self._checker.ended:
                if isinstance(event, ReplyFailed):
                    self.failure = event.failure
                return
