"""`ToolMemory`: the calls and results that a client did not see, for the next request of its conversation.

The client returns the visible part of a reply. Without the hidden part, the model would not know what its
tools found. Each hidden round is kept under keys of the visible blocks that follow it (`before`) or that
belong to the same answer of the model (`beside`): the ids of calls, and hashes of texts.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from dragoman.fit.ids import decode_id
from dragoman.hub.blocks import (
    AnyBlock,
    Citation,
    HostedCall,
    HostedResult,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.hub.ids import digest
from dragoman.hub.request import Message, Request
from dragoman.hub.rounds import Round

replace = msgspec.structs.replace

#: A part of the ids of blocks that show the client a run.
SHOWN_MARK = "dgt0"
#: Sources that are kept of one conversation, and conversations whose sources are kept.
MAX_SOURCES = 200
MAX_CITED = 200

Pairs = tuple[tuple[ToolCall, ToolResult], ...]


class HiddenRounds(msgspec.Struct, frozen=True, kw_only=True):
    """Hidden calls with their results.

    `reasoning`: how many reasoning blocks stand between these rounds and the visible block.
    """

    rounds: tuple[Pairs, ...]
    reasoning: int = 0
    size: int = 0


class ToolMemory:
    """Hidden rounds by key, at most `limit` characters. The oldest are forgotten first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[str, HiddenRounds] = OrderedDict()
        #: By conversation: the sources of its results, whose numbers the model knows.
        self._sources: OrderedDict[str, tuple[Citation, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def remember(self, conversation: str, rounds: Sequence[Round]) -> None:
        """Keep what the client did not see of a reply. `conversation`: see `name_conversation`."""
        pending: list[Pairs] = []
        reasoning = 0
        for each in rounds:
            keys = [key for block in each.blocks if (key := _build_key(conversation, block))]
            if pending:
                reasoning += _count_leading_reasoning(each.blocks)
            if pending and keys:
                self._keep("before", keys, HiddenRounds(rounds=tuple(pending), reasoning=reasoning))
                pending, reasoning = [], 0
            pairs = tuple((call.call, call.result) for call in each.withheld if call.result)
            calls = [key for key in keys if key.startswith("call ")]
            if pairs and calls:
                self._keep("beside", calls[:1], HiddenRounds(rounds=(pairs,)))
            elif pairs:
                pending.append(pairs)

    def keep_sources(self, conversation: str, sources: Sequence[Citation]) -> None:
        """Keep the sources of a conversation in the order of their numbers."""
        if not sources or len(sources) > MAX_SOURCES:
            self._sources.pop(conversation, None)
            return
        self._sources[conversation] = tuple(sources)
        self._sources.move_to_end(conversation)
        while len(self._sources) > MAX_CITED:
            self._sources.popitem(last=False)

    def list_sources(self, conversation: str) -> tuple[Citation, ...]:
        return self._sources.get(conversation, ())

    def restore(self, conversation: str, request: Request) -> Request:
        """The request with the hidden rounds of its conversation; the same object if there are none."""
        if not self._kept:
            return request
        messages: list[Message] = []
        results: dict[str, tuple[ToolResult, ...]] = {}
        used: set[int] = set()
        # From the end, because of two equal texts the later one was remembered.
        for role, group in groupby(reversed(request.messages), key=lambda message: message.role):
            answers = list(group)
            if role == "assistant":
                answers = [*reversed(self._restore_answer(conversation, answers[::-1], results, used))]
            messages += answers
        if not used:
            return request
        messages.reverse()
        return replace(request, messages=tuple(_add_results(messages, results)))

    def _restore_answer(
        self,
        conversation: str,
        messages: list[Message],
        results: dict[str, tuple[ToolResult, ...]],
        used: set[int],
    ) -> list[Message]:
        """Adjacent messages of the assistant with the hidden rounds in and between them."""
        restored: list[Message] = []
        blocks: list[AnyBlock] = []
        is_changed = False
        for block in (block for message in messages for block in message.blocks):
            key = _build_key(conversation, block)
            before = self._find(f"before {key}", used)
            if before is not None:
                more, blocks = _insert_rounds(blocks, before)
                restored += more
            beside = self._find(f"beside {key}", used)
            if beside is not None and isinstance(block, ToolCall):
                blocks += [call for call, _ in beside.rounds[0]]
                results[block.id] = tuple(result for _, result in beside.rounds[0])
            is_changed |= before is not None or beside is not None
            blocks.append(block)
        return [*restored, Message(role="assistant", blocks=tuple(blocks))] if is_changed else messages

    def _find(self, key: str, used: set[int]) -> HiddenRounds | None:
        found = self._kept.get(key)
        if found is None or id(found) in used:
            return None
        used.add(id(found))
        return found

    def _keep(self, kind: str, keys: Sequence[str], hidden: HiddenRounds) -> None:
        size = sum(_measure(pairs) for pairs in hidden.rounds)
        hidden = replace(hidden, size=size)
        for key in keys:
            name = f"{kind} {key}"
            earlier = self._kept.pop(name, None)
            self._size += size - (earlier.size if earlier else 0)
            self._kept[name] = hidden
        while self._size > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._size -= oldest.size


def name_conversation(owner: str, request: Request) -> str:
    """A name that all requests of a conversation share, and no request of another caller."""
    first = next((message for message in request.messages if message.role == "user"), None)
    texts = (block.text for block in first.blocks if isinstance(block, Text)) if first else ()
    return digest(owner, *texts)


def _build_key(conversation: str, block: AnyBlock) -> str:
    if isinstance(block, ToolCall):
        return f"call {digest(conversation, decode_id(block.id) or block.id)}"
    if isinstance(block, Text) and block.text.strip():
        return f"text {digest(conversation, block.text.strip())}"
    return ""


def _count_leading_reasoning(blocks: Sequence[AnyBlock]) -> int:
    return next((at for at, block in enumerate(blocks) if type(block) is not Reasoning), len(blocks))


def _insert_rounds(blocks: list[AnyBlock], hidden: HiddenRounds) -> tuple[list[Message], list[AnyBlock]]:
    """Insert the hidden rounds (calls and results that the client never got) after the blocks of a message.

    Returns the messages up to the last hidden result, and the reasoning that follows it.
    """
    before, after = list(blocks), list[AnyBlock]()
    while before and len(after) < hidden.reasoning and type(before[-1]) is Reasoning:
        after.insert(0, before.pop())
    while before and _shows_hidden(before[-1]):
        before.pop()
    messages: list[Message] = []
    for pairs in hidden.rounds:
        messages.append(Message(role="assistant", blocks=(*before, *(call for call, _ in pairs))))
        messages.append(Message(role="tool", blocks=tuple(result for _, result in pairs)))
        before = []
    return messages, after


def _shows_hidden(block: AnyBlock) -> bool:
    """Whether a block shows the client a run of a gateway tool, which the hidden rounds contain."""
    name = getattr(block, "id", "") or getattr(block, "call_id", "")
    return isinstance(block, HostedCall | HostedResult) and SHOWN_MARK in name


def _add_results(messages: list[Message], results: dict[str, tuple[ToolResult, ...]]) -> Iterator[Message]:
    """Put hidden results beside the client's result of the same answer."""
    for message in messages:
        blocks: list[AnyBlock] = []
        for block in message.blocks:
            if isinstance(block, ToolResult):
                blocks += results.pop(block.call_id, ())
            blocks.append(block)
        is_same = len(blocks) == len(message.blocks)
        yield message if is_same else replace(message, blocks=tuple(blocks), form="", extras={})


def _measure(pairs: Pairs) -> int:
    """The number of characters in calls and results, plus 200 for each call."""
    size = 0
    for call, result in pairs:
        size += len(call.arguments) + 200
        for block in result.content:
            size += len(getattr(block, "text", "")) + len(getattr(block, "data", ""))
    return size
