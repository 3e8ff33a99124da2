"""The line that every reply runs through: reader, stages, grammar, sequencer, writer.

It cannot say anything illegal: what a stage or a hostile upstream breaks is caught by the grammar and
becomes a failed ending, told in the client's dialect.
"""

from collections.abc import Sequence

from dragoman.dialects.base import StreamReader, StreamWriter
from dragoman.dialects.frames import TOO_DEEP
from dragoman.fit import Stage
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import DELTAS, ReplyEvent, ReplyFailed
from dragoman.hub.grammar import GrammarChecker
from dragoman.hub.sequence import Sequencer
from dragoman.hub.tally import NOTED, Tally


class ReplyLine:
    """One reply on its way. `tally` remembers what is worth remembering of it.

    `ended`: the reply has had its last word; what the upstream still sends does not matter.
    """

    def __init__(
        self,
        reader: StreamReader,
        stages: Sequence[Stage],
        writer: StreamWriter,
    ) -> None:
        self._reader = reader
        # Only Chat may interleave blocks, and even there a helper of its own vendor takes a change of index
        # for the end of a call.
        self._stages: list[Stage] = [*stages, Sequencer()]
        #: The kinds of delta that no stage wants, as things stand.
        self._passing = self._passed_by_all()
        self.ended = False
        self._checker = GrammarChecker()
        self._writer = writer
        self.tally = Tally()

    @property
    def failure(self) -> Failure | None:
        """Why the reply ended badly, if it did."""
        return self.tally.failure

    def feed(self, data: bytes) -> bytes:
        return b"" if self.ended else self._run(self._reader.feed(data))

    def close(self) -> bytes:
        """The upstream is done. Whatever was still open ends now, truthfully."""
        return b"" if self.ended else self._run(self._reader.close())

    def fail(self, failure: ReplyFailed) -> bytes:
        """Somebody else ended it: a time limit, a lost connection, a shutdown."""
        return b"" if self.ended else self._run([failure])

    def _run(self, events: list[ReplyEvent]) -> bytes:
        written: list[bytes] = []
        check, write = self._checker.check, self._writer.write
        try:
            for event in events:
                if type(event) in self._passing:
                    check(event)
                    written.append(write(event))
                    continue
                for each in self._staged(event):
                    self._write(each, written)
                if self.ended:
                    break
        except (DragomanError, RecursionError) as error:
            if not self.ended:
                failure = error.failure if isinstance(error, DragomanError) else TOO_DEEP
                self._write(ReplyFailed("failed", failure), written)
        return b"".join(written)

    def _staged(self, event: ReplyEvent) -> list[ReplyEvent]:
        """What becomes of one event; one at a time, so that a stage that breaks loses nothing before it."""
        kind = type(event)
        events = [event]
        for stage in self._stages:
            if len(events) == 1:
                if type(events[0]) not in stage.passes:
                    events = stage.feed(events[0])
            else:
                events = [after for each in events for after in stage.feed(each)]
        # A delta that stays one changes nothing about what the stages want.
        if kind not in DELTAS or len(events) != 1 or type(events[0]) is not kind:
            self._passing = self._passed_by_all()
        return events

    def _write(self, event: ReplyEvent, written: list[bytes]) -> None:
        self._checker.check(event)
        written.append(self._writer.write(event))
        if type(event) in NOTED:
            self.tally.note(event)
            self.ended = self._checker.ended

    def _passed_by_all(self) -> frozenset[type]:
        return DELTAS.intersection(*(stage.passes for stage in self._stages))
