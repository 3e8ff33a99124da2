"""The line that every reply runs through: reader, stages, grammar, sequencer, writer.

It cannot say anything illegal: what a stage or a hostile upstream breaks is caught by the grammar and
becomes a failed ending, told in the client's dialect.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dragoman.dialects.base import StreamReader, StreamWriter
from dragoman.dialects.frames import TOO_DEEP
from dragoman.fit import Stage
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import DELTAS, ArgumentsDelta, ReplyEvent, ReplyFailed
from dragoman.hub.grammar import GrammarChecker
from dragoman.hub.sequence import Sequencer
from dragoman.hub.tally import NOTED, Tally


@runtime_checkable
class Overdue(Protocol):
    """A stage that holds something back, but not for ever."""

    def overdue(self) -> list[ReplyEvent]:
        """What has to go now."""
        ...


class ReplyLine:
    """One reply on its way. `tally` remembers what is worth remembering of it.

    `ended`: the reply has had its last word; what the upstream still sends does not matter.
    """

    def __init__(
        self,
        reader: StreamReader,
        stages: Sequence[Stage],
        writer: StreamWriter,
        *,
        governing: Sequence[Stage] = (),
    ) -> None:
        self._reader = reader
        # Only Chat may interleave blocks, and even there a helper of its own vendor takes a change of index
        # for the end of a call.
        self._lasting: list[Stage] = [*stages, Sequencer()]
        self._stages: list[Stage] = [*governing, *self._lasting]
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

    def go_on(self, reader: StreamReader, governing: Sequence[Stage]) -> None:
        """What comes now is another reply of the upstream's, and for the client the same one."""
        self._reader = reader
        self._stages = [*governing, *self._lasting]
        self._passing = self._passed_by_all()

    def tick(self) -> bytes:
        """Time has passed: what has been held for as long as it may goes out."""
        written: list[bytes] = []
        for number, stage in enumerate(self._stages):
            if self.ended or not isinstance(stage, Overdue):
                continue
            for event in stage.overdue():
                for each in self._staged(event, number + 1):
                    self._write(each, written)
        self._passing = self._passed_by_all()
        return b"".join(written)

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

    def _staged(self, event: ReplyEvent, first: int = 0) -> list[ReplyEvent]:
        """What becomes of one event; one at a time, so that a stage that breaks loses nothing before it."""
        kind = type(event)
        events = [event]
        for stage in self._stages[first:] if first else self._stages:
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
        if type(event) is ArgumentsDelta and not event.text:
            # It only told the stages that more is to come.
            return
        written.append(self._writer.write(event))
        if type(event) in NOTED:
            self.tally.note(event)
            self.ended = self._checker.ended

    def _passed_by_all(self) -> frozenset[type]:
        return DELTAS.intersection(*(stage.passes for stage in self._stages))
