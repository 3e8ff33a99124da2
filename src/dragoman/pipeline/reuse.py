"""Reuse of translated history for one request and one target: find, translate, remember."""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from dragoman.dialects.forwarding import Members
from dragoman.dialects.registry import dialect_named
from dragoman.fit.front import FittedFront
from dragoman.governance.interventions import Report
from dragoman.governance.settings import Governance
from dragoman.hub.blocks import ToolDeclarations
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, Request, find_block_kinds
from dragoman.pipeline.beginning import begin_history, begin_with_front, fit_coverable_front
from dragoman.pipeline.bodies import read_object
from dragoman.pipeline.body_search import BodySearch
from dragoman.pipeline.continued import ContinuedTranslation, continue_history, find_tools_form
from dragoman.pipeline.governance import GovernedTarget, find_governed_target, govern_request
from dragoman.pipeline.history import ReadHistory, TranslatedHistory
from dragoman.pipeline.reading import (
    AbridgedRequest,
    RequestSource,
    abridge_beginning,
    abridge_request,
    begin_reading,
    begin_unread,
    extend_reading,
)
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.remembered import (
    HistoryKey,
    OwnHistories,
)
from dragoman.pipeline.rounds import ReplySteps
from dragoman.pipeline.split_body import KnownBody, SplitBody, UnreadText, know_body
from dragoman.pipeline.target_provider import TargetProvider
from dragoman.pipeline.target_request import TargetRequest
from dragoman.pipeline.token_bound import NewItems
from dragoman.providers.profile import Profile
from dragoman.tokens.request import PromptSample, count_leading_messages
from dragoman.tokens.tokenizers import ToolsForm

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestPlan


#: So many bytes at the beginning of a body, and of its conversation, find the body that it continues,
#: together with the client's ids.
MARKED = 256


