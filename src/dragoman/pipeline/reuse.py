"""Reuse of translated history for one request and one target: find, translate, remember."""

from collections.abc import Sequence
from functools import cached_property

from dragoman.dialects.forwarding import Members, split_members
from dragoman.dialects.registry import dialect_named
from dragoman.hub.loss import Loss
from dragoman.hub.request import Request
from dragoman.pipeline.bodies import MAX_BODY
from dragoman.pipeline.continued import (
    ContinuedTranslation,
    begin_history,
    continue_history,
    find_tools_form,
)
from dragoman.pipeline.history import SplitBody, TranslatedHistory, split_body
from dragoman.pipeline.reading import AbridgedRequest, RequestSource, abridge_request
from dragoman.pipeline.remembered import MIN_BODY, HistoryKey, OwnHistories, build_key
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from dragoman.tokens.tokenizers import ToolsForm


class HistoryReuse:
    """What is remembered of a request's conversation with one target, and what to remember of it next.

    Call order: `translate`; if it returns None, translate the whole request and call `learn`; then `keep`.
    """

    def __init__(
        self,
        histories: OwnHistories,
        split: SplitBody,
        source: RequestSource,
        facts: TargetFacts,
        abridged: AbridgedRequest | None,
    ) -> None:
        self._remembered = histories.remembered
        self._split = split
        self._source = source
        self.facts = facts
        self._reading = abridged.reading if abridged else None
        target = (facts.provider, facts.dialect, facts.model)
        self._key: HistoryKey = build_key(histories.owner, source, target, split)
        self._learned: TranslatedHistory | None = None

    @property
    def tools_as(self) -> ToolsForm:
        """The form of tools in the samples for token estimates."""
        return find_tools_form(self.facts)

    @property
    def checks(self) -> bool:
        """Whether the request is to be translated as a whole too, and both compared."""
        return self._remembered.checks

    def translate(self) -> ContinuedTranslation | None:
        """Translate the request with what is remembered; None if that is not possible."""
        history = self._remembered.find(self._key)
        if history is None:
            return None
        continued = continue_history(history, self._split, self._source, self.facts, self._reading)
        if continued is not None:
            self._learned = continued.history
        return continued

    def learn(self, request: Request, fitted: Request, losses: Sequence[Loss]) -> None:
        """Note what to remember of a request that was translated as a whole."""
        self._learned = begin_history(self._split, self._source, self.facts, request, fitted, losses)

    def keep(self) -> None:
        """Remember it. Called on the event loop."""
        if self._learned is not None:
            self._remembered.keep(self._key, self._learned)


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

    def find_reuse(self, profile: Profile) -> HistoryReuse:
        """Prepare the reuse for a target with this profile."""
        facts = build_target_facts(profile, self._source.dialect)
        abridged = vars(self).get("abridged")
        return HistoryReuse(self._histories, self._split, self._source, facts, abridged)


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
