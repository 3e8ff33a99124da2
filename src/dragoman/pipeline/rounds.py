"""Rounds of a governed reply: if the guard denies a call, the model is asked again within the same reply."""

from collections.abc import Callable

import msgspec

from dragoman.dialects.interfaces import StreamReader
from dragoman.governance.guard.retry import DenialRetry
from dragoman.governance.interventions import Report
from dragoman.governance.snapshot import SnapshotPair
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.outline import build_outline
from dragoman.pipeline.reply_builder import build_reader
from dragoman.providers.profile import TargetFacts


class GovernanceRounds:
    """The rounds of one reply. `timer` returns seconds, for the limits on holding calls.

    `can_retry`: the model can be asked again; the library cannot. `next_request` builds the request of
    the next round; call it before `build_next_reader`.
    """

    def __init__(
        self,
        governed: GovernedRequest,
        facts: TargetFacts,
        *,
        ids: IdSource,
        losses: Losses,
        report: Report,
        timer: Callable[[], float] | None,
        streams: bool,
        can_retry: bool = True,
    ) -> None:
        # The conversation is kept only if a round may have to send it again.
        fitted = governed.fitted if governed.asks_again else build_outline(governed.fitted)
        self._governed = msgspec.structs.replace(governed, asked=build_outline(governed.asked), fitted=fitted)
        self._facts = facts
        self._ids = ids
        self._losses = losses
        self._report = report
        self._timer = timer
        self._streams = streams
        self._retry = DenialRetry() if governed.asks_again and can_retry else None
        self._fitted = fitted
        self._number = 1
        #: The reply before and after governance, if the settings ask for it.
        self.snapshots = SnapshotPair() if governed.governance.snapshots else None

    @property
    def needs_next_round(self) -> bool:
        return self._retry is not None and self._retry.waits

    @property
    def needs_ticks(self) -> bool:
        """Whether calls are held for a limited time, so that `release_overdue` must be called."""
        return self._governed.governance.hold_seconds > 0

    def next_request(self) -> Request:
        """Build the request of the next round, ready to be written."""
        if self._retry is not None:
            self._fitted = self._retry.next_request(self._fitted)
        return self._governed.apply_contract(self._fitted)

    def build_stages(self) -> list[Stage]:
        return self._governed.stages(
            ids=self._ids.branch(f"governance {self._number}"),
            report=self._report,
            streams=self._streams,
            retry=self._retry,
            clock=self._timer,
            snapshots=self.snapshots,
        )

    def build_next_reader(self) -> StreamReader:
        self._number += 1
        ids = self._ids.branch(f"upstream {self._number}")
        dialect = self._governed.profile.dialect
        return build_reader(dialect, self._governed.asked, self._facts, ids=ids, losses=self._losses)
