"""Reads a request that continues a conversation, without its remembered turns.

`read_continued` reads the settings and the new messages. `AbridgedRequest` adds what is remembered of the
other messages, so that rules get the same answers as from the whole request. A conversation that is not
translated is remembered by `begin_reading` and `extend_reading`, as soon as rules have asked for its body.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.agents.instructions import Instructions
from dragoman.dialects.forwarding import Members
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import Media, Opaque, ToolDeclarations
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, find_block_kinds, has_image
from dragoman.pipeline.front import OVERHEAD
from dragoman.pipeline.history import (
    OPEN_MARKED_TURNS,
    ConversationMemo,
    ItemPaths,
    ReadHistory,
    ReadSection,
    find_section,
    list_answers,
)
from dragoman.pipeline.kept_texts import KeptTexts, measure_texts
from dragoman.pipeline.split_body import KnownBody, SplitBody, UnreadText, know_body
from dragoman.tokens.request import (
    SMALL_PROMPT,
    SYSTEM_ROLES,
    PromptSample,
    count_leading_messages,
    sample_front,
    sample_messages,
)
from dragoman.tokens.tokenizers import ToolsForm
from dragoman.wire.fields import ArrayTail, decode

TOOLS = "tools"
#: Bytes of the tools that tell whether there are any.
FIRST_BYTES = 64
#: So many of the last places where a section may end are ends of one, when a conversation is first read.
SEPARATE_ENDS = 3
#: System prompts are in memory as messages, and once more in what rules find in them.
SYSTEM_FACTOR = 2


#: Bytes of the items that have a cache mark. Agents move their marks with each request.
CACHE_MARK = b'"cache_'
#: Before the first item of a conversation.
NO_SECTION = ReadSection(before=None, items=(), count=0, sample=PromptSample(), kept=None, size=0)


class RequestSource(msgspec.Struct, frozen=True):
    """What the request's reader needs besides the body. Model and `stream` are those of the URL."""

    dialect: str
    model: str
    stream: bool


