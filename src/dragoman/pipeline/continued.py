"""Translates a request that continues a conversation, and reuses what was made of its earlier items.

The request is read, fitted and written without the remembered turns: a placeholder message of the user stands
for them. Then their JSON is put in its place. The result equals that of a whole translation, because

- the translation of a past turn does not depend on what follows it: a longer conversation begins with the
  bytes of a shorter one. The last turns, which this does not hold for, are never remembered;
- the translation of the turns behind the remembered ones does not depend on them. `Continuation` checks what
  could connect them: ids, tools that only the history names, cache marks.

If one of these checks fails, the request is translated as a whole. Everything here is pure.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

import msgspec

from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.fit.front import FittedFront, fit_continued
from dragoman.fit.names import NameMap
from dragoman.governance.harvest import RequestText
from dragoman.governance.settings import OFF
from dragoman.governance.tool_choice import ToolChoiceResult
from dragoman.governance.tool_names import find_declared_tools
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.front import OVERHEAD, PLACEHOLDER, Front, FrontWriter
from dragoman.pipeline.governance import GovernedRequest, GovernedTarget, list_interventions
from dragoman.pipeline.history import (
    HistorySection,
    ItemPaths,
    LastItems,
    TranslatedHistory,
    find_section,
    has_mark,
    has_opaque,
    list_ids,
    merge_sections,
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
    SYSTEM_ROLES,
    PromptSample,
    count_leading_messages,
    sample_messages,
)
from dragoman.tokens.tokenizers import OVERHEADS, ToolsForm, find_tokenizer
from dragoman.wire.fields import encode

replace = msgspec.structs.replace


#: So many items are encoded at once: a few 100 KB.
ENCODED_ITEMS = 250


class ContinuedTranslation(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was translated with remembered turns."""

    body: bytes
    losses: tuple[Loss, ...]
    #: The client's request as `build_outline` gives it.
    outline: Request
    #: The sample of the prompt for token estimates; None if it must be taken from the whole request.
    sample: PromptSample | None
    #: What the next request can reuse; None: there is no past turn yet.
    history: TranslatedHistory | None
    #: The tools' names: those of the front, because the conversation names no other tool.
    names: NameMap
    #: What governance needs for the reply, if the request is governed.
    governed: GovernedRequest | None = None


def find_tools_form(facts: TargetFacts) -> ToolsForm:
    """The form in which the target's model sees tools."""
    return OVERHEADS[find_tokenizer(facts.model, facts.dialect)].tools_as


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
        return Continuation(split, source, target, front, kept, reading).translate(history, reading, refit)
    except (DragomanError, RecursionError):
        # The whole translation finds the same fault, and names the first one.
        return None


