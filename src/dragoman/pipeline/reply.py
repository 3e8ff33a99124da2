"""The reply pipeline: pieces of an upstream's reply in, output for the client's transport out.

`ReplyPipeline` is the interface. `TranslatedReply` reads the reply into events, passes them through stages
and writes them in the client's dialect; `build_translated_reply` builds one.
`ForwardedReply` (in `forwarded`) passes the upstream's events on.

    upstream bytes → StreamReader → events → stages → Sequencer → GrammarChecker → StreamWriter → frames

A text delta that arrives alone and looks like the one before takes the `ExpressPath` instead.
A translated reply is always a legal stream: what a stage or a faulty upstream breaks is found by the grammar
and becomes a failed ending in the client's dialect.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from dragoman.dialects.frames import TOO_DEEP
from dragoman.dialects.interfaces import ClientContext, Json, StreamReader, StreamWriter, UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.fit import ClientTraits, NameMap, build_reply_stages, build_restoration
from dragoman.hub.errors import DragomanError
from dragoman.hub.events import (
    DeltaRun,
    ReadEvents,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.request import Request
from dragoman.hub.stage import (
    CallOrder,
    FeedRun,
    HoldingStage,
    Sequencer,
    Skim,
    Stage,
    TimedStage,
    feed_each,
    find_handlers,
)
from dragoman.hub.tally import TALLY_EVENTS, Tally
from dragoman.pipeline.express import ExpressPath
from dragoman.pipeline.governance import GovernedRequest
from dragoman.providers.profile import TargetFacts
from dragoman.wire.sse import Frame, FrameRun, FrameRuns, Output


class ReplyPipeline(Protocol):
    """One reply on its way to the client. Nothing here waits; output always ends between two events.

    Call order:

    1. `feed` (or `feed_frames`) for each piece, until `is_round_over`. `close`, if the upstream ends the
       reply before that. `fail` instead of both, at any time. `release_overdue` between two pieces.
    2. If `TargetRequest.unanswered`: `resume` after the gateway's own tools have run.
       If `TargetRequest.needs_next_round`: `next_round`, then again from 1 with the reply to that request.
    3. If `passes_trailing`: `feed` for each piece that still comes after the ending, then `close`.
    """

    #: Usage, ending, number of calls and whether there is content yet.
    tally: Tally

    @property
    def is_ended(self) -> bool:
        """Whether the reply has its ending. Later pieces are ignored, unless `passes_trailing`."""
        ...

    @property
    def is_round_over(self) -> bool:
        """Whether the reply is ended, or another round is needed before it can end."""
        ...

    @property
    def holds_for_a_time(self) -> bool:
        """Whether a call is held back that `release_overdue` returns when its time is over."""
        ...

    @property
    def passes_trailing(self) -> bool:
        """Whether events after the ending still go to the client.

        True for a forwarded reply: an upstream may send more events than the reader needs, such as `[DONE]`
        after `response.completed` or after an error. False after a failure whose closing event was sent, and
        for a translated reply: its writer has written all closing events.
        """
        ...

    def feed(self, data: bytes) -> Output: ...

    def feed_frames(self, frames: Iterable[Frame]) -> Output: ...

    def release_overdue(self) -> Output:
        """Return the output whose holding time is over. Called while the upstream sends nothing."""
        ...

    def close(self) -> Output:
        """Return the remaining output at the upstream's end, with a truncated ending if there was none."""
        ...

    def fail(self, failure: ReplyFailed) -> Output:
        """End the reply for a reason of our own: a time limit, a lost connection, a shutdown."""
        ...

    def next_round(self) -> None: ...

    def resume(self) -> Output:
        """Return what the client gets when withheld calls have their results. It may be the ending."""
        ...


class ReplyRounds(Protocol):
    """The rounds of one reply: their stages and readers. `pipeline.rounds` implements it."""

    @property
    def needs_next_round(self) -> bool: ...

    def build_stages(self) -> list[Stage]:
        """The stages of the current round: steps, governance, gateway tools, joiner."""
        ...

    def build_next_reader(self) -> StreamReader:
        """Begin the next round. Returns the reader of its reply."""
        ...

    def take_events(self) -> list[ReplyEvent]:
        """The events for the client when withheld calls have their results."""
        ...


#: What the events of one read become. It grows while they pass.
Parts = list[Frame | FrameRun]

#: A run of so many texts passes a stage one by one if the stage cannot take it as a whole.
SHORT_RUN = 4