class ContinuedReading(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request without its tools and remembered turns."""

    #: The last remembered section that the request begins with.
    section: ReadSection
    #: The settings.
    request: Request
    #: The system prompts, and the messages behind the remembered turns.
    system: tuple[Message, ...]
    messages: tuple[Message, ...]
    losses: Losses
    #: The token samples of the conversation before each of the last answers, and of all of it, by the number
    #: of these messages; empty until rules ask for tokens.
    samples: dict[int, PromptSample]

    def sample(self) -> PromptSample:
        """The token sample of the conversation."""
        samples = self.samples
        if not samples:
            total, first = self.section.sample, 0
            for end in (*list_answers(self.messages)[-OPEN_MARKED_TURNS:], len(self.messages)):
                total += sample_messages(self.messages[first:end], total.length)
                samples[end] = total
                first = end
        return samples[len(self.messages)]


def read_continued(
    history: ReadHistory,
    section: ReadSection,
    split: SplitBody,
    source: RequestSource,
    known: KnownBody | None = None,
) -> ContinuedReading | None:
    """Read what stands behind a remembered section; None if it does not begin with an answer.

    The section before the first item is empty. `known`: the body is a next one of this. Then the members that
    nothing depends on are not read.
    """
    losses = Losses()
    members = split.members.items() if known is None else zip(split.names, split.values, strict=True)
    request = _read_items(source, members, split.items[section.count :], section.count, losses)
    first = ItemPaths(dialect_named(source.dialect).history.conversation).find_message(request.messages, 0)
    messages = request.messages[first:]
    if not messages or (section.count and messages[0].role != "assistant"):
        return None
    return ContinuedReading(
        section=section,
        request=request,
        system=(*(known.system if known else request.messages[:first]), *history.leading),
        messages=messages,
        losses=losses,
        samples={},
    )


def divide_request(
    request: Request, losses: Losses, section: ReadSection, source: RequestSource
) -> ContinuedReading:
    """The same for a request that was read as a whole. `losses` are those of reading it."""
    first = ItemPaths(dialect_named(source.dialect).history.conversation).find_message(request.messages, 0)
    return ContinuedReading(
        section=section,
        request=request,
        system=request.messages[:first],
        messages=request.messages[first:],
        losses=losses,
        samples={},
    )


def read_remembered(
    source: RequestSource, members: Iterable[tuple[str, bytes]], items: Sequence[bytes]
) -> tuple[Message, ...]:
    """The messages of remembered items. `members`: those that the items' translation depends on."""
    return _read_items(source, members, items, 0, Losses()).messages


def _read_items(
    source: RequestSource,
    members: Iterable[tuple[str, bytes | msgspec.Raw]],
    items: Sequence[bytes],
    first: int,
    losses: Losses,
) -> Request:
    """Read a body without its tools. `first` is the index of the first item in the whole conversation."""
    dialect = dialect_named(source.dialect)
    read = [(name, bytes(raw)) for name, raw in members if name != TOOLS or not _has_object(raw)]
    body: Json = {name: decode(raw, depth=0) for name, raw in read}
    decoded = [decode(item, depth=0) for item in items]
    body[dialect.history.conversation] = ArrayTail(decoded, first)
    return dialect.read_request(body, losses, model=source.model, stream=source.stream)


def _has_object(raw: bytes | msgspec.Raw) -> bool:
    """Whether there is an object at the beginning of an array. An empty array stays in the extras."""
    return b"{" in bytes(memoryview(raw)[:FIRST_BYTES])


class AbridgedRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request that continues a conversation, with what is kept of the other messages for rules."""

    history: ReadHistory
    reading: ContinuedReading
    kept: KeptTexts
    #: The kinds of blocks in the new messages.
    kinds: set[type]

    @property
    def has_images(self) -> bool:
        new = self.reading.messages if Media in self.kinds else ()
        return self.kept.has_images or any(map(has_image, new))

    def find_instructions(self) -> Instructions:
        """The instructions, with what was found in them when earlier requests had the same."""
        memo, reading = self.history.memo, self.reading
        is_begun = self.kept.last_user is not None
        new = [each for each in reading.messages if not is_begun or each.role in SYSTEM_ROLES]
        texts = (*reading.system, *self.kept.messages, *new)
        # Large requests are read in threads, and those of one conversation share the memo.
        known = memo.instructions
        if known is None or known[0] != texts:
            messages = (*reading.system, *self.kept.messages, *reading.messages)
            known = memo.instructions = texts, Instructions(messages)
        return known[1]

    def sample(self, form: ToolsForm) -> PromptSample | None:
        """The sample of the whole prompt; None if it must be taken from the whole request.

        That is so for a short prompt, and where the conversation decides which tools count.
        """
        if self.history.has_deferred_tools:
            return None
        memo, system = self.history.memo, self.reading.system
        known = memo.samples.get(form)
        if known is None or known[0] != system:
            front = msgspec.structs.replace(self.reading.request, tools=self.history.tools, messages=())
            known = memo.samples[form] = system, sample_front(front, form) + sample_messages(system)
        sample = known[1] + self.reading.sample()
        return sample if sample.length > SMALL_PROMPT else None


def abridge_request(
    history: ReadHistory, split: SplitBody, source: RequestSource, known: KnownBody | None
) -> AbridgedRequest | None:
    """Read a request that continues a conversation; None if it must be read as a whole.

    `known`: the body is a next one of this, which is that of the history.
    """
    section: ReadSection | None = history.end
    if known is None:
        section = find_section(history.end, split.items) if history.values == split.values else None
    if section is None or section.kept is None:
        return None
    try:
        reading = read_continued(history, section, split, source, known)
    except (DragomanError, RecursionError):
        # Reading the whole request finds the same fault, and names the first one.
        return None
    kinds = find_block_kinds(reading.messages) if reading else set()
    if reading is None or ToolDeclarations in kinds:
        return None
    return AbridgedRequest(history=history, reading=reading, kept=section.kept, kinds=kinds)


def abridge_beginning(other: ReadHistory, split: SplitBody, source: RequestSource) -> AbridgedRequest | None:
    """Read a request that begins a conversation; None if it must be read as a whole.

    `other` is a conversation of the same caller. Its tools are not read again.
    """
    if other.values != split.values or other.end.kept is None:
        return None
    memo, nothing = other.memo.copy_front(), msgspec.structs.replace(NO_SECTION, kept=KeptTexts())
    begun = msgspec.structs.replace(other, leading=(), end=nothing, memo=memo, body=None, system_size=0)
    abridged = abridge_request(begun, split, source, None)
    if abridged is None:
        return None
    reading = abridged.reading
    count = count_leading_messages(reading.messages)
    leading, messages = reading.messages[:count], reading.messages[count:]
    return msgspec.structs.replace(
        abridged,
        history=msgspec.structs.replace(begun, leading=leading),
        reading=msgspec.structs.replace(reading, system=(*reading.system, *leading), messages=messages),
    )


def begin_reading(
    body: bytes, members: Members, split: SplitBody, source: RequestSource, request: Request
) -> ReadHistory | None:
    """What to remember for rules of a request that was read as a whole; None if that is nothing."""
    fields = dialect_named(source.dialect).history
    paths = ItemPaths(fields.conversation)
    first_item = paths.find_message(request.messages, 0)
    system, messages = request.messages[:first_item], request.messages[first_item:]
    section: ReadSection | None = None
    # Agents may change the last messages with the next request: these are sections of their own.
    for end in paths.list_ends(messages, len(split.items))[-SEPARATE_ENDS:]:
        first = paths.find_message(messages, section.count) if section else 0
        closed = messages[first : paths.find_message(messages, end)]
        section = _close_section(section, closed, split.items[:end], None) or section
    if section is None:
        return None
    leading = messages[: count_leading_messages(messages)]
    return ReadHistory(
        values=split.values,
        tools=request.tools,
        has_deferred_tools=any(tool.deferred for tool in request.tools),
        leading=leading,
        end=section,
        memo=ConversationMemo(),
        body=know_body(body, members, split, fields, section.count, system),
        system_size=SYSTEM_FACTOR * measure_texts((*system, *leading)),
    )


def begin_unread(
    body: bytes, members: Members, split: SplitBody, source: RequestSource, lasting: tuple[bytes, ...]
) -> ReadHistory | None:
    """What to remember of a body that was searched and not read; None if that is nothing.

    `lasting`: its first items (`list_lasting`).
    """
    known = know_body(body, members, split, dialect_named(source.dialect).history, 0, ())
    if known is None:
        return None
    return ReadHistory(
        values=split.values,
        tools=(),
        has_deferred_tools=False,
        leading=(),
        end=NO_SECTION,
        memo=ConversationMemo(),
        body=known.add_items(lasting, UnreadText()),
    )


def list_lasting(items: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The first of these items, which the next request probably repeats: all before a cache mark."""
    marked = (at for at, item in enumerate(items) if item.rfind(CACHE_MARK) >= 0)
    return items[: next(marked, len(items))]


def extend_reading(
    body: bytes,
    members: Members,
    abridged: AbridgedRequest,
    split: SplitBody,
    source: RequestSource,
    known: KnownBody | None,
) -> ReadHistory | None:
    """The remembered history, extended by the complete messages of this request.

    `known`: the body is a next one of this. None if there is no complete message, or if a later message may
    change how they are read.
    """
    fields = dialect_named(source.dialect).history
    paths = ItemPaths(fields.conversation)
    history, reading = abridged.history, abridged.reading
    ends = paths.list_ends(reading.messages, len(split.items))
    if not ends:
        return None
    position = paths.find_message(reading.messages, ends[-1])
    closed, sample = reading.messages[:position], reading.samples.get(position)
    section = _close_section(reading.section, closed, split.items[: ends[-1]], sample)
    if section is None:
        return None
    if known is None:
        system = reading.system[: len(reading.system) - len(history.leading)]
        known = know_body(body, members, split, fields, section.count, system)
    else:
        known = known.extend(split.items[: section.count])
    system_size = SYSTEM_FACTOR * measure_texts(reading.system)
    return msgspec.structs.replace(history, end=section, body=known, system_size=system_size)


def _close_section(
    before: ReadSection | None,
    messages: Sequence[Message],
    items: tuple[bytes, ...],
    sample: PromptSample | None,
) -> ReadSection | None:
    """The section of these messages, which stand behind the section before.

    `items`: all from the beginning on. `sample`: that of all their messages, if it is known. None if a later
    message may change how they are read: a part of an answer, an item that only its vendor knows. None also
    if they declare tools.
    """
    kinds = find_block_kinds(messages)
    if not messages or messages[-1].role == "assistant" or not kinds.isdisjoint((Opaque, ToolDeclarations)):
        return None
    kept = before.kept if before else KeptTexts()
    conversation = messages[count_leading_messages(messages) :] if before is None else messages
    if sample is None:
        sample = before.sample if before else PromptSample()
        sample += sample_messages(conversation, sample.length)
    own_items = items[before.count if before else 0 :]
    size = sum(map(len, own_items)) + OVERHEAD * (1 + len(own_items))
    return ReadSection(
        # Nothing can be read behind an empty section but the whole conversation.
        before=before if before is not None and before.count else None,
        items=own_items,
        count=len(items),
        sample=sample,
        kept=kept.extend(conversation) if kept else None,
        size=size + (before.size if before else 0),
    )
