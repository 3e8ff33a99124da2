"""Reads a request that continues a conversation, without its remembered steps.

`read_continued` reads the settings and the new messages. `AbridgedRequest` adds what is remembered of the
other messages, so that rules get the same answers as from the whole request.
"""

from collections.abc import Iterable, Sequence

import msgspec

from dragoman.agents.instructions import Instructions
from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import DragomanError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, has_image
from dragoman.pipeline.history import HistorySection, ItemPaths, SplitBody, TranslatedHistory, list_ids
from dragoman.tokens.request import SMALL_PROMPT, PromptSample, sample_front, sample_messages
from dragoman.tokens.tokenizers import ToolsForm
from dragoman.wire.fields import ArrayTail, decode

TOOLS = "tools"


class RequestSource(msgspec.Struct, frozen=True):
    """What the request's reader needs besides the body. Model and `stream` are those of the URL."""

    dialect: str
    model: str
    stream: bool


class ContinuedReading(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request without its tools and remembered steps."""

    section: HistorySection
    chain: list[HistorySection]
    #: The ids of all calls and results of the remembered steps.
    ids: frozenset[str]
    #: The settings.
    request: Request
    #: The system prompts, and the messages behind the remembered steps.
    system: tuple[Message, ...]
    messages: tuple[Message, ...]
    losses: Losses


def read_continued(
    history: TranslatedHistory, section: HistorySection, split: SplitBody, source: RequestSource
) -> ContinuedReading | None:
    """Read what stands behind a remembered section; None if it is connected with the remembered steps."""
    losses = Losses()
    request = _read_items(source, split.members.items(), split.items[section.count :], section.count, losses)
    first = ItemPaths(dialect_named(source.dialect).history.conversation).find_message(request.messages, 0)
    messages = request.messages[first:]
    chain = section.list_chain()
    ids = frozenset[str]().union(*(each.ids for each in chain))
    if not messages or messages[0].role != "assistant":
        return None
    if not history.front.fitted.covers(messages) or not ids.isdisjoint(list_ids(messages)):
        return None
    return ContinuedReading(
        section=section,
        chain=chain,
        ids=ids,
        request=request,
        system=(*request.messages[:first], *history.leading),
        messages=messages,
        losses=losses,
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
    body: Json = {name: decode(bytes(raw), depth=0) for name, raw in members if name != TOOLS}
    decoded = [decode(item, depth=0) for item in items]
    body[dialect.history.conversation] = ArrayTail(decoded, first)
    return dialect.read_request(body, losses, model=source.model, stream=source.stream)


class AbridgedRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request without those messages of its history that no rule can ask about."""

    history: TranslatedHistory
    reading: ContinuedReading
    #: With all system prompts, the texts before the first answer, and the last answer with what follows it.
    request: Request
    has_images: bool

    def find_instructions(self) -> Instructions:
        """The instructions, with what was found in them when earlier requests had the same."""
        instructions = Instructions(self.request)
        memo = self.history.memo
        if memo.instructions is None or not memo.instructions.has_texts_of(instructions):
            memo.instructions = instructions
            return instructions
        return memo.instructions

    def sample(self, form: ToolsForm) -> PromptSample | None:
        """The sample of the whole prompt; None if it must be taken from the whole request.

        That is so for a short prompt, and where the conversation decides which tools count.
        """
        front, reading = self.history.front, self.reading
        samples = self.history.memo.samples
        if any(tool.deferred for tool in front.tools):
            return None
        if form not in samples:
            samples[form] = sample_front(self.request, form)
        is_same = reading.system == front.system
        system = front.system_sample if is_same else sample_messages(reading.system)
        before = reading.section.sample
        sample = samples[form] + system + before + sample_messages(reading.messages, before.length)
        return sample if sample.length > SMALL_PROMPT else None


def abridge_request(
    history: TranslatedHistory, split: SplitBody, source: RequestSource
) -> AbridgedRequest | None:
    """Read a request that continues a conversation; None if it must be read as a whole."""
    section = history.find_section(split.items) if history.values == split.values else None
    if section is None:
        return None
    try:
        reading = read_continued(history, section, split, source)
    except (DragomanError, RecursionError):
        # Reading the whole request finds the same fault, and names the first one.
        return None
    if reading is None:
        return None
    known = (*reading.system, *section.kept.list_messages(), *reading.messages)
    return AbridgedRequest(
        history=history,
        reading=reading,
        request=msgspec.structs.replace(reading.request, tools=history.front.tools, messages=known),
        has_images=section.kept.has_images or any(map(has_image, reading.messages)),
    )
