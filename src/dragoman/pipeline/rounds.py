"""Rounds of a reply: if a call is withheld from the client, the model is asked again within the same reply.

The guard withholds the calls that it denies, and the gateway those of its own tools.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from dragoman.dialects.interfaces import StreamReader
from dragoman.fit.content import fit_content, fit_media, mark_errors, move_media_from_results
from dragoman.fit.ids import fit_ids
from dragoman.fit.reasoning import add_blank_reasoning
from dragoman.governance.interventions import Report
from dragoman.governance.reply_snapshots import SnapshotPair, SnapshotStage
from dragoman.hub.blocks import ReplyBlock, ToolCall, ToolResult
from dragoman.hub.events import ReplyEvent
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, ToolChoice
from dragoman.hub.rounds import CallSource, Round, RoundJoiner
from dragoman.hub.stage import Stage
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.reply import build_reader
from dragoman.providers.profile import TargetFacts

_replace = msgspec.structs.replace
_FORCED = frozenset({"required", "named"})
_Pass = Callable[[Request, TargetFacts, Losses], Request]
_RESULT_PASSES: tuple[_Pass, ...] = (fit_content, mark_errors, fit_media, move_media_from_results)


class RequestTools(Protocol):
    """The gateway's own tools for one request to one target. `gateway_tools.target_tools` implements it."""

    def apply(self, request: Request, target: TargetFacts) -> Request:
        """The client's request with the tools that apply to it; the same object if there are none."""
        ...

    def edit_results(self, message: Message) -> Message:
        """A message with results of the tools, as the model of this request can read it."""
        ...

    def build_stages(self, asked: Request, target: TargetFacts) -> list[Stage]:
        """The stages of one round, which withhold the calls of the tools. `asked`: what `apply` returned."""
        ...

    def withholds(self, name: str) -> bool:
        """Whether these stages withhold the calls of this name. Called after `build_stages`."""
        ...


class ReplySteps(Protocol):
    """The transformation steps that change the reply to one request. `steps.selection` implements it."""

    def build_stages(self, request: Request, target: TargetFacts) -> list[Stage]:
        """The stages of one round. They come first: they adapt what the target sends."""
        ...


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
        tools: RequestTools | None = None,
        steps: ReplySteps | None = None,
    ) -> None:
        # The conversation is kept only if a round may have to send it again.
        asks_again = tools is not None or (governed.asks_again and can_retry)
        asked = governed.asked
        self._governed = governed if asks_again else _replace(governed, find_fitted=lambda: asked)
        self._facts = facts
        self._ids = ids
        self._losses = losses
        self._report = report
        self._timer = timer
        self._streams = streams
        self._tools = tools
        self._steps = steps
        self._joiner = RoundJoiner() if asks_again else None
        self._number = 1
        #: The reply before and after governance, if the settings ask for it.
        self.reply_snapshots = SnapshotPair() if governed.target.governance.snapshots else None

    @property
    def needs_next_round(self) -> bool:
        return self._joiner is not None and self._joiner.waits

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of the gateway's own tools that must run now."""
        return self._joiner.unanswered if self._joiner else ()

    @property
    def ended(self) -> Sequence[Round]:
        """The rounds of a reply in which calls were withheld."""
        return self._joiner.ended if self._joiner else ()

    @property
    def needs_ticks(self) -> bool:
        """Whether calls are held for a limited time, so that `release_overdue` must be called."""
        return self._governed.target.governance.hold_seconds > 0

    def add_results(self, results: Sequence[ToolResult], shown: Sequence[ReplyBlock]) -> None:
        """Add the results of `unanswered`, and the blocks that show the client what was done."""
        if self._joiner is not None:
            self._joiner.add_results(results, shown)

    def take_events(self) -> list[ReplyEvent]:
        """The events for the client after the gateway ran its tools.

        They contain the ending if the client must run calls of its own.
        """
        return self._joiner.take_events() if self._joiner else []

    def next_request(self) -> Request:
        """Build the request of the next round, ready to be written."""
        fitted = self._governed.find_fitted()
        if self._joiner is not None:
            fitted = self._fit_round(self._joiner.next_request(fitted))
            self._governed = _replace(self._governed, find_fitted=lambda: fitted)
        return self._governed.target.apply_contract(fitted)

    def build_stages(self) -> list[Stage]:
        """The stages of this round in order: steps, governance, gateway tools, and what joins the rounds."""
        asked, tools = self._governed.asked, self._tools
        stages = self._steps.build_stages(asked, self._facts) if self._steps else []
        tool_stages = tools.build_stages(asked, self._facts) if tools else []
        stages += self._governed.stages(
            ids=self._ids.branch(f"governance {self._number}"),
            report=self._report,
            streams=self._streams,
            can_retry=self._joiner is not None,
            clock=self._timer,
            is_hidden=tools.withholds if tools else None,
        )
        stages += tool_stages
        if self._joiner is not None:
            self._joiner.begin(*(stage for stage in stages if isinstance(stage, CallSource)))
            stages.append(self._joiner)
        if self.reply_snapshots is None:
            return stages
        return [
            SnapshotStage(self.reply_snapshots.before),
            *stages,
            SnapshotStage(self.reply_snapshots.after),
        ]

    def build_next_reader(self) -> StreamReader:
        self._number += 1
        ids = self._ids.branch(f"upstream {self._number}")
        dialect = self._facts.dialect
        return build_reader(dialect, self._governed.asked, self._facts, ids=ids, losses=self._losses)

    def _fit_round(self, request: Request) -> Request:
        """Fit the last round of a request: the model's reply, and the results, which may hold pictures.

        The other messages are fitted already. A call of a tool of the gateway is forced only once.
        """
        is_forced = request.tool_choice is not None and request.tool_choice.mode in _FORCED
        if is_forced and self._tools is not None:
            request = _replace(request, tool_choice=ToolChoice(mode="auto"))
        # Servers may use an id of an earlier round again. The last message gets its media after its ids.
        request = fit_ids(request, self._facts, self._losses)
        *earlier, reply, results = request.messages
        if self._tools is not None:
            results = self._tools.edit_results(results)
        messages = [*self._apply((add_blank_reasoning,), reply), *self._apply(_RESULT_PASSES, results)]
        return _replace(request, messages=(*earlier, *messages))

    def _apply(self, passes: Sequence[_Pass], message: Message) -> tuple[Message, ...]:
        """What passes of the fit make of a message in the target's own terms."""
        made = Request(dialect=self._facts.dialect, model=self._facts.model, messages=(message,))
        for each in passes:
            made = each(made, self._facts, self._losses)
        return made.messages
