"""The line that every reply runs through: reader, stages, grammar, sequencer, writer.

It cannot say anything illegal: what a stage or a hostile upstream breaks is caught by the grammar and
becomes a failed ending, told in the client's dialect.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from dragoman.dialects.base import StreamReader, StreamWriter
from dragoman.dialects.frames import TOO_DEEP
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import DELTAS, ReplyEvent, ReplyFailed, TextDelta
from dragoman.hub.grammar import GrammarChecker
from dragoman.hub.stage import Sequencer, Stage
from dragoman.hub.tally import TALLY_EVENTS, Tally
from dragoman.wire.sse import Frame

#: A stage that wants texts may offer, as its `skim`, a test of them that is cheaper than being fed: texts for
#: which it holds need not be fed. It counts until something else than a delta comes.
Skim = Callable[[str], bool]


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
        #: Which stages want each kind of delta, as things stand; mostly none.
        self._wanting = self._wanted()
        self.ended = False
        self._checker = GrammarChecker()
        self._writer = writer
        self.tally = Tally()

    @property
    def failure(self) -> Failure | None:
        """Why the reply ended badly, if it did."""
        return self.tally.failure

    def feed(self, data: bytes) -> list[Frame]:
        return [] if self.ended else self._run(self._reader.feed(data))

    def feed_frames(self, frames: Iterable[Frame]) -> list[Frame]:
        """The same for the frames of a whole reply."""
        return [] if self.ended else self._run(self._reader.feed_frames(frames))

    def close(self) -> list[Frame]:
        """The upstream is done. Whatever was still open ends now, truthfully."""
        return [] if self.ended else self._run(self._reader.close())

    def fail(self, failure: ReplyFailed) -> list[Frame]:
        """Somebody else ended it: a time limit, a lost connection, a shutdown."""
        return [] if self.ended else self._run([failure])

    def go_on(self, reader: StreamReader, governing: Sequence[Stage]) -> None:
        """What comes now is another reply of the upstream's, and for the client the same one."""
        self._reader = reader
        self._stages = [*governing, *self._lasting]
        self._wanting = self._wanted()

    def tick(self) -> list[Frame]:
        """Time has passed: what has been held for as long as it may goes out."""
        written: list[Frame] = []
        for number, stage in enumerate(self._stages):
            if self.ended or not isinstance(stage, Overdue):
                continue
            for event in stage.overdue():
                self._written([event], self._stages[number + 1 :], written)
        self._wanting = self._wanted()
        return written

    def _run(self, events: list[ReplyEvent]) -> list[Frame]:
        written: list[Frame] = []
        check, write, stages = self._checker.check, self._writer.write, self._stages
        try:
            for event in events:
                wanting = self._wanting.get(type(event))
                if wanting is None:
                    self._written([event], self._stages, written)
                    if self.ended:
                        break
                    continue
                if wanting and type(event) is TextDelta and self._skim is not None and self._skim(event.text):
                    check(event)
                    written += write(event)
                    continue
                for position in wanting:
                    changed = stages[position].feed(event)
                    # A delta that stays one changes nothing about what the stages want.
                    if len(changed) != 1 or type(changed[0]) is not type(event):
                        self._deviated(changed, position, written)
                        break
                    event = changed[0]
                else:
                    check(event)
                    written += write(event)
                    continue
                if self.ended:
                    break
        except (DragomanError, RecursionError) as error:
            if not self.ended:
                failure = error.failure if isinstance(error, DragomanError) else TOO_DEEP
                self._write(ReplyFailed("failed", failure), written)
        return written

    def _deviated(self, events: list[ReplyEvent], position: int, written: list[Frame]) -> None:
        """What the stage at this position made of a delta, on its way through the others."""
        if events or self._stages[position].passes != self._passing[position]:
            self._written(events, self._stages[position + 1 :], written)

    def _written(self, events: list[ReplyEvent], stages: Sequence[Stage], written: list[Frame]) -> None:
        """What the stages make of events after which they may want other things than before."""
        for stage in stages:
            if len(events) == 1:
                if type(events[0]) not in stage.passes:
                    events = stage.feed(events[0])
            else:
                events = [after for each in events for after in stage.feed(each)]
        self._wanting = self._wanted()
        for event in events:
            self._write(event, written)

    def _write(self, event: ReplyEvent, written: list[Frame]) -> None:
        self._checker.check(event)
        written += self._writer.write(event)
        if type(event) in TALLY_EVENTS:
            self.tally.add(event)
            self.ended = self._checker.is_ended

    def _wanted(self) -> dict[type, tuple[int, ...]]:
        self._passing = tuple([stage.passes for stage in self._stages])
        wanted = _wanted_by(self._passing)
        wanting = wanted[TextDelta]
        #: Tells of most texts that the one stage which wants them would give them back as they are.
        self._skim: Skim | None = None
        if len(wanting) == 1:
            self._skim = getattr(self._stages[wanting[0]], "skim", None)
        return wanted


@lru_cache(maxsize=1024)
def _wanted_by(passing: tuple[frozenset[type], ...]) -> dict[type, tuple[int, ...]]:
    """The stages that do not pass a delta, by its kind; the same few cases come in every reply."""
    return {
        kind: tuple(position for position, passes in enumerate(passing) if kind not in passes)
        for kind in DELTAS
    }
