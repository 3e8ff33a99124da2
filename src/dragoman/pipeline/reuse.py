"""Reuse of translated history for one request and one target: find, translate, remember."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dragoman.dialects.forwarding import Members, split_members
from dragoman.dialects.registry import dialect_named
from dragoman.governance.interventions import Report
from dragoman.governance.settings import Governance
from dragoman.hub.blocks import ToolDeclarations
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request, find_block_kinds
from dragoman.pipeline.bodies import MAX_BODY, read_object
from dragoman.pipeline.continued import begin_history, continue_history, find_tools_form
from dragoman.pipeline.governance import GovernedTarget, find_governed_target, govern_request
from dragoman.pipeline.history import ReadHistory, TranslatedHistory
from dragoman.pipeline.reading import (
    AbridgedRequest,
    RequestSource,
    abridge_request,
    begin_reading,
    extend_reading,
)
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.remembered import (
    MIN_BODY,
    HistoryKey,
    OwnHistories,
    RememberedHistories,
)
from dragoman.pipeline.rounds import ReplySteps
from dragoman.pipeline.split_body import SplitBody, split_body
from dragoman.pipeline.target_provider import TargetProvider
from dragoman.pipeline.target_request import TargetRequest
from dragoman.providers.profile import Profile
from dragoman.tokens.request import PromptSample, count_leading_messages, sample_parts, sample_request
from dragoman.tokens.tokenizers import ToolsForm

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestMetadata, RequestPlan


#: So many bytes at the beginning of a body find the one that it continues, together with the client's ids.
MARKED = 256


class HistoryReuse:
    """What is remembered of a request's conversation with one target, and what to remember of it next.

    Call order: `build_target_request`; if it returns None, translate the whole request and call `learn`; then
    `keep`.
    """

    def __init__(
        self,
        remembered: RememberedHistories,
        key: HistoryKey,
        split: SplitBody,
        source: RequestSource,
        target: GovernedTarget,
        known: AbridgedRequest | None,
        samples: dict[ToolsForm, PromptSample] | None,
    ) -> None:
        self._remembered = remembered
        self._key = key
        self._split = split
        self._source = source
        self._target = target
        #: What rules have read of the request, and their samples of what stands before the conversation;
        #: None if they did not ask for the body.
        self._known = known
        self._samples = samples
        self._learned: TranslatedHistory | None = None

    def build_target_request(
        self,
        plan: "RequestPlan",
        provider: TargetProvider,
        model: str,
        *,
        report: Report,
        timer: Callable[[], float] | None,
        steps: ReplySteps | None,
        strict: bool,
    ) -> TargetRequest | None:
        """Build the request with remembered history; None if it must be translated as a whole.

        The arguments are those of `RequestPlan.build_target_request`.
        """
        history = self._remembered.find(self._key)
        if not isinstance(history, TranslatedHistory):
            return None
        target = self._target
        refit = partial(fit_whole, self._source, plan.body, target)
        continued = continue_history(
            history,
            self._split,
            self._source,
            target,
            refit,
            self._known,
            with_texts=self._samples is not None,
        )
        if continued is None:
            return None
        losses, facts, governed = Losses(continued.losses), target.facts, continued.governed
        target_request = TargetRequest(
            plan,
            provider,
            model,
            remove_fields(continued.body, facts.refused_fields, losses),
            "translate",
            facts=facts,
            losses=list_losses(losses),
            governed=governed,
            report=report,
            timer=timer,
            continued=continued,
            steps=steps,
        )
        if self._remembered.checks:
            build_whole = plan.copy().build_target_request
            whole = build_whole(provider, model, governance=target.governance, steps=steps)
            plan.mismatch = target_request.compare(whole)
            if plan.mismatch:
                return None
        self._learned = continued.history
        for intervention in governed.interventions if governed else ():
            report(intervention)
        if strict:
            losses.refuse_if_any()
        if continued.sample is not None:
            plan.keep_sample(find_tools_form(facts), continued.sample)
        return target_request

    def learn(self, request: Request, fitted: Request, losses: Sequence[Loss]) -> None:
        """Note what to remember of a request that was translated as a whole."""
        with_texts = self._samples is not None
        self._learned = begin_history(
            self._split, self._source, self._target, request, fitted, losses, with_texts=with_texts
        )
        _keep_samples(self._learned, request, self._samples or {})

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self._remembered.keep(self._key, self._learned)


def _keep_samples(
    history: ReadHistory | None, request: Request, samples: dict[ToolsForm, PromptSample]
) -> None:
    """Keep the samples that rules have taken of what stands before the conversation of a request.

    They also have the tools that messages declare, which an undo can remove: then they are not kept.
    """
    if history is not None and samples and ToolDeclarations not in find_block_kinds(request.messages):
        system = request.messages[: count_leading_messages(request.messages)]
        history.memo.samples.update((form, (system, sample)) for form, sample in samples.items())


def fit_whole(source: RequestSource, body: bytes, target: GovernedTarget) -> Request:
    """The fitted request, without anything remembered."""
    dialect, losses = dialect_named(source.dialect), Losses()
    request = dialect.read_request(read_object(body), losses, model=source.model, stream=source.stream)
    return govern_request(request, target, losses).find_fitted()


class OpenConversation:
    """The conversation of one request: its body in parts, and what is remembered of it with any target.

    Call order: `abridge` if a rule asks for the body, `find_reuse` or `learn` for each target, then `keep`.
    """

    def __init__(
        self,
        histories: OwnHistories,
        body: bytes,
        members: Members,
        split: SplitBody,
        source: RequestSource,
        mark: Hashable,
        known: ReadHistory | None,
    ) -> None:
        self._histories = histories
        self._body = body
        self._members = members
        self._split = split
        self._source = source
        self._mark = mark
        #: The history whose known body this one continues.
        self._known = known
        self._abridged: AbridgedRequest | None = None
        #: Rules have asked for the body.
        self.is_asked = False
        #: The samples of what stands before the conversation, if rules have asked for tokens.
        self.samples: dict[ToolsForm, PromptSample] = {}
        self._learned: ReadHistory | None = None

    def abridge(self) -> AbridgedRequest | None:
        """The request without its remembered messages, for rules; None if it must be read as a whole."""
        if not self.is_asked:
            self.is_asked = True
            history = self._known or self._histories.remembered.find_latest(self._build_key(None))
            if history is not None:
                known = history.body if history is self._known else None
                self._abridged = abridge_request(history, self._split, self._source, known)
        return self._abridged

    def find_reuse(self, governance: Governance | None, profile: Profile) -> HistoryReuse:
        """Prepare the reuse for a target. The arguments are those of `find_governed_target`."""
        target = find_governed_target(governance, profile, self._source.dialect)
        facts = target.facts
        key = self._build_key((facts.provider, facts.dialect, facts.model, *target.request_settings))
        remembered = self._histories.remembered
        samples = self.samples if self.is_asked else None
        return HistoryReuse(remembered, key, self._split, self._source, target, self._abridged, samples)

    def learn(self, request: Request | None) -> None:
        """Note what to remember of a request that is not translated, if rules have asked for its body.

        `request`: the whole request, if it was read.
        """
        if self._abridged is not None:
            known = self._known.body if self._known else None
            learn = partial(extend_reading, self._body, self._members, self._abridged)
            self._learned = learn(self._split, self._source, known)
        elif self.is_asked and request is not None:
            self._learned = begin_reading(self._body, self._members, self._split, self._source, request)
            _keep_samples(self._learned, request, self.samples)

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self._histories.remembered.keep(self._build_key(()), self._learned, self._mark)
            self._learned = None

    def _build_key(self, target: Hashable) -> HistoryKey:
        """The key for a target, or for any target (None)."""
        return HistoryKey(
            self._histories.owner, self._source.dialect, target, self._split.lengths, self._split.items[0]
        )


class BodyParts:
    """The body of a request, split without decoding its values: at most once, when it is first needed."""

    def __init__(self, body: bytes, metadata: "RequestMetadata") -> None:
        self._body = body
        self._metadata = metadata
        self._is_split = self._is_open = False
        self._members: Members | None = None
        #: What is remembered of the body that this one continues, and its parts.
        self._known: ReadHistory | None = None
        self._split: SplitBody | None = None
        #: The conversation, if it was opened.
        self.conversation: OpenConversation | None = None

    def split(self, histories: OwnHistories | None = None) -> Members | None:
        """The members of the body; None if the body is invalid."""
        if not self._is_split:
            self._is_split = True
            if histories is None or not self._recognise(histories):
                self._members = split_members(self._body)
        return self._members

    def _recognise(self, histories: OwnHistories) -> bool:
        """Whether the body continues one that is remembered for rules."""
        remembered = histories.remembered
        known = remembered.find_marked(self._build_mark(histories)) if remembered.has_marks else None
        found = known.body.recognise(self._body) if known and known.body else None
        if found is not None:
            self._known, self._members, self._split = known, found.members, found.split
        return found is not None

    def sample(self, request: Request, form: ToolsForm) -> PromptSample:
        """The token sample of the whole request, which this body is."""
        parts = sample_parts(request, form)
        if parts is None:
            return sample_request(request, form)
        if self.conversation is not None:
            self.conversation.samples[form] = parts[0]
        return parts[0] + parts[1]

    def open_conversation(self, histories: OwnHistories | None) -> OpenConversation | None:
        """The conversation of the request; None if it is too short or too long for any reuse."""
        if histories is None or self._is_open:
            return self.conversation
        self._is_open = True
        members = self.split(histories) if MIN_BODY <= len(self._body) <= MAX_BODY else None
        if members is None:
            return None
        url = self._metadata
        source = RequestSource(url.dialect, url.model, url.stream)
        split = self._split or split_body(members, dialect_named(url.dialect).history)
        if split is not None and split.items:
            mark = self._build_mark(histories)
            open_it = partial(OpenConversation, histories, self._body, members, split, source)
            self.conversation = open_it(mark, self._known)
        return self.conversation

    def _build_mark(self, histories: OwnHistories) -> Hashable:
        """Finds the last body of a conversation; bodies of several conversations may have the same."""
        url = self._metadata
        client = url.identity
        return (
            histories.owner,
            url.dialect,
            url.model,
            client.session,
            client.sub_agent,
            self._body[:MARKED],
        )


def list_losses(losses: Losses, *, strict: bool = False) -> tuple[Loss, ...]:
    """The losses in an order that does not depend on how the request was translated.

    `strict`: any loss raises `LossRefused`.
    """
    if strict:
        losses.refuse_if_any()
    return losses.as_sorted()
