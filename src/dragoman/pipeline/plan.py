"""`RequestPlan`: one client request, and the ways it can take to its targets.

A request that its target accepts as it is goes on as the bytes that it came in, without being read. It is
read at most once, and only if something in it must be known or changed.
"""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from dragoman.agents import ClientIdentity, identify_client
from dragoman.dialects.forwarding import Members
from dragoman.dialects.interfaces import ClientContext, Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.fit.front import fit_with_front
from dragoman.fit.generation import has_limit_field
from dragoman.fit.seals import hash_seal, list_seals, mark_refused_seals
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import Governance
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.ids import IdSource, digest
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request, find_first_text
from dragoman.pipeline.bodies import read_object, remove_from_instructions
from dragoman.pipeline.body_parts import BodyParts
from dragoman.pipeline.governance import find_governed_target, govern_request
from dragoman.pipeline.reading import AbridgedRequest
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.remembered import OwnHistories
from dragoman.pipeline.reuse import HistoryReuse, list_losses
from dragoman.pipeline.rounds import ReplySteps, RequestTools
from dragoman.pipeline.search import refuse_lost_search
from dragoman.pipeline.target_provider import TargetProvider
from dragoman.pipeline.target_request import Lane, TargetRequest
from dragoman.pipeline.unread import build_unread_request
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from dragoman.tokens.request import PromptSample
from dragoman.tokens.tokenizers import OVERHEADS, ToolsForm
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frames

_UNGOVERNED = Governance()
#: In every body with tools; the second one was the Chat API's first name for them.
_TOOLS = (b'"tools"', b'"functions"')

#: A change of the client's request, for one target, before it is fitted.
RequestEdit = Callable[[Request], Request]


class RequestMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a client's request: everything but the body, and what the gateway decided about it."""

    dialect: str
    #: Names in lower case.
    headers: Mapping[str, str] = {}
    #: Where they stand in the URL (Gemini), or where another reader of the body has found them.
    model: str = ""
    stream: bool = False
    #: `model` and `stream` are known: the body need not be searched for them.
    is_peeked: bool = False
    request_id: str = ""
    #: The first segment of the path, such as `/claude`, if the configuration defines such an entry.
    entry: str = ""
    #: The gateway put the conversation together from replies of several upstreams: it must be read.
    is_assembled: bool = False
    #: The reply contains seals even if the client did not ask for them: the gateway stores them.
    with_seals: bool = False
    #: Members of the reply's object that the gateway decides, as JSON (Responses: id, store, …).
    reply_members: Mapping[str, bytes] = {}
    #: The client's agent and session, made of the headers.
    identity: ClientIdentity = ClientIdentity()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "identity", identify_client(self.headers))

    @property
    def agent(self) -> str:
        return self.headers.get("user-agent", "")


def _ignore(intervention: Intervention) -> None:
    """The default `report`: discard the intervention."""


