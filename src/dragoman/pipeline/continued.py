"""Translates a request that continues a conversation, and reuses what was made of its earlier items.

The request is read, fitted and written without the remembered turns: a placeholder message of the user stands
for them. Then their JSON is put in its place. The result equals that of a whole translation, because

- the translation of a past turn does not depend on what follows it: a longer conversation begins with the
  bytes of a shorter one. The last turns, which this does not hold for, are never remembered;
- the translation of the turns behind the remembered ones does not depend on them. `_Continuation` checks what
  could connect them: ids, calls without a result, tools that only the history names, cache marks.

If one of these checks fails, the request is translated as a whole. Everything here is pure.
"""

from collections.abc import Sequence

import msgspec

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.fit.front import FittedFront, can_continue, fit_continued, fit_front
from dragoman.hub.blocks import CacheMark, Opaque, Text
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Message, Request
from dragoman.pipeline.history import (
    OVERHEAD,
    ConversationMemo,
    Front,
    HistorySection,
    ItemPaths,
    SplitBody,
    TranslatedHistory,
    are_calls_answered,
    has_mark,
    list_ids,
)
from dragoman.pipeline.kept_texts import KeptTexts
from dragoman.pipeline.outline import outline_blocks, replace_history, strip_tools
from dragoman.pipeline.reading import ContinuedReading, RequestSource, read_continued
from dragoman.providers.profile import TargetFacts
from dragoman.tokens.request import (
    SMALL_PROMPT,
    PromptSample,
    count_leading_messages,
    sample_front,
    sample_messages,
)
from dragoman.tokens.tokenizers import OVERHEADS, ToolsForm, find_tokenizer
from dragoman.wire.fields import encode

#: The path of the placeholder. No path of a client's body contains a space.
PLACEHOLDER = "remembered turns"


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


def find_tools_form(facts: TargetFacts) -> ToolsForm:
    """The form in which the target's model sees tools."""
    return OVERHEADS[find_tokenizer(facts.model, facts.dialect)].tools_as


def begin_history(
    split: SplitBody,
    source: RequestSource,
    facts: TargetFacts,
    request: Request,
    fitted: Request,
    losses: Sequence[Loss],
) -> TranslatedHistory | None:
    """What to remember of a request that was translated as a whole; None if it has nothing to remember.

    `request` and `fitted` are the whole request before and after `fit`, `losses` those of its translation.
    """
    paths = ItemPaths(dialect_named(source.dialect).history.conversation)
    index = paths.find_open_turn(request.messages, facts)
    # Of too many losses some are missing: those of the history could be among them.
    if index == 0 or len(losses) >= Losses.LIMIT:
        return None
    front = fit_front(request, facts)
    if not can_continue(front, facts):
        return None
    first = paths.find_message(request.messages, 0)
    begun = _Continuation(split, source, facts, front, None)
    count = count_leading_messages(fitted.messages)
    section = begun.remember(index, request.messages[first:], fitted, fitted.messages[count:], losses)
    if section is None:
        return None
    items = request.messages[first:]
    written = begun.build_front(request, fitted, fitted.messages[:count])
    if written is None:
        return None
    return TranslatedHistory(
        facts=facts,
        values=split.values,
        front=written,
        leading=items[: count_leading_messages(items)],
        end=section,
        memo=ConversationMemo({find_tools_form(facts): written.sample}),
    )


def continue_history(
    history: TranslatedHistory,
    split: SplitBody,
    source: RequestSource,
    facts: TargetFacts,
    known: ContinuedReading | None = None,
) -> ContinuedTranslation | None:
    """Translate a request with the remembered turns that it begins with; None if that is not possible.

    `known`: what was read of the request before, behind these or other turns.
    """
    is_valid = history.values == split.values and history.facts == facts
    section = history.find_section(split.items) if is_valid else None
    if section is None:
        return None
    try:
        if known is None or known.section is not section:
            known = read_continued(history, section, split, source)
        if known is None:
            return None
        return _Continuation(split, source, facts, history.front.fitted, known).translate(history, known)
    except (DragomanError, RecursionError):
        # The whole translation finds the same fault, and names the first one.
        return None


_PLACEHOLDER = Message(role="user", blocks=(Text(text=PLACEHOLDER),), at=PLACEHOLDER)
_MARKED_PLACEHOLDER = Message(
    role="user", blocks=(Text(text=PLACEHOLDER, cache=CacheMark()),), at=PLACEHOLDER
)


def _replace_messages(fitted: Request, messages: tuple[Message, ...]) -> Request:
    """The request with other messages, and without what only a writer of the client's dialect uses."""
    return msgspec.structs.replace(fitted, messages=messages, extras={}, form="")