class HistoryReuse:
    """What is remembered of a request's conversation with one target, and what to remember of it next.

    Call order: `build_target_request`; if it returns None, translate the whole request and call `learn`; then
    `keep`.
    """

    def __init__(self, conversation: "OpenConversation", target: GovernedTarget) -> None:
        facts = target.facts
        self._conversation = conversation
        self._remembered = conversation.remembered
        self._key = conversation.build_key(
            (facts.provider, facts.dialect, facts.model, *target.request_settings)
        )
        self._target = target
        self._learned: TranslatedHistory | None = None
        #: The request is translated with the front of another conversation.
        self._is_begun = False
        #: The number of remembered items before this request.
        self._before = 0

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
        continued = self._continue(plan)
        if continued is None:
            return None
        losses, facts, governed = Losses(continued.losses), self._target.facts, continued.governed
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
            whole = build_whole(provider, model, governance=self._target.governance, steps=steps)
            plan.mismatch = target_request.compare(whole)
            if plan.mismatch:
                return None
        self._learned = self._know_next(continued.history)
        for intervention in governed.interventions if governed else ():
            report(intervention)
        if strict:
            losses.refuse_if_any()
        if continued.sample is not None:
            plan.keep_sample(find_tools_form(facts), continued.sample)
        return target_request

    def _continue(self, plan: "RequestPlan") -> ContinuedTranslation | None:
        """The translation with remembered turns, or at least with the front of another conversation."""
        asked, target = self._conversation, self._target
        refit = partial(fit_whole, asked.source, plan.body, target)
        history = self._remembered.find(self._key)
        if isinstance(history, TranslatedHistory):
            self._before = history.end.count
            continued = continue_history(
                history,
                asked.split,
                asked.source,
                target,
                refit,
                asked.abridged,
                with_texts=asked.keeps_texts,
                is_recognised=asked.is_recognised_by(history),
            )
            if continued is not None:
                return continued
        other = self._remembered.find_front(self._key)
        if not isinstance(other, TranslatedHistory):
            return None
        self._is_begun = True
        begin = partial(begin_with_front, other, asked.split, asked.source, target, refit)
        return begin(plan.known_request, with_texts=asked.keeps_texts)

    def _know_next(self, history: TranslatedHistory | None) -> TranslatedHistory | None:
        """What to remember of a request that `_continue` has translated."""
        asked = self._conversation
        if history is None or not self._is_begun:
            return history and asked.know_next(history, self._before)
        asked.keep_samples(history, history.front.system)
        return asked.know(history)

    def fit_front(self, request: Request) -> FittedFront | None:
        """The front of a request that is translated as a whole, for its fit and for `learn`."""
        return fit_coverable_front(request, self._target)

    def learn(
        self, request: Request, fitted: Request, losses: Sequence[Loss], front: FittedFront | None
    ) -> None:
        """Note what to remember of a request that was translated as a whole."""
        if front is None:
            return
        asked, target = self._conversation, self._target
        begin = partial(begin_history, asked.split, asked.source, target, request, fitted, front)
        begun = begin(losses, with_texts=asked.keeps_texts)
        if begun is not None:
            asked.keep_whole_samples(begun, request)
            self._learned = asked.know(begun)

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self._conversation.remember(self._key, self._learned)


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
        marks: tuple[Hashable, ...],
        known: ReadHistory | None,
        search: BodySearch,
        new: NewItems,
        *,
        is_same: bool,
    ) -> None:
        self._owner = histories.owner
        self.remembered = histories.remembered
        self._body = body
        self._members = members
        self.split = split
        self.source = source
        #: These find the known body of the conversation.
        self.marks = marks
        #: The history whose known body this one continues. `is_same`: with the same other members.
        self._known = known
        self._is_same = is_same
        self._search = search
        self._new = new
        #: What rules have read of the request; None if they did not ask for the body.
        self.abridged: AbridgedRequest | None = None
        #: Rules have asked for the body.
        self.is_asked = False
        #: The samples of what stands before the conversation, if rules have asked for tokens.
        self.samples: dict[ToolsForm, PromptSample] = {}
        self._learned: ReadHistory | None = None

    def abridge(self) -> AbridgedRequest | None:
        """The request without its remembered messages, for rules; None if it must be read as a whole."""
        if not self.is_asked:
            self.is_asked = True
            history = self._known if self._known and self._known.end.kept else None
            history = history or self.remembered.find_latest(self.build_key(None))
            if history is not None:
                self.abridged = abridge_request(history, self.split, self.source, self._find_body(history))
            other = self.remembered.find_front(self.build_key(())) if self.abridged is None else None
            if other is not None:
                self.abridged = abridge_beginning(other, self.split, self.source)
        return self.abridged

    @property
    def keeps_texts(self) -> bool:
        """Whether rules have read or searched the body, so that they will ask for the next one too."""
        return self.is_asked or self._search.is_used

    def find_reuse(self, governance: Governance | None, profile: Profile) -> HistoryReuse:
        """Prepare the reuse for a target. The arguments are those of `find_governed_target`."""
        return HistoryReuse(self, find_governed_target(governance, profile, self.source.dialect))

    def learn(self, request: Request | None) -> None:
        """Note what to remember of a request that is not translated, if rules have asked for its body.

        `request`: the whole request, if it was read.
        """
        if self.abridged is not None:
            known = self._find_body(self.abridged.history)
            learn = partial(extend_reading, self._body, self._members, self.abridged)
            self._learned = learn(self.split, self.source, known)
        elif self.is_asked and request is not None:
            self._learned = begin_reading(self._body, self._members, self.split, self.source, request)
            if self._learned is not None:
                self.keep_whole_samples(self._learned, request)
        elif not self.is_asked:
            self._learned = self._learn_unread()

    def _learn_unread(self) -> ReadHistory | None:
        """What to remember of a body that rules have searched and not read."""
        known = self._known or self.remembered.find(self.build_key(()))
        if known is not None and (body := self._find_body(known)) is not None:
            new = self._new
            unread = UnreadText() if known.end.kept is None else new.lasting_text
            return msgspec.structs.replace(known, body=body.add_items(new.lasting, unread))
        if known is not None and known.end.kept is not None:
            return None
        return begin_unread(self._body, self._members, self.split, self.source, self._new.lasting)

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self.remember(self.build_key(()), self._learned)
            self._learned = None

    def remember(self, key: HistoryKey, history: ReadHistory) -> None:
        """Remember a history of this request, and the words that its body does not contain."""
        if history.body is not None:
            absent, known = self._search.absent, self._known.body if self._known else None
            if known is not None and not self._is_same:
                # The known ending may be that of the last body, and not of this one.
                absent &= known.absent
            has_front = known is not None and history.body.ending is known.ending
            front_absent = absent | known.front_absent if known is not None and has_front else absent
            body = msgspec.structs.replace(history.body, absent=absent, front_absent=front_absent)
            history = msgspec.structs.replace(history, body=body)
        self.remembered.keep(key, history, self.marks)

    def build_key(self, target: Hashable) -> HistoryKey:
        """The key for a target, or for any target (None)."""
        return HistoryKey(self._owner, self.source.dialect, target, self.split.lengths, self.split.items[0])

    def know(self, history: TranslatedHistory) -> TranslatedHistory:
        """The history of this request, with what the next body begins and ends with."""
        fields, count = dialect_named(self.source.dialect).history, history.end.count
        system = history.front.system[: len(history.front.system) - len(history.leading)]
        body = know_body(self._body, self._members, self.split, fields, count, system)
        return msgspec.structs.replace(history, body=body)

    def know_next(self, history: TranslatedHistory, before: int) -> TranslatedHistory:
        """The same for a history that was continued. `before`: the number of its items until now.

        A conversation that was not recognised never is, but for two cases: its mark changes while it is
        short, and an undo makes it shorter.
        """
        if history.body is None:
            return history
        known = self._known.body if self._known else None
        if known is None:
            is_short = sum(map(len, history.body.split.items)) < MARKED
            if is_short or history.end.count <= before:
                return self.know(history)
        body = known and known.extend(self.split.items[: history.end.count])
        return msgspec.structs.replace(history, body=body)

    def keep_whole_samples(self, history: ReadHistory, request: Request) -> None:
        """Keep the samples that rules have taken of what stands before the conversation of a request.

        They also have the tools that messages declare, which an undo can remove: then they are not kept.
        """
        if self.samples and ToolDeclarations not in find_block_kinds(request.messages):
            self.keep_samples(history, request.messages[: count_leading_messages(request.messages)])

    def keep_samples(self, history: ReadHistory, system: tuple[Message, ...]) -> None:
        """The same for a request without such messages. `system`: its leading system prompts."""
        history.memo.samples.update((form, (system, sample)) for form, sample in self.samples.items())

    def is_recognised_by(self, history: ReadHistory) -> bool:
        """Whether the body begins with all items of a history, because it was recognised by it."""
        return history is self._known

    def _find_body(self, history: ReadHistory) -> KnownBody | None:
        """What is known of the bodies of a history, if this request has the same members.

        None for a translated history: a translation needs members that rules do not.
        """
        is_known = history is self._known and self._is_same
        return history.body if is_known and not isinstance(history, TranslatedHistory) else None


def list_losses(losses: Losses, *, strict: bool = False) -> tuple[Loss, ...]:
    """The losses in an order that does not depend on how the request was translated.

    `strict`: any loss raises `LossRefused`.
    """
    if strict:
        losses.refuse_if_any()
    return losses.as_sorted()
