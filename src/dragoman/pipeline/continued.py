"""Translates a request that continues a conversation, and reuses what was made of its earlier items.

The request is read, fitted and written without the remembered turns: a placeholder message of the user stands
for them. Then their JSON is put in its place. The result equals that of a whole translation, because

- the translation of a past turn does not depend on what follows it: a longer conversation begins with the
  bytes of a shorter one. The last turns, which this does not hold for, are never remembered;
- the translation of the turns behind the remembered ones does not depend on them. `_Continuation` checks what
  could connect them: ids, tools that only the history names, cache marks.

If one of these checks fails, the request is translated as a whole. Everything here is pure.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.fit.front import FittedFront, can_continue, fit_continued, fit_front
from dragoman.fit.names import NameMap
from dragoman.governance.harvest import RequestText
from dragoman.governance.settings import OFF
from dragoman.governance.tool_choice import ToolChoiceResult
from dragoman.governance.tool_names import find_declared_tools
from dragoman.hub.blocks import Opaque
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.front import OVERHEAD, PLACEHOLDER, Front, FrontWriter
from dragoman.pipeline.governance import GovernedRequest, GovernedTarget, list_interventions
from dragoman.pipeline.history import (
    ConversationMemo,
    HistorySection,
    ItemPaths,
    TranslatedHistory,
    find_section,
    has_mark,
    list_ids,
)
from dragoman.pipeline.kept_texts import KeptTexts
from dragoman.pipeline.outline import outline_blocks, replace_history, strip_tools
from dragoman.pipeline.reading import (
    TOOLS,
    AbridgedRequest,
    ContinuedReading,
    RequestSource,
    read_continued,
    read_remembered,
)
from dragoman.pipeline.split_body import SplitBody
from dragoman.providers.profile import TargetFacts
from dragoman.tokens.request import (
    SMALL_PROMPT,
    SYSTEM_ROLES,
    PromptSample,
    count_leading_messages,
    sample_messages,
)
from dragoman.tokens.tokenizers import OVERHEADS, ToolsForm, find_tokenizer
from dragoman.wire.fields import encode


class ContinuedTranslation(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was translated with remembered turns."""

    body: bytes
    losses: tuple[Loss, ...]
    #: The client's request as `build_outline` gives it.
    outline: Request
    #: The sample of the prompt for token estimates; None if it must be taken from the whole request.
    sample: PromptSample | None
    #: What the next request can reuse.
    history: TranslatedHistory
    #: The tools' names: those of the front, because the conversation names no other tool.
    names: NameMap
    #: What governance needs for the reply, if the request is governed.
    governed: GovernedRequest | None = None


