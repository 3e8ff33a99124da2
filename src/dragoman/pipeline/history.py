"""The history of a conversation: what earlier items of its body became.

An item is an element of the array that holds the conversation: a message, an input item or a content. A
*past turn* is an answer of the model and what follows it, up to the next answer. Agents send all past turns
again with every request, so a `TranslatedHistory` has the translation of all but the last.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain as iterables
from itertools import pairwise
from typing import Self, TypeVar

import msgspec

from dragoman.agents.instructions import Instructions
from dragoman.hub.blocks import AnyBlock, Opaque, Tool, ToolCall, ToolResult
from dragoman.hub.loss import Loss
from dragoman.hub.request import Message
from dragoman.pipeline.front import TOOL_FACTOR, Front
from dragoman.pipeline.kept_texts import KeptTexts
from dragoman.pipeline.split_body import KnownBody
from dragoman.providers.profile import TargetFacts
from dragoman.tokens.request import PromptSample
from dragoman.tokens.tokenizers import ToolsForm

#: Past turns at the end that are translated anew, because passes for the end of a conversation change them:
#: the last one. A target with cache marks has them on the last two messages of the user.
OPEN_TURNS = 1
OPEN_MARKED_TURNS = 2


#: A conversation with more sections gets fewer, of which so many stay as they are.
MOST_SECTIONS = 16
SEPARATE_SECTIONS = 8

#: Longer paths contain names that clients choose.
LONGEST_KEPT_PATH = 64


class ReadSection(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One remembered section of a conversation: some past turns, linked to the section before."""

    before: "Self | None"
    #: The client's items, and their number including those before.
    items: tuple[bytes, ...]
    count: int
    #: The sample for token estimates, including the sections before.
    sample: PromptSample
    #: What rules need of the messages, including the sections before. None: no rule asked for the body.
    kept: KeptTexts | None
    #: The bytes in memory, including the sections before.
    size: int

    def list_chain(self) -> "list[Self]":
        """All sections from the first to this one."""
        chain: list[Self] = []
        section: Self | None = self
        while section is not None:
            chain.append(section)
            section = section.before
        chain.reverse()
        return chain


class HistorySection(ReadSection, frozen=True, kw_only=True, eq=False):
    """One remembered section of a translated conversation."""

    #: The ids of all calls and results: the client's and the target's.
    ids: frozenset[str]
    #: The items for the target, as JSON without the brackets.
    written: bytes
    #: The calls, as the outline of a request has them.
    calls: tuple[AnyBlock, ...]
    losses: tuple[Loss, ...]


def merge_sections(chain: list[HistorySection]) -> HistorySection:
    """The last section of the same history, in few sections: every request looks at each of them.

    The last ones stay separate, so that an undo of some turns finds its section.
    """
    if len(chain) <= MOST_SECTIONS:
        return chain[-1]
    old = chain[:-SEPARATE_SECTIONS]
    merged = msgspec.structs.replace(
        old[-1],
        before=None,
        items=tuple(iterables.from_iterable(each.items for each in old)),
        written=b",".join([each.written for each in old if each.written]),
        ids=frozenset[str]().union(*(each.ids for each in old)),
        calls=tuple(iterables.from_iterable(each.calls for each in old)),
        losses=tuple(iterables.from_iterable(each.losses for each in old)),
    )
    for each in chain[-SEPARATE_SECTIONS:]:
        merged = msgspec.structs.replace(each, before=merged)
    return merged


class ConversationMemo:
    """What was computed for rules from a conversation's beginning. Later requests need the same."""

    def __init__(self) -> None:
        #: The last system prompts, and the sample of these, the settings and the tools.
        self.samples: dict[ToolsForm, tuple[tuple[Message, ...], PromptSample]] = {}
        self.wants_web_search: bool | None = None
        #: The messages with instructions, and what was found in these.
        self.instructions: tuple[tuple[Message, ...], Instructions] | None = None

    def copy_front(self) -> "ConversationMemo":
        """What another conversation with the same front needs too."""
        copied = ConversationMemo()
        copied.samples.update(self.samples)
        copied.wants_web_search = self.wants_web_search
        return copied


Section = TypeVar("Section", bound=ReadSection)


def find_section(end: Section, items: Sequence[bytes]) -> Section | None:
    """The last section up to `end` whose items are the same, and at least one item follows; None: none is."""
    found: Section | None = None
    start = 0
    for section in end.list_chain():
        if section.count >= len(items) or tuple(items[start : section.count]) != section.items:
            break
        found, start = section, section.count
    return found