class TranslatedReply:
    """A reply that is read, changed by stages and written in the client's dialect."""

    passes_trailing = False

    def __init__(
        self,
        reader: StreamReader,
        stages: Sequence[Stage],
        writer: StreamWriter,
        *,
        rounds: ReplyRounds | None = None,
        call_order: CallOrder = "in_turn",
    ) -> None:
        self._reader = reader
        self._lasting: list[Stage] = [*stages, Sequencer(call_order)]
        self._rounds = rounds
        self._writer = writer
        self._checker = GrammarChecker()
        self.is_ended = False
        self.is_round_over = False
        self.tally = Tally()
        self._unchanged_kinds: tuple[frozenset[type], ...] = ()
        #: The last event that no stage had to handle.
        self._unchanged: ReplyEvent | None = None
        self._set_stages()

    @property
    def holds_for_a_time(self) -> bool:
        return any(isinstance(stage, TimedStage) and stage.holds_for_a_time for stage in self._stages)

    def feed(self, data: bytes) -> Output:
        if (translated := self._express.translate(data)) is not None:
            return translated
        if self.is_ended:
            return []
        output = self._run(events := self._reader.feed_runs(data))
        if len(events) == 1 and not self.is_ended:
            kind = type(events[0])
            skim = self._skim if kind is TextDelta else None
            if skim or not self._handlers.get(kind, True):
                self._express.learn(data, events[0], output, skim, is_unchanged=self._unchanged is events[0])
        return output

    def feed_frames(self, frames: Iterable[Frame]) -> Output:
        return [] if self.is_ended else self._run([*self._reader.feed_frames(frames)])

    def close(self) -> Output:
        return [] if self.is_ended else self._run([*self._reader.close()])

    def fail(self, failure: ReplyFailed) -> Output:
        if self.is_ended:
            return []
        # A reply whose end marker has come is complete, although its connection is lost.
        is_lost = failure.ending == "truncated"
        if is_lost and (events := self._reader.close()) and type(events[-1]) is ReplyFinished:
            return self._run([*events])
        return self._run([failure])

    def next_round(self) -> None:
        if self._rounds is not None:
            self._reader = self._rounds.build_next_reader()
            self._set_stages()
            self.is_round_over = self.is_ended

    def resume(self) -> Output:
        frames: Parts = []
        self._express.leave()
        if self._rounds is not None:
            self._pass(self._rounds.take_events(), self._lasting, frames)
        self.is_round_over = True
        return FrameRuns(frames)

    def release_overdue(self) -> Output:
        frames: Parts = []
        self._express.leave()
        for number, stage in enumerate(self._stages):
            if self.is_ended or not isinstance(stage, HoldingStage):
                continue
            for event in stage.take_overdue():
                self._pass([event], self._stages[number + 1 :], frames)
        self._update_handlers()
        self.is_round_over = self.is_ended or (self._rounds is not None and self._rounds.needs_next_round)
        return FrameRuns(frames)

    def _set_stages(self) -> None:
        self._express = ExpressPath(self._reader, self._writer)
        governance = self._rounds.build_stages() if self._rounds is not None else []
        self._stages: list[Stage] = [*governance, *self._lasting]
        self._update_handlers()

    def _run(self, events: ReadEvents) -> FrameRuns:
        """Pass the events of one read through the stages. Returns what the writer makes of the results."""
        frames: Parts = []
        self._express.leave()
        try:
            for event in events:
                if type(event) is DeltaRun:
                    self._write_run(event, frames)
                elif (handlers := self._handlers.get(type(event))) is None:
                    self._pass([event], self._stages, frames)
                elif handlers and not (type(event) is TextDelta and self._skim and self._skim(event.text)):
                    self._write_delta(event, handlers, frames)
                else:
                    self._checker.check(event)
                    frames += self._writer.write(event)
                    self._unchanged = event
                    continue
                if self.is_ended:
                    break
        except (DragomanError, RecursionError) as error:
            if not self.is_ended:
                failure = error.failure if isinstance(error, DragomanError) else TOO_DEEP
                self._write(ReplyFailed("failed", failure), frames)
        if self.is_ended:
            self.is_round_over = True
        elif self._rounds is not None:
            self.is_round_over = self._rounds.needs_next_round
        return FrameRuns(frames)

    def _write_delta(self, event: ReplyEvent, handlers: Sequence[int], frames: Parts) -> None:
        """Pass a delta through the stages that handle its kind."""
        kind = type(event)
        for position in handlers:
            changed = self._stages[position].feed(event)
            # A delta that stays one delta does not change which stages handle deltas.
            if len(changed) != 1 or type(changed[0]) is not kind:
                return self._pass_changed(changed, position, frames)
            event = changed[0]
        self._checker.check(event)
        frames += self._writer.write(event)
        return None

    def _write_run(self, run: DeltaRun, frames: Parts, first: int = 0) -> None:
        """Pass a run through the stages from `first` on that handle its kind: as a whole, if they take it."""
        handlers = [position for position in self._handlers[run.kind] if position >= first]
        if handlers and run.kind is TextDelta and self._skim and self._skim("".join(run.texts)):
            handlers = []
        for position in handlers:
            feed_run: FeedRun | None = getattr(self._stages[position], "feed_run", None)
            texts = feed_run(run) if feed_run else None
            if texts is None:
                # Of many texts few need a stage, and of a call's arguments all.
                is_divided = feed_run and run.kind is TextDelta and len(run.texts) > SHORT_RUN
                return (self._write_halves if is_divided else self._write_deltas)(run, position, frames)
            if not texts:
                return None
            if texts is not run.texts:
                run = DeltaRun(run.kind, run.index, texts)
        self._checker.check(run.kind(run.index, run.texts[0]))
        frames += self._writer.write_run(run)
        return None

    def _write_halves(self, run: DeltaRun, first: int, frames: Parts) -> None:
        """Pass both halves of a run, from the stage at `first` on."""
        middle = len(run.texts) // 2
        for texts in (run.texts[:middle], run.texts[middle:]):
            if not self.is_ended:
                self._write_run(DeltaRun(run.kind, run.index, texts), frames, first)

    def _write_deltas(self, run: DeltaRun, first: int, frames: Parts) -> None:
        """Pass the deltas of a run one by one, from the stage at `first` on."""
        handlers, later = None, []
        for event in run.expand():
            if self._handlers is not handlers:
                handlers = self._handlers
                later = [position for position in handlers[run.kind] if position >= first]
            self._write_delta(event, later, frames)
            if self.is_ended:
                break

    def _pass_changed(self, events: list[ReplyEvent], position: int, frames: Parts) -> None:
        """Continue after the stage at `position`: its events go through the later stages."""
        if events or self._stages[position].unchanged_kinds != self._unchanged_kinds[position]:
            self._pass(events, self._stages[position + 1 :], frames)

    def _pass(self, events: list[ReplyEvent], stages: Sequence[Stage], frames: Parts) -> None:
        """Pass events through `stages` and write the result to `frames`. Updates the handlers of deltas."""
        for stage in stages:
            if len(events) != 1:
                events = feed_each(stage, events)
            elif type(events[0]) not in stage.unchanged_kinds:
                events = stage.feed(events[0])
        self._update_handlers()
        for event in events:
            self._write(event, frames)

    def _write(self, event: ReplyEvent, frames: Parts) -> None:
        self._checker.check(event)
        frames += self._writer.write(event)
        if type(event) in TALLY_EVENTS:
            self.tally.add(event)
            self.is_ended = self._checker.is_ended

    def _update_handlers(self) -> None:
        """Find the stages that handle each kind of delta now. Most kinds have none."""
        unchanged = tuple([stage.unchanged_kinds for stage in self._stages])
        if unchanged != self._unchanged_kinds:
            self._unchanged_kinds = unchanged
            self._handlers = find_handlers(unchanged)
        texts = self._handlers[TextDelta]
        #: The cheap test of the only stage that handles texts, if it has one.
        self._skim: Skim | None = getattr(self._stages[texts[0]], "skim", None) if len(texts) == 1 else None


