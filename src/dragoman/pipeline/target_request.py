"""`TargetRequest`: the bytes for one target, and how the reply to them is read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from dragoman.dialects.interfaces import UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.reply_patch import ReplyPatch
from dragoman.fit.names import ClientToolName, TargetToolName, build_name_map
from dragoman.governance.interventions import Report
from dragoman.governance.reply_snapshots import SnapshotPair
from dragoman.hub.blocks import ReplyBlock, ToolCall, ToolResult
from dragoman.hub.errors import DragomanError
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.hub.rounds import Round
from dragoman.hub.tally import Tally
from dragoman.pipeline.bodies import read_object, read_reply_object
from dragoman.pipeline.continued import ContinuedTranslation
from dragoman.pipeline.forwarded import ForwardedReply
from dragoman.pipeline.governance import GovernedRequest
from dragoman.pipeline.outline import ask_for_seals, build_outline
from dragoman.pipeline.payload import PayloadRule, edit_payload
from dragoman.pipeline.reply import ReplyPipeline, TranslatedReply, build_translated_reply
from dragoman.pipeline.rounds import GovernanceRounds, ReplySteps, RequestTools
from dragoman.providers.profile import TargetFacts, build_target_facts
from dragoman.tokens.request import PromptSample, sample_request
from dragoman.tokens.tokenizers import OVERHEADS, find_tokenizer
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Output

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestPlan
    from dragoman.pipeline.target_provider import TargetProvider

#: How much of a request and its reply is rewritten. `forward`: both go on as they came. `patch`: a few values
#: are replaced, such as the model's name. `translate`: the reply is read and written anew, and so is the
#: request, unless only its reply is governed.
Lane = Literal["forward", "patch", "translate"]


class TargetRequest:
    """One request, ready for one target. Built by `RequestPlan.build_target_request`.

    Call order: send `body`; build the reply with `start_reply` or `start_whole_reply`; call `release`
    when the reply has begun. If the reply needs another round, send `build_next_body()` and feed that reply.
    """

    def __init__(
        self,
        plan: "RequestPlan",
        provider: "TargetProvider",
        model: str,
        body: bytes,
        lane: Lane,
        *,
        facts: TargetFacts | None = None,
        losses: tuple[Loss, ...] = (),
        governed: GovernedRequest | None = None,
        report: Report | None = None,
        timer: Callable[[], float] | None = None,
        tools: RequestTools | None = None,
        continued: ContinuedTranslation | None = None,
        steps: ReplySteps | None = None,
        front: Request | None = None,
    ) -> None:
        self._plan = plan
        self._provider = provider
        self.model = model
        self.body = body
        #: For the record, and for the reply, which is translated only in the lane `translate`.
        self.lane = lane
        self._facts = facts
        #: The losses of the request, and those of its reply.
        self.losses = losses
        self.reply_losses = Losses()
        self._governed = governed
        self._report = report
        self._timer = timer
        self._tools = tools
        self._continued = continued
        self._steps = steps
        #: The client's request without its conversation, if the reply is governed and needs no more.
        self._front = front
        self._rounds: GovernanceRounds | None = None
        #: The pipeline of the reply, if it was built before the head of the reply came.
        self._prepared: ReplyPipeline | None = None
        self._is_started = False
        self._payload: Sequence[PayloadRule] = ()

    def apply_payload(self, rules: Sequence[PayloadRule]) -> None:
        """Edit the body by payload rules, here and in later rounds. Called once, before it is sent."""
        losses = Losses(self.losses)
        body = edit_payload(self.body, rules, losses)
        if body is not self.body and self.lane == "forward":
            self.lane = "patch"
        self.body, self.losses, self._payload = body, losses.as_tuple(), rules

    @property
    def needs_next_round(self) -> bool:
        """Whether the model must be asked again before the reply can end. True only while `is_round_over`."""
        return self._rounds is not None and self._rounds.needs_next_round

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls of the gateway's own tools that must run before the reply goes on."""
        return self._rounds.unanswered if self._rounds else ()

    @property
    def ended_rounds(self) -> Sequence[Round]:
        """The rounds of a reply in which calls were withheld from the client."""
        return self._rounds.ended if self._rounds else ()

    def add_results(self, results: Sequence[ToolResult], shown: Sequence[ReplyBlock]) -> None:
        """Add the results of `unanswered`, and the blocks that show the client what was done."""
        if self._rounds is not None:
            self._rounds.add_results(results, shown)

    @property
    def needs_ticks(self) -> bool:
        """Whether the reply's `release_overdue` must be called while the upstream is silent."""
        return self._rounds is not None and self._rounds.needs_ticks

    @property
    def reply_snapshots(self) -> SnapshotPair | None:
        """The reply before and after governance, if the settings ask for it."""
        return self._rounds.reply_snapshots if self._rounds else None

    def build_next_body(self) -> bytes:
        """Write the request of the next round. Called only while `needs_next_round`."""
        if self._rounds is None or self._facts is None:
            return self.body
        body = self._plan.write(self._rounds.next_request(), self._facts, Losses())
        return edit_payload(body, self._payload, Losses()) if self._payload else body

    def start_reply(self, content_type: str) -> ReplyPipeline:
        """Build the pipeline of a streamed reply. A reply that is no event stream becomes one."""
        is_forwarded = "event-stream" in content_type and self._forwards_reply()
        prepared, self._prepared, self._is_started = self._prepared, None, True
        if prepared is not None and (is_forwarded or not self._forwards_reply()):
            return prepared
        return self._build_forwarded() if is_forwarded else self._build_translated()

    def prepare_reply(self) -> None:
        """Build the pipeline that `start_reply` will return first. Called while the upstream works."""
        if self._plan.stream and not self._is_started:
            # What cannot be built fails again in `start_reply`.
            with suppress(DragomanError):
                self._prepared = self.start_reply("text/event-stream")

    @property
    def is_prepared(self) -> bool:
        """Whether the reply needs nothing of the client's request any more."""
        return self._prepared is not None

    def start_whole_reply(self) -> "WholeReply":
        """Build the pipeline of a reply that is not streamed."""
        if self._forwards_reply():
            return WholeReply(self, self._build_forwarded(), self._build_patch(), forwards=True)
        return WholeReply(self, self._build_translated(), None, forwards=False)

    def collect(self, frames: list[Frame]) -> bytes:
        """Build the whole body that a client would build from these frames."""
        return encode(self._plan.dialect.collect(frames))

    def explode(self, body: bytes) -> tuple[Frame, ...]:
        """The frames of a stream with the same content as the upstream's whole reply."""
        return dialect_named(self._provider.wire_dialect).explode(read_reply_object(body))

    def release(self) -> None:
        """Free the request. Called when the reply has begun."""
        self.body = b""
        self._governed = self._continued = None
        self._plan.release()

    def _forwards_reply(self) -> bool:
        return self.lane != "translate"

    def _build_patch(self) -> ReplyPatch | None:
        """The changes of a forwarded reply: the client's model name, and members that the gateway decides."""
        plan = self._plan
        forwarding, members = plan.dialect.forwarding, plan.metadata.reply_members
        model = {forwarding.model_member: encode(plan.model)} if self.model != plan.model else {}
        return forwarding.build_patch(model, members) if model or members else None

    def _build_forwarded(self) -> ForwardedReply:
        plan = self._plan
        source = UpstreamContext(issuer=plan.dialect.name, losses=self.reply_losses, forwards=True)
        return ForwardedReply(
            plan.dialect.stream_reader(source),
            plan.dialect,
            hides_usage=plan.hides_usage,
            patch=self._build_patch(),
        )

    def _build_translated(self) -> TranslatedReply:
        plan, metadata = self._plan, self._plan.metadata
        facts = self._facts or build_target_facts(self._provider.build_profile(self.model), metadata.dialect)
        ids = IdSource(metadata.request_id)
        governed = self._governed
        if governed is not None and self._report is not None:
            self._rounds = GovernanceRounds(
                governed,
                facts,
                ids=ids,
                losses=self.reply_losses,
                report=self._report,
                timer=self._timer,
                streams=plan.stream,
                tools=self._tools,
                steps=self._steps,
            )
        return build_translated_reply(
            metadata.dialect,
            self.outline_request(),
            read_object(plan.body) if plan.dialect.echoes_request else {},
            facts,
            ids=ids,
            created=plan.created,
            input_estimate=self._estimate_input(),
            losses=self.reply_losses,
            governed=governed,
            rounds=self._rounds,
            reply_members=metadata.reply_members,
            names=self._continued.names if self._continued else None,
        )

    def outline_request(self) -> Request:
        """The part of the client's request that its reply needs."""
        known = self._continued.outline if self._continued else None
        outline = known or build_outline(self._front or self._plan.request)
        # The reply contains seals even if the client did not ask for them.
        return ask_for_seals(outline) if self._plan.metadata.with_seals else outline

    @property
    def is_continued(self) -> bool:
        """Whether remembered history was reused for the request."""
        return self._continued is not None

    def compare(self, other: "TargetRequest") -> str:
        """Name the parts in which two translations of a request differ; empty if they are equal."""
        parts = {
            "body": self.body == other.body,
            "losses": self.losses == other.losses,
            "outline": _without_form(self.outline_request()) == _without_form(other.outline_request()),
            "sample": self._sample_prompt() == other._sample_prompt(),
            "names": self._find_client_names() == other._find_client_names(),
            "governance": _is_same_governance(self._governed, other._governed),
        }
        return ", ".join(name for name, is_equal in parts.items() if not is_equal)

    def _find_client_names(self) -> dict[TargetToolName, ClientToolName]:
        """The tools that the client knows by another name or kind, by their names at the target."""
        if self._continued is not None or self._facts is None:
            return self._continued.names.restored_names if self._continued else {}
        asked = self._governed.asked if self._governed else self.outline_request()
        return build_name_map(asked, self._facts).restored_names

    def _sample_prompt(self) -> PromptSample:
        known = self._continued.sample if self._continued else None
        tokenizer = find_tokenizer(self.model, self._provider.wire_dialect)
        return known or sample_request(self._plan.request, OVERHEADS[tokenizer].tools_as)

    def _estimate_input(self) -> int:
        """Estimate the prompt's tokens, for clients that need a number before the upstream reports one."""
        upstream, client = dialect_named(self._provider.wire_dialect), self._plan.dialect
        # Within one dialect the client gets the counts that the upstream sends.
        if upstream is client or upstream.reports_input_first or not client.writes_input_estimate:
            return 0
        return self._plan.estimate_tokens(find_tokenizer(self.model, upstream.name))


