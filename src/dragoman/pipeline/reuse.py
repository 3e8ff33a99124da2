"""Reuse of translated history for one request and one target: find, translate, remember."""

from collections.abc import Sequence

from dragoman.dialects.forwarding import Members
from dragoman.dialects.registry import dialect_named
from dragoman.hub.loss import Loss
from dragoman.hub.request import Request
from dragoman.pipeline.continued import (
    ContinuedTranslation,
    RequestSource,
    begin_history,
    continue_history,
)
from dragoman.pipeline.history import SplitBody, TranslatedHistory, split_body
from dragoman.pipeline.remembered import HistoryKey, OwnHistories, build_key
from dragoman.providers.profile import TargetFacts
from dragoman.tokens.tokenizers import OVERHEADS, ToolsForm, find_tokenizer


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
    ) -> None:
        self._remembered = histories.remembered
        self._split = split
        self._source = source
        self.facts = facts
        target = (source.dialect, source.model, source.stream, facts.provider, facts.dialect, facts.model)
        self._key: HistoryKey = build_key(histories.owner, target, split)
        self._learned: TranslatedHistory | None = None

    @property
    def tools_as(self) -> ToolsForm:
        """The form of tools in the samples for token estimates."""
        return self._source.tools_as

    @property
    def checks(self) -> bool:
        """Whether the request is to be translated as a whole too, and both compared."""
        return self._remembered.checks

    def translate(self) -> ContinuedTranslation | None:
        """Translate the request with what is remembered; None if that is not possible."""
        history = self._remembered.find(self._key)
        if history is None:
            return None
        continued = continue_history(history, self._split, self._source, self.facts)
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


def find_reuse(
    histories: OwnHistories, members: Members, facts: TargetFacts, dialect: str, model: str, *, stream: bool
) -> HistoryReuse | None:
    """Prepare the reuse for a request; None if its history is too short for any.

    `model` and `stream` are those of the URL.
    """
    split = split_body(members, dialect_named(dialect).history)
    if split is None or len(split.items) < 2:
        return None
    tools_as = OVERHEADS[find_tokenizer(facts.model, facts.dialect)].tools_as
    source = RequestSource(dialect=dialect, model=model, stream=stream, tools_as=tools_as)
    return HistoryReuse(histories, split, source, facts)


def sort_losses(losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """The losses in an order that does not depend on how the request was translated."""
    return tuple(sorted(losses, key=lambda loss: (len(loss.path), loss.path, loss.reason)))
