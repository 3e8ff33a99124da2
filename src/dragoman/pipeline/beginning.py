"""The first requests of a conversation: what is remembered of them, and what they share with others.

All conversations of an agent have the same settings and tools. So the front of one conversation of a caller,
as it was fitted and written, serves the next one of the same caller, and only messages are translated. Then
the result equals that of a whole translation for the same reasons as if no turn was remembered (`continued`).
Everything here is pure.
"""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.dialects.registry import dialect_named
from dragoman.fit.front import FittedFront, can_continue, fit_front
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.pipeline.continued import (
    Continuation,
    ContinuedTranslation,
    find_tools_form,
)
from dragoman.pipeline.front import FrontWriter
from dragoman.pipeline.governance import GovernedTarget
from dragoman.pipeline.history import (
    ConversationMemo,
    HistorySection,
    ItemPaths,
    LastItems,
    TranslatedHistory,
    has_opaque,
)
from dragoman.pipeline.kept_texts import KeptTexts
from dragoman.pipeline.reading import RequestSource, divide_request, read_continued
from dragoman.pipeline.split_body import SplitBody
from dragoman.tokens.request import PromptSample, count_leading_messages

#: Before the first item of a conversation.
_NOTHING = HistorySection(
    before=None,
    items=(),
    count=0,
    sample=PromptSample(),
    kept=None,
    size=0,
    ids=frozenset(),
    written=b"",
    calls=(),
    losses=(),
)


def begin_history(
    split: SplitBody,
    source: RequestSource,
    target: GovernedTarget,
    request: Request,
    fitted: Request,
    front: FittedFront,
    losses: Sequence[Loss],
    *,
    with_texts: bool,
) -> TranslatedHistory | None:
    """What to remember of a request that was translated as a whole; None if it has nothing to remember.

    `request` and `fitted` are the whole request before and after `fit`, `losses` those of its translation,
    and `front` what `fit_coverable_front` returned. `with_texts`: rules need `KeptTexts`.
    """
    facts = target.facts
    paths = ItemPaths(dialect_named(source.dialect).history.conversation)
    items = request.messages[paths.find_message(request.messages, 0) :]
    # Of too many losses some are missing: those of the history could be among them.
    if len(losses) >= Losses.LIMIT or has_opaque(items) or not _can_describe(fitted, target):
        return None
    sent = target.apply_contract(fitted)
    begun = Continuation(split, source, target, front, KeptTexts() if with_texts else None)
    fitted_messages = fitted.messages[count_leading_messages(fitted.messages) :]
    section = begun.remember(items, fitted_messages, sent, losses)
    if section is None:
        return None
    count = count_leading_messages(sent.messages)
    written = FrontWriter(facts).build(request, front, sent, count, find_tools_form(facts))
    if written is None:
        return None
    return TranslatedHistory(
        facts=facts,
        values=split.values,
        tools=request.tools,
        has_deferred_tools=any(tool.deferred for tool in request.tools),
        front=written,
        leading=items[: count_leading_messages(items)],
        end=section,
        memo=ConversationMemo(),
    )


def fit_coverable_front(request: Request, target: GovernedTarget) -> FittedFront | None:
    """The front of a whole request; None if its conversation changes the front."""
    front = fit_front(target.choose(request).request, target.facts)
    return front if can_continue(front, target.facts) and front.covers(request.messages) else None


def _can_describe(fitted: Request, target: GovernedTarget) -> bool:
    """Whether a text contract changes the request, whether or not its history has calls."""
    return not target.governance.contract or any(tool.kind == "function" for tool in fitted.tools)


def begin_with_front(
    other: TranslatedHistory,
    split: SplitBody,
    source: RequestSource,
    target: GovernedTarget,
    refit: Callable[[], Request],
    read: tuple[Request, Losses] | None,
    *,
    with_texts: bool,
) -> ContinuedTranslation | None:
    """Translate a request with the front of another conversation of the caller; None if that is not possible.

    `refit` as for `continue_history`. `read`: the whole request and the losses of reading it, if it was
    read. `with_texts`: rules need `KeptTexts`.
    """
    if other.facts != target.facts or other.values != split.values:
        return None
    kept = KeptTexts() if with_texts else None
    history = msgspec.structs.replace(
        other, leading=(), end=_NOTHING, last=LastItems(), memo=ConversationMemo(), body=None, system_size=0
    )
    try:
        reading = divide_request(*read, _NOTHING, source) if read is not None else None
        reading = reading or read_continued(history, _NOTHING, split, source)
        if reading is None:
            return None
        begun = Continuation(split, source, target, other.front.fitted, kept, reading)
        return begun.translate(history, reading, refit)
    except (DragomanError, RecursionError):
        # The whole translation finds the same fault, and names the first one.
        return None