def build_reader(
    upstream: str, asked: Request | None, facts: TargetFacts, *, ids: IdSource, losses: Losses
) -> StreamReader:
    """Build the reader of one reply. `asked` is the request that the upstream answers, if it is known."""
    model = facts.model or (asked.model if asked else "")
    source = UpstreamContext(issuer=facts.issuer, model=model, ids=ids, losses=losses, request=asked)
    return dialect_named(upstream).stream_reader(source)


def build_translated_reply(
    client_dialect: str,
    request: Request | None,
    body: Json,
    facts: TargetFacts,
    *,
    ids: IdSource,
    created: int,
    input_estimate: int,
    losses: Losses,
    governed: GovernedRequest | None = None,
    rounds: ReplyRounds | None = None,
    reply_members: Mapping[str, bytes] = {},
    names: NameMap | None = None,
) -> TranslatedReply:
    """Build the pipeline for one reply to `request`, which the client sent as `body`.

    `names`: the map of the request's tools, if it is known.
    """
    client = dialect_named(client_dialect)
    asked = governed.asked if governed else request
    traits = ClientTraits(seals_on_calls=client.seals_on_calls, object_arguments=client.object_arguments)
    restored = build_restoration(asked or Request(dialect=client_dialect, model=""), facts, names)
    writer = client.stream_writer(
        ClientContext(
            upstream=facts.dialect,
            request=request,
            body=body,
            model=request.model if request else "",
            ids=ids.branch("client"),
            created=created,
            input_estimate=input_estimate,
            losses=losses,
            reply_members=reply_members,
        )
    )
    return TranslatedReply(
        build_reader(facts.dialect, asked, facts, ids=ids.branch("upstream"), losses=losses),
        build_reply_stages(restored, client=traits, losses=losses),
        writer,
        rounds=rounds,
        call_order="whole" if facts.whole_calls else client.call_order,
    )