def _is_same_governance(one: GovernedRequest | None, other: GovernedRequest | None) -> bool:
    return one is other if one is None or other is None else one.compare(other)


def _without_form(request: Request) -> Request:
    """The request without the notes for a writer of requests, which replies do not depend on."""
    return msgspec.structs.replace(request, form="")


class WholeReply:
    """A reply that is not streamed: made of one reply of the upstream, or of several rounds.

    A failed reply has its failure in the tally. Its body must not be sent.
    """

    def __init__(
        self,
        target_request: TargetRequest,
        pipeline: ReplyPipeline,
        patch: ReplyPatch | None,
        *,
        forwards: bool,
    ) -> None:
        self._target_request = target_request
        self._pipeline = pipeline
        self._patch = patch
        self._forwards = forwards
        self._body = b""
        self._frames: list[Frame] = []
        self.tally: Tally = pipeline.tally

    def feed(self, body: bytes, content_type: str) -> None:
        """Add the upstream's reply. Some servers answer with a stream although none was requested."""
        if "event-stream" in content_type:
            self._add(self._pipeline.feed(body))
        else:
            if self._forwards:
                self._body = body if self._patch is None else self._patch.apply_to_body(body)
            self._add(self._pipeline.feed_frames(self._target_request.explode(body)))
        if not self._pipeline.is_round_over:
            self._add(self._pipeline.close())

    def next_round(self) -> None:
        self._pipeline.next_round()

    def resume(self) -> None:
        self._add(self._pipeline.resume())

    def build_body(self) -> bytes:
        return self._body or self._target_request.collect(self._frames)

    def _add(self, output: Output) -> None:
        self._frames.extend(output)