def find_tools_form(facts: TargetFacts) -> ToolsForm:
    """The form in which the target's model sees tools."""
    return OVERHEADS[find_tokenizer(facts.model, facts.dialect)].tools_as


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
    index = paths.find_open_turn(request.messages, facts)
    # Of too many losses some are missing: those of the history could be among them.
    if index == 0 or len(losses) >= Losses.LIMIT:
        return None
    items = request.messages[paths.find_message(request.messages, 0) :]
    if _has_opaque(items) or not _can_describe(fitted, target):
        return None
    sent = target.apply_contract(fitted)
    count = count_leading_messages(sent.messages)
    leading = items[: count_leading_messages(items)]
    if paths.find_message(sent.messages[:count], len(leading)) < count:
        # An instruction of the conversation became a leading one: all messages before it were removed.
        return None
    begun = _Continuation(split, source, target, front, KeptTexts() if with_texts else None)
    fitted_messages = fitted.messages[count_leading_messages(fitted.messages) :]
    section = begun.remember(index, items, fitted_messages, sent, sent.messages[count:], losses)
    if section is None:
        return None
    written = FrontWriter(facts).build(request, front, sent, count, find_tools_form(facts))
    if written is None:
        return None
    return TranslatedHistory(
        facts=facts,
        values=split.values,
        tools=request.tools,
        has_deferred_tools=any(tool.deferred for tool in request.tools),
        front=written,
        leading=leading,
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


def continue_history(
    history: TranslatedHistory,
    split: SplitBody,
    source: RequestSource,
    target: GovernedTarget,
    refit: Callable[[], Request],
    known: AbridgedRequest | None,
    *,
    with_texts: bool,
    is_recognised: bool,
) -> ContinuedTranslation | None:
    """Translate a request with the remembered turns that it begins with; None if that is not possible.

    `refit` fits the whole request. It is called only if the model must be asked again within one reply.
    `known`: what rules have read of the request, with this history or another one. `is_recognised`: the
    request begins with all items of the history.
    """
    if history.facts != target.facts:
        return None
    try:
        reading = known.reading if known and known.history is history else None
        if reading is None:
            section = None
            if history.values == split.values:
                section = history.end if is_recognised else find_section(history.end, split.items)
            reading = read_continued(history, section, split, source) if section else None
        if reading is None or (with_texts and reading.section.kept is None):
            return None
        front, kept = history.front.fitted, reading.section.kept
        return _Continuation(split, source, target, front, kept, reading).translate(history, reading, refit)
    except (DragomanError, RecursionError):
        # The whole translation finds the same fault, and names the first one.
        return None


class _Continuation:
    """The translation of the items behind a remembered section; `reading` is None at the beginning."""

    def __init__(
        self,
        split: SplitBody,
        source: RequestSource,
        target: GovernedTarget,
        front: FittedFront,
        kept: KeptTexts | None,
        reading: ContinuedReading | None = None,
    ) -> None:
        self._split = split
        self._source = source
        self._dialect = dialect_named(source.dialect)
        self._target = target
        self._facts = target.facts
        self._paths = ItemPaths(self._dialect.history.conversation)
        self._front = front
        self._kept = kept
        section = reading.section if reading else None
        self._section = section if isinstance(section, HistorySection) else None
        self._samples = reading.samples if reading else {}
        self._chain = self._section.list_chain() if self._section else []
        self._ids = frozenset[str]().union(*(each.ids for each in self._chain))

    def translate(
        self, history: TranslatedHistory, reading: ContinuedReading, refit: Callable[[], Request]
    ) -> ContinuedTranslation | None:
        losses, messages = Losses(reading.losses), reading.messages
        if _has_opaque(messages) or not self._front.covers(messages):
            return None
        if not self._ids.isdisjoint(list_ids(messages)):
            return None
        asked = msgspec.structs.replace(
            reading.request, tools=history.tools, messages=(*reading.system, PLACEHOLDER, *messages)
        )
        check_rules(asked, self._dialect.request_rules, only_messages=True)
        chosen = self._target.choose(asked)
        fitted = fit_continued(chosen.request, self._front, self._facts, losses)
        count = self._find_placeholder(fitted.messages)
        if count < 0 or not self._ids.isdisjoint(list_ids(fitted.messages[count + 1 :])):
            return None
        written = self._write(history, asked, reading, fitted, count, losses)
        if written is None or self._target.is_idle:
            return written
        governed = self._govern(history, written.outline, asked, chosen, messages, fitted, refit)
        return msgspec.structs.replace(written, governed=governed)

    def _govern(
        self,
        history: TranslatedHistory,
        outline: Request,
        asked: Request,
        chosen: ToolChoiceResult,
        messages: Sequence[Message],
        fitted: Request,
        refit: Callable[[], Request],
    ) -> GovernedRequest:
        """What the reply needs of the request, as `govern_request` gives it."""
        tools, request = find_declared_tools(fitted), chosen.request
        added = strip_tools(request.tools[len(asked.tools) :])
        texts = None
        if self._target.governance.family != OFF:
            items = tuple(item for section in self._chain for item in section.items)
            members = zip(self._split.names, history.values, strict=True)
            known = [(name, value) for name, value in members if name != TOOLS]
            texts = RequestText(messages, partial(read_remembered, self._source, known, items))
        return GovernedRequest(
            target=self._target,
            asked=msgspec.structs.replace(
                outline, tools=(*outline.tools, *added), tool_choice=request.tool_choice
            ),
            tools=tools,
            exit_name=chosen.exit_name,
            texts=texts,
            interventions=list_interventions(self._target, asked, request, tools),
            find_fitted=refit,
        )

    def _find_placeholder(self, messages: Sequence[Message]) -> int:
        """The position of the placeholder, behind the instructions and before an answer; -1: it changed."""
        count = count_leading_messages(messages)
        if count + 1 >= len(messages) or messages[count + 1].role != "assistant":
            return -1
        # A cache mark on the placeholder belongs on the last remembered message. Messages behind an answer
        # that was removed are merged with it.
        return count if messages[count] == PLACEHOLDER else -1

    def _write(
        self,
        history: TranslatedHistory,
        asked: Request,
        reading: ContinuedReading,
        fitted: Request,
        count: int,
        losses: Losses,
    ) -> ContinuedTranslation | None:
        messages = reading.messages
        fitted_messages = fitted.messages[count + 1 :]
        sent = self._target.apply_contract(fitted)
        leading = count_leading_messages(sent.messages)
        rest = sent.messages[leading + 1 :]
        front = FrontWriter(self._facts).update(history.front, asked, sent, leading)
        if front is None:
            return None
        chain = list(self._chain)
        index = self._paths.find_open_turn(messages, self._facts)
        section = self.remember(index, messages, fitted_messages, sent, rest, losses) if index else None
        if section is not None:
            chain.append(section)
            rest = rest[self._paths.find_message(rest, index) :]
        written = [each.written for each in chain if each.written]
        last = self._encode_messages(sent, rest, losses)
        body = b"".join((front.head, b",".join([*written, last] if last else written), front.tail))
        all_losses = Losses(losses)
        for part in (front.losses, self._front.losses, *(each.losses for each in chain)):
            for loss in part:
                all_losses.add(loss.path, loss.reason)
        end = chain[-1]
        if len(all_losses) >= Losses.LIMIT:
            return None
        return ContinuedTranslation(
            body=body,
            losses=all_losses.as_tuple(),
            outline=self._outline(asked, front, messages),
            sample=self._join_samples(history, front, end, reading),
            history=msgspec.structs.replace(history, front=front, end=end),
            names=self._front.names,
        )

    def _encode_messages(self, sent: Request, messages: Sequence[Message], losses: Losses) -> bytes:
        """The items of some messages for the target, as JSON without brackets."""
        dialect = dialect_named(self._facts.dialect)
        return encode(dialect.write_messages(sent, messages, self._facts, losses))[1:-1]

    def remember(
        self,
        index: int,
        messages: Sequence[Message],
        fitted_messages: Sequence[Message],
        sent: Request,
        sent_messages: Sequence[Message],
        losses: Losses | Sequence[Loss],
    ) -> HistorySection | None:
        """The turns before the item with this index; None if what follows could change them.

        `messages` come from the items behind the section before, `fitted_messages` are those after `fit`, and
        `sent_messages` those that are written.
        """
        position = self._paths.find_message(messages, index)
        closed, answer = messages[:position], messages[position]
        cut = self._paths.find_message(sent_messages, index)
        written_messages = sent_messages[:cut]
        ids = _split_ids(messages, position)
        # The fit decodes ids, so a call may get the id of an earlier result.
        fitted_ids = _split_ids(fitted_messages, self._paths.find_message(fitted_messages, index))
        if ids is None or fitted_ids is None or not _is_cut_clean(sent_messages, cut, answer):
            return None
        if has_mark(written_messages) or not self._has_no_system_prompt(written_messages):
            return None
        if self._facts.caching == "breakpoints" and any(m.role in SYSTEM_ROLES for m in written_messages):
            # It gets a mark of the target if no other instruction follows.
            return None
        own = Losses()
        written = self._encode_messages(sent, written_messages, own)
        for loss in losses:
            if 0 <= self._paths.find_index(loss.path) < index:
                own.add(loss.path, loss.reason)
        first = self._section.count if self._section else 0
        before = self._section.sample if self._section else PromptSample()
        items = self._split.items[first:index]
        size = sum(map(len, items)) + len(written) + OVERHEAD * (1 + len(items))
        conversation = closed[count_leading_messages(closed) :] if self._section is None else closed
        return HistorySection(
            before=self._section,
            items=items,
            count=index,
            written=written,
            calls=tuple(outline_blocks(closed)),
            ids=ids | fitted_ids,
            losses=own.as_tuple(),
            size=size + (self._section.size if self._section else 0),
            sample=self._samples.get(position) or before + sample_messages(conversation, before.length),
            kept=None if self._kept is None else self._kept.extend(conversation),
        )

    def _has_no_system_prompt(self, messages: Sequence[Message]) -> bool:
        """Whether no message is a system prompt, which may change: some targets get it as one of the user."""
        return all(not message.at or self._paths.find_index(message.at) >= 0 for message in messages)

    def _outline(self, asked: Request, front: Front, messages: Sequence[Message]) -> Request:
        calls = [block for section in self._chain for block in section.calls]
        return replace_history(asked, front.outline_tools, (*calls, *outline_blocks(messages)))

    def _join_samples(
        self, history: TranslatedHistory, front: Front, end: HistorySection, reading: ContinuedReading
    ) -> PromptSample | None:
        """The token sample of the whole prompt, joined from remembered and new parts.

        None if tools are deferred, or if the prompt is so small that all of it is sampled.
        """
        if history.has_deferred_tools:
            return None
        new = reading.samples.get(len(reading.messages))
        if new is None:
            following = reading.messages[self._paths.find_message(reading.messages, end.count) :]
            new = end.sample + sample_messages(following, end.sample.length)
        sample = front.sample + front.system_sample + new
        return sample if sample.length > SMALL_PROMPT else None


def _split_ids(messages: Sequence[Message], cut: int) -> frozenset[str] | None:
    """The ids before a position; None if a message behind it has one of them."""
    ids = frozenset(list_ids(messages[:cut]))
    return ids if ids.isdisjoint(list_ids(messages[cut:])) else None


def _is_cut_clean(messages: Sequence[Message], cut: int, answer: Message) -> bool:
    """Whether the answer at the cut was not removed: the messages around a removed one may be merged."""
    return cut < len(messages) and messages[cut].at == answer.at


def _has_opaque(messages: Iterable[Message]) -> bool:
    """Whether the messages have items that only their vendor knows.

    Such an item may change settings (`configuration_update` of OpenAI).
    """
    return any(type(block) is Opaque for message in messages for block in message.blocks)
