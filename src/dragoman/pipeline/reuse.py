"""Reuse of translated history for one request and one target: find, translate, remember."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from dragoman.dialects.forwarding import Members, split_members
from dragoman.dialects.registry import dialect_named
from dragoman.governance.interventions import Report
from dragoman.governance.settings import Governance
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.pipeline.bodies import MAX_BODY, read_object
from dragoman.pipeline.continued import begin_history, continue_history, find_tools_form
from dragoman.pipeline.governance import GovernedTarget, find_governed_target, govern_request
from dragoman.pipeline.history import SplitBody, TranslatedHistory, split_body
from dragoman.pipeline.reading import AbridgedRequest, RequestSource, abridge_request
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.remembered import MIN_BODY, HistoryKey, OwnHistories, build_key
from dragoman.pipeline.rounds import ReplySteps
from dragoman.pipeline.target_provider import TargetProvider
from dragoman.pipeline.target_request import TargetRequest
from dragoman.providers.profile import Profile

if TYPE_CHECKING:
    from dragoman.pipeline.plan import RequestPlan


class HistoryReuse:
    """What is remembered of a request's conversation with one target, and what to remember of it next.

    Call order: `build_target_request`; if it returns None, translate the whole request and call `learn`; then
    `keep`.
    """

    def __init__(
        self,
        histories: OwnHistories,
        split: SplitBody,
        source: RequestSource,
        target: GovernedTarget,
        abridged: AbridgedRequest | None,
    ) -> None:
        self._remembered = histories.remembered
        self._split = split
        self._source = source
        self._target = target
        self._reading = abridged.reading if abridged else None
        facts = target.facts
        place = (facts.provider, facts.dialect, facts.model, *target.request_settings)
        self._key: HistoryKey = build_key(histories.owner, source, place, split)
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
        if history is None:
            return None
        target = self._target
        refit = partial(_fit_whole, self._source, plan.body, target)
        continued = continue_history(history, self._split, self._source, target, refit, self._reading)
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
            losses=sort_losses(losses.as_tuple()),
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
        self._learned = begin_history(self._split, self._source, self._target, request, fitted, losses)

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self._remembered.keep(self._key, self._learned)


def _fit_whole(source: RequestSource, body: bytes, target: GovernedTarget) -> Request:
    """The fitted request, without anything remembered."""
    dialect, losses = dialect_named(source.dialect), Losses()
    request = dialect.read_request(read_object(body), losses, model=source.model, stream=source.stream)
    return govern_request(request, target, losses).find_fitted()


class OpenConversation:
    """The conversation of one request: its body in parts, and what is remembered of it with any target."""

    def __init__(self, histories: OwnHistories, split: SplitBody, source: RequestSource) -> None:
        self._histories = histories
        self._split = split
        self._source = source

    @cached_property
    def abridged(self) -> AbridgedRequest | None:
        """The request without its remembered messages, for rules; None if it must be read as a whole."""
        key = build_key(self._histories.owner, self._source, None, self._split)
        history = self._histories.remembered.find_latest(key)
        return abridge_request(history, self._split, self._source) if history else None

    def find_reuse(self, governance: Governance | None, profile: Profile) -> HistoryReuse:
        """Prepare the reuse for a target. The arguments are those of `find_governed_target`."""
        target = find_governed_target(governance, profile, self._source.dialect)
        abridged = vars(self).get("abridged")
        return HistoryReuse(self._histories, self._split, self._source, target, abridged)


class BodyParts:
    """The body of a request, split without decoding its values: at most once, when it is first needed."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self._conversation: OpenConversation | None = None
        self._is_open = False

    @cached_property
    def members(self) -> Members | None:
        """The members of the body, not decoded; None if the body is invalid."""
        return split_members(self.body)

    def open_conversation(
        self, histories: OwnHistories | None, source: RequestSource
    ) -> OpenConversation | None:
        """The conversation of the request; None if it is too short or too long for any reuse."""
        if histories is not None and not self._is_open:
            self._is_open = True
            has_length = MIN_BODY <= len(self.body) <= MAX_BODY
            members = self.members if has_length else None
            split = split_body(members, dialect_named(source.dialect).history) if members else None
            if split is not None and len(split.items) > 1:
                self._conversation = OpenConversation(histories, split, source)
        return self._conversation


def sort_losses(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """The losses in an order that does not depend on how the request was translated."""
    return tuple(sorted(losses, key=lambda loss: (len(loss.path), loss.path, loss.reason)))
