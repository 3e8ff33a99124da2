"""What follows a marker, while its readers read it, all of them at once."""

from dragoman.governance.harvest.cursor import Call, Cursor, Source
from dragoman.governance.harvest.format import Outcome, Reading
from dragoman.governance.harvest.plan import Candidate, KnownTools


class _Attempt:
    __slots__ = ("candidate", "cursor", "reading", "result")

    def __init__(self, candidate: Candidate, source: Source, start: int, tools: KnownTools) -> None:
        opener = candidate.opener
        inside = len(opener.marker) if opener.inside is None else opener.inside
        self.candidate = candidate
        self.cursor = Cursor(source, start + inside)
        self.reading: Reading = opener.read(self.cursor, tools.context(candidate))
        self.result: Call | Outcome | None = None

    def read(self) -> bool | None:
        """Read on: True with a result, False if this is something else, None while more text is needed."""
        try:
            self.result = next(self.reading)
        except StopIteration as stopped:
            self.result = stopped.value
            return self.result is not None
        return True if self.result is not None else None


class Body:
    """`start` is where the text begins that is undecided; what of it has left the source is saved."""

    __slots__ = ("_attempts", "_furthest", "_saved", "_saved_to", "_source", "start")

    def __init__(
        self, source: Source, start: int, candidates: tuple[Candidate, ...], tools: KnownTools
    ) -> None:
        self._source = source
        self._attempts = [_Attempt(candidate, source, start, tools) for candidate in candidates]
        self._furthest = max(attempt.cursor.at for attempt in self._attempts)
        self._saved: list[str] = []
        self._saved_to = start
        self.start = start

    @property
    def needed(self) -> int:
        """Text before this position is no longer needed in the source; it must be saved before it goes."""
        return min(attempt.cursor.at for attempt in self._attempts)

    def save(self) -> int:
        needed = self.needed
        self._saved.append(self._source.between(self._saved_to, needed))
        self._saved_to = needed
        return needed

    def read(self) -> tuple[Candidate, Call | Outcome | None, int] | None:
        """What was found, by which candidate, and where it ends; None while there is not enough text.

        If every reader refuses there is no result, and the end is where the last one gave up.
        """
        best: _Attempt | None = None
        waiting: list[_Attempt] = []
        refused = self._attempts[0]
        for attempt in self._attempts:
            verdict = attempt.read()
            if verdict is None:
                waiting.append(attempt)
            elif not verdict:
                self._furthest = max(self._furthest, attempt.cursor.at)
            elif best is None or attempt.cursor.at < best.cursor.at:
                best = attempt
        if best is not None:
            self._attempts = [best]
            return best.candidate, best.result, best.cursor.at
        if waiting:
            self._attempts = waiting
            return None
        return refused.candidate, None, self._furthest

    def text(self, end: int) -> str:
        """Everything from the start of what is undecided."""
        return "".join(self._saved) + self._source.between(self._saved_to, end)

    def length(self, end: int) -> int:
        return end - self.start

    def restart(self, at: int) -> None:
        """What came before has been dealt with."""
        self._saved = []
        self._saved_to = self.start = at