class RequestPlan:
    """One request of a client. `body` is decompressed; `created` is the time of the request."""

    def __init__(self, metadata: RequestMetadata, body: bytes, *, created: int = 0) -> None:
        self.metadata = metadata
        self.dialect = dialect_named(metadata.dialect)
        self.body = body
        self.created = created
        self.model, self.stream = metadata.model, metadata.stream
        self._request: Request | None = None
        self._error: DragomanError | None = None
        self._samples: dict[ToolsForm, PromptSample] = {}
        #: The body in parts, which are split when they are first needed.
        self.parts = BodyParts(body, metadata)
        self.read_losses = Losses()
        #: The client's stream must not contain the usage, which the gateway asks the upstream for.
        self.hides_usage = False
        #: What is remembered of the caller's conversations, if the gateway reuses translated history.
        self.histories: OwnHistories | None = None
        self._reuse: HistoryReuse | None = None
        #: In which parts a continued translation differed from a whole one, if the gateway compares them.
        self.mismatch = ""

    def peek(self) -> None:
        """Find the model and `stream` in the body. Call it once, first. Raises if the body is invalid."""
        if self.metadata.is_peeked:
            return
        members = self.parts.split(self.histories)
        peeked = None if members is None else self.dialect.forwarding.peek(members)
        if peeked is not None:
            self.model, self.stream, self.hides_usage = peeked.model, peeked.stream, peeked.hides_usage
        elif not self.metadata.model:
            self.model, self.stream = self.request.model, self.request.stream

    @property
    def request(self) -> Request:
        """The request as hub values. An invalid body raises the same `DragomanError` at each access."""
        if self._error is not None:
            raise self._error
        request = self._request
        if request is None:
            url = self.metadata
            try:
                read = partial(self.dialect.read_request, model=url.model, stream=url.stream)
                self._request = request = read(read_object(self.body), self.read_losses)
            except DragomanError as error:
                self._error = error
                raise
        return request

    @property
    def known_request(self) -> tuple[Request, Losses] | None:
        """The request and the losses of reading it, if it was read."""
        return (request, self.read_losses) if (request := self._request) is not None else None

    @property
    def abridged(self) -> AbridgedRequest | None:
        """The request without its remembered messages, for rules; None if it must be read as a whole."""
        conversation = self.parts.open_conversation(self.histories)
        return conversation.abridge() if conversation else None

    def rewrite(self, change: Callable[[Request], Request]) -> None:
        """Change the request before it is built for targets. A body that cannot be read stays as it is."""
        try:
            request = self.request
        except DragomanError:
            return
        changed = change(request)
        if changed is not request:
            facts = build_target_facts(Profile(dialect=self.metadata.dialect), self.metadata.dialect)
            self._set_body(encode(self.dialect.write_request(changed, facts, Losses())))
            self._request = None
            self._samples.clear()

    def _set_body(self, body: bytes) -> None:
        self.body = body
        self.parts = BodyParts(body, self.metadata)

    @property
    def is_unreadable(self) -> bool:
        """Whether the dialect's reader has read the body and raised an error."""
        return self._error is not None

    def remove_instruction(self, text: str) -> None:
        """Remove a text at the beginning of the instructions. The body is read anew when it is needed."""
        self._set_body(remove_from_instructions(self.body, text))
        self._request = self._error = None
        self._samples.clear()
        self.read_losses = Losses()

    def hash_session(self) -> int:
        """A number that all requests of a conversation share, so that one key and its cache serve it."""
        session = self.metadata.identity.session
        if session:
            return int(digest(session, length=8), 16)
        try:
            request = self.request
        except DragomanError:
            # Whether the request can be sent at all is decided for each target.
            return 0
        return int(digest(request.cache_key or request.user or find_first_text(request), length=8), 16)

    def estimate_tokens(self, tokenizer: Tokenizer) -> int:
        """The prompt tokens for a model with this tokenizer, by samples. Raises like `request`."""
        form = OVERHEADS[tokenizer].tools_as
        sample = self._samples.get(form)
        if sample is None:
            abridged = self.abridged
            sample = abridged.sample(form) if abridged else None
            self._samples[form] = sample = sample or self.parts.sample(self.request, form)
        return sample.estimate(tokenizer)

    def build_target_request(
        self,
        provider: TargetProvider,
        model: str,
        *,
        strict: bool = False,
        governance: Governance = _UNGOVERNED,
        report: Report = _ignore,
        timer: Callable[[], float] | None = None,
        refused_seals: frozenset[str] = frozenset(),
        tools: RequestTools | None = None,
        edit: RequestEdit | None = None,
        steps: ReplySteps | None = None,
    ) -> TargetRequest:
        """Build the request for one target. Raises `ClientProtocolError` if it cannot be sent there.

        `strict` refuses a request that would lose something. `report` receives what governance changed.
        `refused_seals`: hashes of seals that the target has refused (`fit.seals.hash_seal`). `tools`: those
        that the gateway may run itself for this request. `edit` changes the client's request first; `steps`
        change the reply.
        """
        is_same_dialect = provider.wire_dialect == self.metadata.dialect
        # Other servers cannot read seals in an envelope of ours. `rfind` takes a quarter of the time.
        mark = self.dialect.forwarding.envelope_mark
        can_forward = is_same_dialect and not self.metadata.is_assembled and self.body.rfind(mark) < 0
        # The search reads the whole body, so it comes last.
        is_idle = governance.is_off or governance.is_idle(has_tools=any(map(self.body.__contains__, _TOOLS)))
        can_reuse = not is_same_dialect and tools is None and edit is None and not refused_seals
        settings = None if is_idle and steps is None else governance
        self._reuse = reuse = self._find_reuse(settings, provider, model, can_reuse=can_reuse)
        if reuse is not None:
            build = partial(reuse.build_target_request, self, provider, model, report=report, timer=timer)
            if continued := build(steps=steps, strict=strict):
                return continued
        if not is_same_dialect:
            check_rules(self.request, self.dialect.request_rules)
        asked = self._apply_tools(tools, provider, model, refused_seals, edit) if tools is not None else None
        tools = tools if asked is not None else None
        if can_forward and tools is None and edit is None and steps is None:
            refused_seals = self._find_contained(refused_seals)
            build = partial(build_unread_request, self, self.parts, provider, model, settings)
            if not refused_seals and (unread := build(report=report, timer=timer, strict=strict)):
                return unread
        if tools is not None or settings is not None:
            request = asked or self._edit(refused_seals, edit)
            governed = partial(self._govern, request, provider, model, governance, reuse, report, timer)
            return governed(strict=strict, can_forward=can_forward, tools=tools, steps=steps)
        profile = provider.build_profile(model, only_stated=can_forward and model == self.model)
        facts = build_target_facts(profile, self.metadata.dialect)
        losses = Losses(self.read_losses)
        front = reuse.fit_front(self.request) if reuse else None
        fitted = fit_with_front(self._edit(refused_seals, edit), front, facts, losses)
        body, lane, lost = self._encode(fitted, facts, losses, can_forward=can_forward, strict=strict)
        if reuse is not None:
            reuse.learn(self.request, fitted, lost, front)
        return TargetRequest(self, provider, model, body, lane, facts=facts, losses=lost)

    def _find_reuse(
        self, governance: Governance | None, provider: TargetProvider, model: str, *, can_reuse: bool
    ) -> HistoryReuse | None:
        """The reuse of translated history. Without it, what rules need of the next request is noted."""
        if not can_reuse:
            self.parts.learn(self.histories, self._request)
            return None
        conversation = self.parts.open_conversation(self.histories)
        return conversation.find_reuse(governance, provider.build_profile(model)) if conversation else None

    def keep_sample(self, form: ToolsForm, sample: PromptSample) -> None:
        """Use this sample for `estimate_tokens`. Called if the request is not read as a whole."""
        self._samples[form] = sample

    def copy(self) -> "RequestPlan":
        """A plan of the same request that has read nothing yet, and has no remembered history."""
        copied = RequestPlan(self.metadata, self.body, created=self.created)
        copied.model, copied.stream, copied.hides_usage = self.model, self.stream, self.hides_usage
        return copied

    def keep_history(self) -> None:
        """Remember the translated history. Called on the event loop, after `build_target_request`."""
        if self._reuse is not None:
            self._reuse.keep()
            self._reuse = None
        elif self.parts.conversation is not None:
            self.parts.conversation.keep()

    def _apply_tools(
        self,
        tools: RequestTools,
        provider: TargetProvider,
        model: str,
        refused_seals: frozenset[str],
        edit: RequestEdit | None,
    ) -> Request | None:
        """The request with the gateway's own tools; None if none applies, or the body cannot be read."""
        facts = build_target_facts(provider.build_profile(model), self.metadata.dialect)
        try:
            request = self._edit(refused_seals, edit)
        except DragomanError:
            # A server of the same dialect may accept what our reader does not.
            return None
        applied = tools.apply(request, facts)
        return None if applied is request else applied

    def _govern(
        self,
        request: Request,
        provider: TargetProvider,
        model: str,
        governance: Governance,
        reuse: HistoryReuse | None,
        report: Report,
        timer: Callable[[], float] | None,
        *,
        strict: bool,
        can_forward: bool,
        tools: RequestTools | None,
        steps: ReplySteps | None,
    ) -> TargetRequest:
        """Build a request under governance. Its reply is translated even if the request is forwarded."""
        losses = Losses(self.read_losses)
        target = find_governed_target(governance, provider.build_profile(model), self.metadata.dialect)
        front = reuse.fit_front(request) if reuse else None
        governed = govern_request(request, target, losses, front)
        for intervention in governed.interventions:
            report(intervention)
        facts = target.facts
        body, _, lost = self._encode(governed.sent, facts, losses, can_forward=can_forward, strict=strict)
        if reuse is not None:
            reuse.learn(request, governed.find_fitted(), lost, front)
        build = partial(TargetRequest, self, provider, model, body, "translate", facts=facts, losses=lost)
        return build(governed=governed, report=report, timer=timer, tools=tools, steps=steps)

    def _find_contained(self, refused: frozenset[str]) -> frozenset[str]:
        """The refused seals that the request contains. A request that cannot be read contains none."""
        if not refused:
            return refused
        try:
            return refused.intersection(map(hash_seal, list_seals(self.request)))
        except DragomanError:
            return frozenset()

    def _edit(self, refused: frozenset[str], edit: RequestEdit | None) -> Request:
        """The edited request. Its refused seals are marked as foreign, so that `fit` removes them."""
        request = edit(self.request) if edit else self.request
        return mark_refused_seals(request, refused) if refused else request

    def _encode(
        self, fitted: Request, facts: TargetFacts, losses: Losses, *, can_forward: bool, strict: bool
    ) -> tuple[bytes, Lane, tuple[Loss, ...]]:
        """Encode the fitted request: bytes, lane, losses. If few values differ, patch the client's bytes."""
        request = self.request
        if request.tools and not fitted.tools:
            refuse_lost_search(request)
        is_unchanged = msgspec.structs.replace(fitted, model=request.model) == request
        if can_forward and is_unchanged and has_limit_field(request, facts) and not facts.instructions:
            losses = Losses()
            body, lane = self.patch(fitted.model, facts)
            patched = remove_fields(body, facts.refused_fields, losses)
            lane = lane if patched is body else "patch"
        else:
            patched, lane = self.write(fitted, facts, losses), "translate"
        return patched, lane, list_losses(losses, strict=strict)

    def patch(
        self, model: str, facts: TargetFacts | None = None, edited: Members | None = None
    ) -> tuple[bytes, Lane]:
        """Put the target's model name into the client's bytes. Returns them and the lane.

        `edited`: the members of the body with other settings; None: they stay as they are.
        """
        body = self.body if edited is None else encode(edited)
        if model != self.model:
            body = self.dialect.forwarding.rename_model(body, model, edited or self.parts.split())
        is_same = model == self.model and edited is None
        return self._request_usage(body, facts), "forward" if is_same else "patch"

    def write(self, fitted: Request, facts: TargetFacts, losses: Losses) -> bytes:
        """Write a fitted request in its target's dialect."""
        body = encode(dialect_named(facts.dialect).write_request(fitted, facts, losses))
        if facts.dialect == self.metadata.dialect:
            body = self._request_usage(body, facts)
        return remove_fields(body, facts.refused_fields, losses)

    def _request_usage(self, body: bytes, facts: TargetFacts | None) -> bytes:
        is_accepted = facts is None or facts.stream_usage
        return self.dialect.forwarding.request_usage(body) if self.hides_usage and is_accepted else body

    def forget_request(self) -> None:
        """Free what was read of the body; it is read again if it is needed, also in another thread."""
        self._request = None

    def release(self) -> None:
        """Free the body and the conversation. Called when the reply has begun: no other target follows."""
        self._set_body(b"")
        self._request = None

    def write_failure(self, failure: Failure) -> Frames:
        """Write the failed ending of a stream whose head was sent, but which no target answered."""
        ids = IdSource(self.metadata.request_id)
        context = ClientContext(model=self.model, created=self.created, ids=ids)
        return self.dialect.stream_writer(context).write(ReplyFailed("failed", failure))