class Continuation:
    """The translation of the items behind a remembered section, or of all items, without a placeholder.

    `reading`: the items and the section before them. None: only `remember` is called, for a whole request.
    """

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
        section = reading.section if reading and reading.section.count else None
        self._section = section if isinstance(section, HistorySection) else None
        self._placeholder = (PLACEHOLDER,) if self._section else ()
        self._samples = dict(reading.samples) if reading else {}
        self._chain = self._section.list_chain() if self._section else []

    def translate(
        self, history: TranslatedHistory, reading: ContinuedReading, refit: Callable[[], Request]
    ) -> ContinuedTranslation | None:
        losses, messages = Losses(reading.losses), reading.messages
        if has_opaque(messages) or not self._front.covers(messages):
            return None
        if self._has_known_id(messages):
            return None
        asked = replace(
            reading.request, tools=history.tools, messages=(*reading.system, *self._placeholder, *messages)
        )
        check_rules(asked, self._dialect.request_rules, only_messages=True)
        chosen = self._target.choose(asked)
        fitted = fit_continued(chosen.request, self._front, self._facts, losses)
        first = self._find_first(fitted.messages)
        if first < 0 or self._has_known_id(fitted.messages[first:]):
            return None
        written = self._write(history, asked, reading, fitted, fitted.messages[first:], losses)
        if written is None or self._target.is_idle:
            return written
        governed = self._govern(history, written.outline, asked, chosen, messages, fitted, refit)
        return replace(written, governed=governed)

    def _has_known_id(self, messages: Sequence[Message]) -> bool:
        """Whether the messages have an id of a remembered call or result."""
        ids = frozenset(list_ids(messages)) if self._chain else frozenset[str]()
        return not all(ids.isdisjoint(section.ids) for section in self._chain)

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
            texts = RequestText(messages, self._read_earlier(history) if self._chain else None)
        return GovernedRequest(
            target=self._target,
            asked=replace(outline, tools=(*outline.tools, *added), tool_choice=request.tool_choice),
            tools=tools,
            exit_name=chosen.exit_name,
            texts=texts,
            interventions=list_interventions(self._target, asked, request, tools),
            find_fitted=refit,
        )

    def _read_earlier(self, history: TranslatedHistory) -> Callable[[], Sequence[Message]]:
        """Reads the remembered messages."""
        items = tuple(chain.from_iterable([section.items for section in self._chain]))
        members = zip(self._split.names, history.values, strict=True)
        known = [(name, value) for name, value in members if name != TOOLS]
        return partial(read_remembered, self._source, known, items)

    def _find_first(self, messages: Sequence[Message]) -> int:
        """The position of the first message behind the instructions and the placeholder; -1: that changed.

        The placeholder stands before an answer.
        """
        count = count_leading_messages(messages)
        if not self._placeholder:
            return count
        if count + 1 >= len(messages) or messages[count + 1].role != "assistant":
            return -1
        # A cache mark on the placeholder belongs on the last remembered message. Messages behind an answer
        # that was removed are merged with it.
        return count + 1 if messages[count] == PLACEHOLDER else -1

    def _write(
        self,
        history: TranslatedHistory,
        asked: Request,
        reading: ContinuedReading,
        fitted: Request,
        fitted_messages: Sequence[Message],
        losses: Losses,
    ) -> ContinuedTranslation | None:
        """`fitted_messages`: those that `reading.messages` became."""
        messages = reading.messages
        sent = self._target.apply_contract(fitted)
        count = count_leading_messages(sent.messages)
        rest = sent.messages[count + len(self._placeholder) :]
        front = FrontWriter(self._facts).update(history.front, asked, sent, count)
        if front is None:
            return None
        sections = list(self._chain)
        self._recall_sample(history, messages)
        section = self.remember(messages, fitted_messages, sent, losses)
        if section is not None:
            sections.append(section)
            rest = rest[self._paths.find_message(rest, section.count) :]
        last = self._encode_messages(sent, rest, losses)
        all_losses = Losses((*losses, *front.losses, *self._front.losses))
        # One join: the head, the items with a comma before all but the first, the tail.
        parts: list[bytes] = []
        for each in sections:
            if each.written:
                parts += (b",", each.written)
            for loss in each.losses:
                all_losses.add(loss.path, loss.reason)
        if last:
            parts += (b",", last)
        body = b"".join((front.head, *parts[1:], front.tail))
        if len(all_losses) >= Losses.LIMIT:
            return None
        sample = self._sample_conversation(history, sections[-1] if sections else None, messages)
        next_history = None
        if sections:
            leading = history.leading if self._section else messages[: count_leading_messages(messages)]
            open_items = LastItems(self._split.items[sections[-1].count :], sample)
            end = merge_sections(sections)
            next_history = replace(history, leading=leading, front=front, end=end, last=open_items)
        return ContinuedTranslation(
            body=body,
            losses=all_losses.as_tuple(),
            outline=self._outline(asked, front, messages),
            sample=front.join_sample(sample),
            history=next_history,
            names=self._front.names,
        )

    def _encode_messages(self, sent: Request, messages: Sequence[Message], losses: Losses) -> bytes:
        """The items of some messages for the target, as JSON without brackets."""
        dialect = dialect_named(self._facts.dialect)
        items = dialect.write_messages(sent, messages, self._facts, losses)
        # The encoder keeps the interpreter from other threads.
        parts = (items[at : at + ENCODED_ITEMS] for at in range(0, len(items), ENCODED_ITEMS))
        return b",".join([encode(part)[1:-1] for part in parts])

    def remember(
        self,
        messages: Sequence[Message],
        fitted_messages: Sequence[Message],
        sent: Request,
        losses: Losses | Sequence[Loss],
    ) -> HistorySection | None:
        """The past turns of the messages; None if there is none, or if what follows could change them.

        `messages` come from the items behind the section before, `fitted_messages` are those after `fit`.
        `sent` is the request that is written.
        """
        index = self._paths.find_open_turn(messages, self._facts)
        count = count_leading_messages(sent.messages)
        if index == 0 or self._has_risen(sent.messages[:count], messages):
            return None
        sent_messages = sent.messages[count + len(self._placeholder) :]
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

    def _has_risen(self, leading: Sequence[Message], messages: Sequence[Message]) -> bool:
        """Whether an instruction of the conversation became a leading one: all before it were removed."""
        if self._section is not None:
            return False
        return self._paths.find_message(leading, count_leading_messages(messages)) < len(leading)

    def _has_no_system_prompt(self, messages: Sequence[Message]) -> bool:
        """Whether no message is a system prompt, which may change: some targets get it as one of the user."""
        return all(not message.at or self._paths.find_index(message.at) >= 0 for message in messages)

    def _outline(self, asked: Request, front: Front, messages: Sequence[Message]) -> Request:
        calls = chain.from_iterable([section.calls for section in self._chain])
        return replace_history(asked, front.outline_tools, (*calls, *outline_blocks(messages)))

    def _recall_sample(self, history: TranslatedHistory, messages: Sequence[Message]) -> None:
        """Note the sample up to the last items of the request before, which are mostly the next section."""
        last, first = history.last, history.end.count
        end = first + len(last.items)
        is_known = self._section is history.end and self._split.items[first:end] == last.items
        if is_known and last.sample is not None:
            self._samples[self._paths.find_message(messages, end)] = last.sample

    def _sample_conversation(
        self, history: TranslatedHistory, end: HistorySection | None, messages: Sequence[Message]
    ) -> PromptSample | None:
        """The token sample of the conversation, of which the messages up to the last section are sampled.

        None if tools are deferred.
        """
        if history.has_deferred_tools:
            return None
        if (known := self._samples.get(len(messages))) is not None:
            return known
        if end is None:
            return sample_messages(messages[count_leading_messages(messages) :])
        following = messages[self._paths.find_message(messages, end.count) :]
        return end.sample + sample_messages(following, end.sample.length)


def _split_ids(messages: Sequence[Message], cut: int) -> frozenset[str] | None:
    """The ids before a position; None if a message behind it has one of them."""
    ids = frozenset(list_ids(messages[:cut]))
    return ids if ids.isdisjoint(list_ids(messages[cut:])) else None


def _is_cut_clean(messages: Sequence[Message], cut: int, answer: Message) -> bool:
    """Whether the answer at the cut was not removed: the messages around a removed one may be merged."""
    return cut < len(messages) and messages[cut].at == answer.at