class _Continuation:
    """The translation of the items behind a remembered section; `reading` is None at the beginning."""

    def __init__(
        self,
        split: SplitBody,
        source: RequestSource,
        facts: TargetFacts,
        front: FittedFront,
        reading: ContinuedReading | None,
    ) -> None:
        self._split = split
        self._dialect = dialect_named(source.dialect)
        self._target: Dialect = dialect_named(facts.dialect)
        self._paths = ItemPaths(self._dialect.history.conversation)
        self._facts = facts
        self._front = front
        self._section = reading.section if reading else None
        self._chain = reading.chain if reading else []
        self._ids = reading.ids if reading else frozenset[str]()

    def translate(self, history: TranslatedHistory, reading: ContinuedReading) -> ContinuedTranslation | None:
        losses, messages = Losses(reading.losses), reading.messages
        asked = msgspec.structs.replace(
            reading.request,
            tools=history.front.tools,
            messages=(*reading.system, _PLACEHOLDER, *messages),
        )
        check_rules(asked, self._dialect.request_rules)
        fitted = fit_continued(asked, self._front, self._facts, losses)
        count = self._find_placeholder(fitted.messages)
        if count < 0 or not self._ids.isdisjoint(list_ids(fitted.messages[count + 1 :])):
            return None
        return self._write(history, asked, messages, fitted, count, losses)

    def _find_placeholder(self, messages: Sequence[Message]) -> int:
        """The position of the placeholder, behind the instructions and before an answer; -1: it changed."""
        count = count_leading_messages(messages)
        if count + 1 >= len(messages) or messages[count + 1].role != "assistant":
            return -1
        # A cache mark on the placeholder belongs on the last remembered message. Messages behind an answer
        # that was removed are merged with it.
        return count if messages[count] == _PLACEHOLDER else -1

    def _write(
        self,
        history: TranslatedHistory,
        asked: Request,
        messages: Sequence[Message],
        fitted: Request,
        count: int,
        losses: Losses,
    ) -> ContinuedTranslation | None:
        rest = fitted.messages[count + 1 :]
        front = self._update_front(history.front, asked, fitted, fitted.messages[:count])
        if front is None:
            return None
        chain = list(self._chain)
        index = self._paths.find_open_turn(messages, self._facts)
        section = self.remember(index, messages, fitted, rest, losses) if index else None
        if section is not None:
            chain.append(section)
            rest = rest[self._paths.find_message(rest, index) :]
        written = [each.written for each in chain if each.written]
        last = self._encode_messages(fitted, rest, losses)
        body = b"".join((front.head, b",".join([*written, last] if last else written), front.tail))
        all_losses = Losses(losses)
        for part in (front.losses, self._front.losses, *(each.losses for each in chain)):
            for loss in part:
                all_losses.add(loss.path, loss.reason)
        end = chain[-1]
        if len(all_losses) >= Losses.LIMIT or not written:
            return None
        return ContinuedTranslation(
            body=body,
            losses=all_losses.as_tuple(),
            outline=self._outline(asked, front, messages),
            sample=self._join_samples(front, end, messages),
            history=msgspec.structs.replace(history, front=front, end=end),
        )

    def _encode_messages(self, fitted: Request, messages: Sequence[Message], losses: Losses) -> bytes:
        """The items of some fitted messages, as JSON without brackets."""
        return encode(self._target.write_messages(fitted, messages, self._facts, losses))[1:-1]

    def remember(
        self,
        index: int,
        messages: Sequence[Message],
        fitted: Request,
        fitted_messages: Sequence[Message],
        losses: Losses | Sequence[Loss],
    ) -> HistorySection | None:
        """The turns before the item with this index; None if what follows could change them.

        `messages` come from the items behind the section before, and `fitted_messages` are those after `fit`.
        """
        position = self._paths.find_message(messages, index)
        closed, following = messages[:position], messages[position:]
        ids = self._ids.union(list_ids(closed))
        cut = self._paths.find_message(fitted_messages, index)
        written_messages = fitted_messages[:cut]
        if not self._is_closed(closed) or not self._front.covers(closed):
            return None
        if not ids.isdisjoint(list_ids(following)) or not self._is_cut_clean(fitted_messages, cut, index):
            return None
        if has_mark(closed) or has_mark(written_messages) or not self._is_spoken(written_messages):
            return None
        own = Losses()
        written = self._encode_messages(fitted, written_messages, own)
        for loss in losses:
            if 0 <= self._paths.find_index(loss.path) < index:
                own.add(loss.path, loss.reason)
        first = self._section.count if self._section else 0
        before = self._section.sample if self._section else PromptSample()
        kept = self._section.kept if self._section else KeptTexts()
        items = self._split.items[first:index]
        size = sum(map(len, items)) + len(written) + OVERHEAD * (1 + len(items))
        spoken = closed[count_leading_messages(closed) :] if self._section is None else closed
        return HistorySection(
            before=self._section,
            items=items,
            count=index,
            written=written,
            calls=tuple(outline_blocks(closed)),
            ids=frozenset((*list_ids(closed), *list_ids(written_messages))),
            losses=own.as_tuple(),
            size=size + (self._section.size if self._section else 0),
            sample=before + sample_messages(spoken, before.length),
            kept=kept.extend(spoken),
        )

    def _is_closed(self, messages: Sequence[Message]) -> bool:
        """Whether nothing in the messages waits for a later message or changes the settings.

        Items that only their vendor knows may change settings (`configuration_update` of OpenAI).
        """
        is_plain = not any(type(block) is Opaque for message in messages for block in message.blocks)
        return is_plain and are_calls_answered(messages)

    def _is_spoken(self, messages: Sequence[Message]) -> bool:
        """Whether no message is a system prompt, which may change: some targets get it as one of the user."""
        return all(not message.at or self._paths.find_index(message.at) >= 0 for message in messages)

    def _is_cut_clean(self, messages: Sequence[Message], cut: int, index: int) -> bool:
        """Whether an answer begins at the cut, and no message crosses it: they were merged otherwise."""
        if (
            not 0 < cut < len(messages)
            or messages[cut].role != "assistant"
            or messages[cut - 1].role == "assistant"
        ):
            return False
        indexes = [self._paths.find_index(message.at) for message in messages[cut:]]
        return all(each < 0 or each >= index for each in indexes)

    def build_front(self, request: Request, fitted: Request, leading: Sequence[Message]) -> Front | None:
        """The front of a conversation that begins; None if cache marks in the conversation change it."""
        system = request.messages[: count_leading_messages(request.messages)]
        plain = _replace_messages(fitted, (*leading, _PLACEHOLDER))
        written = self._write_front(plain)
        if written is None:
            return None
        head, tail, losses = written
        return Front(
            tools=request.tools,
            outline_tools=strip_tools(request.tools),
            fitted=self._front,
            request=plain,
            head=head,
            tail=tail,
            losses=losses,
            # Without tools that open messages declare: an undo removes them.
            sample=sample_front(_replace_messages(request, ()), find_tools_form(self._facts)),
            system=system,
            system_sample=sample_messages(system),
        )

    def _update_front(
        self, front: Front, asked: Request, fitted: Request, leading: Sequence[Message]
    ) -> Front | None:
        """The front of this request: the same, unless a setting or a system prompt differs.

        None if cache marks in the conversation change it.
        """
        system = asked.messages[: count_leading_messages(asked.messages)]
        if system != front.system:
            front = msgspec.structs.replace(front, system=system, system_sample=sample_messages(system))
        request = _replace_messages(fitted, (*leading, _PLACEHOLDER))
        if request == front.request:
            return front
        written = self._write_front(request)
        if written is None:
            return None
        head, tail, losses = written
        return msgspec.structs.replace(front, request=request, head=head, tail=tail, losses=losses)

    def _write_front(self, request: Request) -> tuple[bytes, bytes, tuple[Loss, ...]] | None:
        """The JSON before and after the conversation, and the losses of writing it.

        None if cache marks in the conversation change it. The last message is the placeholder.
        """
        head, tail, losses = self._write_around(request)
        marked = msgspec.structs.replace(request, messages=(*request.messages[:-1], _MARKED_PLACEHOLDER))
        return (head, tail, losses) if (head, tail) == self._write_around(marked)[:2] else None

    def _write_around(self, request: Request) -> tuple[bytes, bytes, tuple[Loss, ...]]:
        """The JSON before and after the placeholder, and the losses of writing it."""
        losses = Losses()
        body = self._target.write_request(request, self._facts, losses)
        member = self._target.history.conversation
        names = list(body)
        place = names.index(member)
        leading = encode(body[member])
        # The placeholder is the last item.
        items = encode(self._target.write_messages(request, request.messages[-1:], self._facts, losses))
        before = encode({name: body[name] for name in names[:place]})[1:-1]
        after = encode({name: body[name] for name in names[place + 1 :]})[1:]
        head = b"{%b%b:%b" % (before + b"," if before else b"", encode(member), leading[: 1 - len(items)])
        return head, (b"]," if len(after) > 1 else b"]") + after, losses.as_tuple()

    def _outline(self, asked: Request, front: Front, messages: Sequence[Message]) -> Request:
        calls = [block for section in self._chain for block in section.calls]
        return replace_history(asked, front.outline_tools, (*calls, *outline_blocks(messages)))

    def _join_samples(
        self, front: Front, end: HistorySection, messages: Sequence[Message]
    ) -> PromptSample | None:
        """The token sample of the whole prompt, joined from remembered and new parts.

        None if tools are deferred, or if the prompt is so small that all of it is sampled.
        """
        if any(tool.deferred for tool in front.tools):
            return None
        following = messages[self._paths.find_message(messages, end.count) :]
        sample = front.sample + front.system_sample + end.sample
        sample += sample_messages(following, end.sample.length)
        return sample if sample.length > SMALL_PROMPT else None
