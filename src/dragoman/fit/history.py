"""A history in which every call is followed at once by its one result.

The canonical form is an assistant message and then, if it calls tools, one `tool` message with the results in
the order of the calls. What stood between them follows. A result belongs to the latest unanswered call with
its id. A result without a call becomes text; a call without a result gets a placeholder.
"""

from collections import deque

from dragoman.fit.editing import (
    INSTRUCTING,
    are_same_blocks,
    is_foreign,
    replace,
    replace_blocks,
    replace_messages,
    separate_texts,
)
from dragoman.hub.blocks import AnyBlock, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, list_blocks
from dragoman.providers.profile import TargetFacts

CONTINUE = "Continue exactly where your last message ended."
NO_RESULT = "[no result: interrupted]"
UNMATCHED_RESULT = "[result of an unknown tool call]"

#: Blocks that only an assistant message may hold.
_ASSISTANT_ONLY = (ToolCall, Reasoning)


def remove_empty(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Remove empty texts and empty messages; the only message of a conversation may be empty.

    An empty message of the user after an answer asks the model to continue: without it, the model would be
    asked for a continuation of its answer now, and no longer in later requests.
    """
    may_be_blank = target.blank_text and not is_foreign(request, target)
    if may_be_blank or _has_only_content(request, target):
        return request
    messages: list[Message] = []
    only: Message | None = None
    for message in request.messages:
        blocks = tuple(
            block if type(block) is not ToolResult else _remove_empty_texts(block, target)
            for block in message.blocks
            if not _is_empty(block, target)
        )
        if are_same_blocks(blocks, message.blocks):
            blocks = message.blocks
        if blocks:
            messages.append(replace_blocks(message, blocks))
        elif message.blocks and message.role == "user":
            only = message
            if messages and messages[-1].role == "assistant":
                losses.add(message.at, "an empty message, as a request to continue")
                messages.append(replace_blocks(message, (Text(text=CONTINUE),)))
    if (
        only is not None
        and not target.turns_required
        and all(message.role in INSTRUCTING for message in messages)
    ):
        messages.append(only)
    return replace_messages(request, messages)


def _has_only_content(request: Request, target: TargetFacts) -> bool:
    """Quick test: True if no message and no block is empty.

    False also for a result with several blocks, which needs the full test.
    """
    for block in list_blocks(request.messages):
        if type(block) is ToolResult:
            if len(block.content) > 1:
                return False
        elif type(block) is not ToolCall and _is_empty(block, target):
            return False
    return all(message.blocks for message in request.messages)


def _remove_empty_texts(result: ToolResult, target: TargetFacts) -> ToolResult:
    """Remove the empty texts of a result; a result with one block stays, because it may be empty."""
    if len(result.content) < 2:
        return result
    content = tuple(block for block in result.content if not _is_empty(block, target))
    return result if len(content) == len(result.content) else replace(result, content=content)


def _is_empty(block: AnyBlock, target: TargetFacts) -> bool:
    if type(block) is Text:
        return block.seal is None and (not block.text or (not target.blank_text and block.text.isspace()))
    if type(block) is Refusal:
        return not block.text
    return False


class _AssistantGroup:
    """Adjacent assistant messages and the results of their calls."""

    __slots__ = ("blocks", "calls", "messages", "results", "sources")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.blocks: list[AnyBlock] = []
        #: Every call so far: id, name, arguments, kind. Finds calls that come twice.
        self.calls: set[tuple[str, str, str, str]] = set()
        #: The results by the position of their call in `blocks`.
        self.results: dict[int, ToolResult] = {}
        #: The messages that held the results.
        self.sources: list[Message] = []


class _History:
    """Reads the messages of one conversation and writes them in the canonical form."""

    def __init__(self, target: TargetFacts, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self._items: list[Message | _AssistantGroup] = []
        #: By call id: the last group with such calls, and the positions of its calls without a result. A new
        #: group with the same id replaces the earlier one.
        self._unanswered: dict[str, tuple[_AssistantGroup, deque[int]]] = {}
        self._interrupted = False

    def read(self, message: Message) -> None:
        if message.role == "assistant":
            self._read_assistant(message)
            self._interrupted = False
        else:
            self._read_other(message)
            self._interrupted = True

    def _read_assistant(self, message: Message) -> None:
        group = self._items[-1] if self._items else None
        # Results add no item of their own, but an assistant message after them is a new group.
        if not isinstance(group, _AssistantGroup) or (self._interrupted and group.calls):
            group = _AssistantGroup()
            self._items.append(group)
        blocks = message.blocks
        if ToolResult in map(type, blocks):
            blocks = self._take_results(message)
        if group.blocks and blocks:
            blocks = (self._separate(group.blocks[-1], blocks[0]), *blocks[1:])
        group.messages.append(message)
        for block in blocks:
            if type(block) is not ToolCall or self._add_call(block, group):
                group.blocks.append(block)

    def _add_call(self, call: ToolCall, group: _AssistantGroup) -> bool:
        """Note a call; False if the group already has the same call."""
        same = (call.id, call.name, call.arguments, call.kind)
        if same in group.calls:
            self._losses.add(call.at, "the same call is there twice")
            return False
        group.calls.add(same)
        unanswered = self._unanswered.get(call.id)
        if unanswered is None or unanswered[0] is not group:
            unanswered = self._unanswered[call.id] = (group, deque())
        unanswered[1].append(len(group.blocks))
        return True

    def _take_results(self, message: Message) -> tuple[AnyBlock, ...]:
        """Attach the results in an assistant message to their calls. Returns the other blocks."""
        for block in message.blocks:
            if type(block) is ToolResult and not self._attach(block, message):
                self._losses.add(block.at, "a result without a call")
        return tuple(block for block in message.blocks if type(block) is not ToolResult)

    def _read_other(self, message: Message) -> None:
        kept: list[AnyBlock] = []
        unmatched: list[AnyBlock] = []
        changed = False
        for block in message.blocks:
            if type(block) is ToolResult:
                changed = True
                if not self._attach(block, message):
                    self._losses.add(block.at, "a result without a call became text")
                    unmatched += self._write_unmatched(block)
            elif isinstance(block, _ASSISTANT_ONLY):
                changed = True
                self._losses.add(block.at, "only an assistant message can hold this")
            else:
                kept.append(block)
        if not changed:
            self._items.append(message)
        elif unmatched or kept:
            if unmatched and kept:
                kept[0] = self._separate(unmatched[-1], kept[0])
            blocks = (*unmatched, *kept)
            self._items.append(replace(message, role="user", blocks=blocks, form="", extras={}))

    def _write_unmatched(self, result: ToolResult) -> list[AnyBlock]:
        """A result without a call as labelled text."""
        label = f"{UNMATCHED_RESULT} {result.name}".rstrip()
        blocks: list[AnyBlock] = [Text(text=label, at=result.at)]
        for block in result.content:
            if not _is_empty(block, self._target):
                blocks.append(self._separate(blocks[-1], block))
        return blocks

    def _separate(self, before: AnyBlock, after: AnyBlock) -> AnyBlock:
        return separate_texts(before, after) if self._target.joins_text else after

    def _attach(self, result: ToolResult, message: Message) -> bool:
        """Attach a result to its call; a second result is dropped. False if no call has this id."""
        unanswered = self._unanswered.get(result.call_id)
        if unanswered is None:
            return False
        group, positions = unanswered
        if not positions:
            self._losses.add(result.at, "the call already has a result")
            return True
        group.results[positions.popleft()] = result
        if not group.sources or group.sources[-1] is not message:
            group.sources.append(message)
        return True

    def write(self) -> list[Message]:
        messages: list[Message] = []
        for item in self._items:
            if isinstance(item, Message):
                messages.append(item)
            else:
                messages += self._write_group(item)
        return messages

    def _write_group(self, group: _AssistantGroup) -> list[Message]:
        if not group.blocks:
            return []
        first = group.messages[0]
        blocks = tuple(group.blocks)
        if len(group.messages) == 1 and len(blocks) == len(first.blocks):
            answer = first
        else:
            answer = replace(first, blocks=blocks, form="", extras={})
        return [answer, self._write_results(group)] if group.calls else [answer]

    def _write_results(self, group: _AssistantGroup) -> Message:
        results = tuple(
            [
                self._fit_result(group.results.get(position), block)
                for position, block in enumerate(group.blocks)
                if type(block) is ToolCall
            ]
        )
        source = group.sources[0] if len(group.sources) == 1 else None
        if source and source.role == "tool" and are_same_blocks(results, source.blocks):
            return source
        return Message(role="tool", blocks=results, at=group.sources[0].at if group.sources else "")

    def _fit_result(self, result: ToolResult | None, call: ToolCall) -> ToolResult:
        name = call.name if self._target.result_names else ""
        if result is None:
            self._losses.add(call.at, "the call has no result, so a placeholder was added")
            placeholder = Text(text=NO_RESULT, at=call.at)
            return ToolResult(call_id=call.id, content=(placeholder,), name=name, kind=call.kind, at=call.at)
        if name and result.name != name:
            result = replace(result, name=name)
        # Some dialects have one kind of result for all calls; then the kind of the call decides.
        return result if result.kind == call.kind else replace(result, kind=call.kind, form="", extras={})


def fit_history(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write the conversation in the canonical form, where the target demands it."""
    if not target.strict_results:
        return request
    history = _History(target, losses)
    for message in request.messages:
        history.read(message)
    return replace_messages(request, history.write())
