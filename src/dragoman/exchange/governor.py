"""Governance on the way to one target: the steps of its replies, and what to ask if one was not the last."""

from collections.abc import Callable

import msgspec

from dragoman.exchange.flows import WrittenFlow
from dragoman.exchange.outline import outline
from dragoman.governance.guard.retry import DenialRetry
from dragoman.governance.interventions import Report
from dragoman.governance.snapshot import Snapshot
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.line import ReplyLine
from dragoman.pipeline.replies import reply_reader
from dragoman.providers.profile import Target, build_target
from dragoman.wire.sse import encode_sse


class Governor:
    """`timer` tells how long calls are held. `seed` makes ids unique."""

    def __init__(
        self, governed: GovernedRequest, *, client: str, seed: str, report: Report, timer: Callable[[], float]
    ) -> None:
        # What was said in a conversation need not be kept for its reply, unless it has to be said again.
        fitted = governed.fitted if governed.asks_again else outline(governed.fitted)
        self.governed = msgspec.structs.replace(governed, asked=outline(governed.asked), fitted=fitted)
        self.facts: Target = build_target(governed.profile, client)
        self._ids = IdSource(seed)
        self._report = report
        self._timer = timer
        self._streams = True
        self._rounds: DenialRetry | None = None
        self._round = 0
        #: What the reply said before governance and after it, if somebody wants to see that.
        self.snapshot: Snapshot | None = None
        #: The question of this round.
        self._fitted = fitted

    @property
    def limits_time(self) -> bool:
        return self.governed.governance.hold_seconds > 0

    @property
    def waits(self) -> bool:
        """Whether the model is to be asked again before the reply can go on."""
        return self._rounds is not None and self._rounds.waits

    def begin(self, *, streams: bool) -> list[Stage]:
        """The steps of a new reply."""
        self._streams = streams
        self._round = 1
        self._rounds = DenialRetry() if self.governed.asks_again else None
        self._fitted = self.governed.fitted
        self.snapshot = Snapshot() if self.governed.governance.snapshots else None
        return self._stages()

    def next_request(self) -> Request:
        """What to ask while it waits, ready to be written."""
        if self._rounds is not None:
            self._fitted = self._rounds.next_request(self._fitted)
        return self.governed.apply_contract(self._fitted)

    def go_on(self, line: ReplyLine, losses: Losses) -> None:
        """Have the line listen to the answer to the next question. Ask for `next_request` before."""
        self._round += 1
        ids = self._ids.branch(f"upstream {self._round}")
        dialect = self.governed.profile.dialect
        reader = reply_reader(dialect, self.governed.asked, self.facts, ids=ids, losses=losses)
        line.go_on(reader, self._stages())

    def _stages(self) -> list[Stage]:
        return self.governed.stages(
            ids=self._ids.branch(f"governance {self._round}"),
            report=self._report,
            streams=self._streams,
            retry=self._rounds,
            clock=self._timer,
            snapshot=self.snapshot,
        )


class GovernedFlow(WrittenFlow):
    """A written flow that may go on with another answer."""

    def __init__(self, line: ReplyLine, governor: Governor, losses: Losses) -> None:
        super().__init__(line)
        self._governed_line = line
        self._governor = governor
        self._losses = losses

    @property
    def over(self) -> bool:
        return self._line.ended or self._governor.waits

    def tick(self) -> bytes:
        return encode_sse(self._governed_line.tick())

    def go_on(self) -> None:
        self._governor.go_on(self._governed_line, self._losses)