class ReadHistory(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is remembered of one conversation as it was read.

    It is valid for requests with the same values (`SplitBody.values`).
    """

    values: tuple[bytes, ...]
    #: The tools, and whether some are deferred: then the conversation decides which of them count.
    tools: tuple[Tool, ...]
    has_deferred_tools: bool
    #: The instructions at the beginning of the items.
    leading: tuple[Message, ...]
    end: ReadSection
    memo: ConversationMemo
    #: What the next body begins and ends with, up to the end of the last section. None: it is not known.
    body: KnownBody | None = None
    #: The bytes in memory of the system prompts, as messages and in `memo`.
    system_size: int = 0

    @property
    def size(self) -> int:
        """The bytes in memory."""
        front = (1 + TOOL_FACTOR) * sum(map(len, self.values)) + self.system_size
        return front + self.conversation_size + (self.body.size if self.body else 0)

    @property
    def conversation_size(self) -> int:
        kept = self.end.kept
        return self.end.size + (kept.size if kept else 0)


class LastItems(msgspec.Struct, frozen=True, eq=False):
    """The items behind the last section, and the token sample of the conversation up to their end."""

    items: tuple[bytes, ...] = ()
    sample: PromptSample | None = None


class TranslatedHistory(ReadHistory, frozen=True, kw_only=True, eq=False):
    """What is remembered of one conversation with one target. It is valid for the same facts."""

    facts: TargetFacts
    front: Front
    end: HistorySection
    last: LastItems = LastItems()

    @property
    def size(self) -> int:
        """The bytes in memory, without the tools (`front.tools_size`)."""
        own = self.front.size + sum(map(len, (*self.values, *self.last.items))) + self.conversation_size
        return own + (self.body.size if self.body else 0)


class ItemPaths:
    """Paths of items in the client's body, such as `messages[3].content[1]`."""

    def __init__(self, member: str) -> None:
        self._prefix = f"{member}["

    def find_index(self, path: str) -> int:
        """The index of the item that a path leads to or into; -1 for other paths."""
        find = _find_index if len(path) <= LONGEST_KEPT_PATH else _find_index.__wrapped__
        return find(self._prefix, path)

    def find_open_turn(self, messages: Sequence[Message], facts: TargetFacts) -> int:
        """The index of the first item that must stay open; 0 if all must.

        These are the last turns, and all from the first cache mark on: agents move their marks with each
        request, and the marks of a request are one loss.
        """
        count = OPEN_MARKED_TURNS if facts.caching == "breakpoints" else OPEN_TURNS
        starts = self._list_starts(messages)
        return max(self._select_unmarked(starts[: len(starts) - count + 1], messages), default=0)

    def list_ends(self, messages: Sequence[Message], count: int) -> list[int]:
        """The indexes before which a section that is only read may end. `count`: the number of all items."""
        return self._select_unmarked([*self._list_starts(messages), count], messages)

    def _list_starts(self, messages: Sequence[Message]) -> list[int]:
        """The indexes of the items with which answers begin, but for the first message."""
        return [self.find_index(messages[at - 1].at) + 1 for at in list_answers(messages)]

    def _select_unmarked(self, indexes: Sequence[int], messages: Sequence[Message]) -> list[int]:
        """Those of the indexes that have no cache mark before them."""
        marked = (self.find_index(message.at) for message in messages if has_mark((message,)))
        first_mark = next((index for index in marked if index >= 0), None)
        return [at for at in indexes if first_mark is None or at <= first_mark]

    def find_message(self, messages: Sequence[Message], index: int) -> int:
        """The position of the first message that comes from this item or a later one."""
        for position, message in enumerate(messages):
            if self.find_index(message.at) >= index:
                return position
        return len(messages)


# Paths of messages come again with every request of a conversation, and with other conversations.
@lru_cache(maxsize=8192)
def _find_index(prefix: str, path: str) -> int:
    if not path.startswith(prefix):
        return -1
    number = path[len(prefix) :].partition("]")[0]
    return int(number) if number.isdecimal() else -1


def list_answers(messages: Sequence[Message]) -> list[int]:
    """The positions at which answers begin, but for the first message."""
    return [
        at
        for at, (before, message) in enumerate(pairwise(messages), start=1)
        if message.role == "assistant" and before.role != "assistant"
    ]


def list_ids(messages: Iterable[Message]) -> Iterator[str]:
    """The ids of all calls and results, except those of vendors' own tools: other vendors never get them."""
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolCall:
                yield block.id
            elif type(block) is ToolResult:
                yield block.call_id


def has_mark(messages: Iterable[Message]) -> bool:
    """Whether a block of the messages has a cache mark, also inside results: these may become messages."""
    return any(_is_marked(block) for message in messages for block in message.blocks)


def has_opaque(messages: Iterable[Message]) -> bool:
    """Whether the messages have items that only their vendor knows.

    Such an item may change settings (`configuration_update` of OpenAI).
    """
    return any(type(block) is Opaque for message in messages for block in message.blocks)


def _is_marked(block: AnyBlock) -> bool:
    inner = block.content if type(block) is ToolResult else ()
    return block.cache is not None or any(each.cache is not None for each in inner)
