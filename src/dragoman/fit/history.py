"""A history in which every call is followed at once by its one result.

The canonical form: an assistant's turn, then, if it calls, one `tool` turn with the results in the order
of the calls. What stood in between comes after. A result goes to the latest unanswered call with its id;
one that answers nothing is kept as text, and a call that nothing answers gets a stand-in.
"""

from collections import deque
from collections.abc import Sequence
from operator import is_

from dragoman.fit.editing import is_foreign, replace, with_blocks, with_turns
from dragoman.fit.system import INSTRUCTING
from dragoman.hub.content import AnyBlock, Reasoning, Refusal, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

NO_RESULT = "[no result: interrupted]"
ORPHAN = "[result of an unknown tool call]"

#: What only an assistant says.
_SPOKEN = (ToolCall, Reasoning)


def empties(request: Request, target: Target, losses: Losses) -> Request:
    """Drop empty texts and turns that say nothing; the only turn of a conversation may be empty."""
    if not is_foreign(request, target) or all(_says_something(turn, target) for turn in request.turns):
        return request
    turns: list[Turn] = []
    only: Turn | None = None
    for turn in request.turns:
        blocks = tuple(
            block if type(block) is not ToolResult else _without_blanks(block, target)
            for block in turn.blocks
            if not _says_nothing(block, target)
        )
        if _are_same(blocks, turn.blocks):
            blocks = turn.blocks
        if blocks:
            turns.append(with_blocks(turn, blocks))
        elif turn.blocks and turn.role == "user":
            only = turn
    if only is not None and not target.turns_required and all(turn.role in INSTRUCTING for turn in turns):
        turns.append(only)
    return with_turns(request, turns)


def _says_something(turn: Turn, target: Target) -> bool:
    """Whether there is nothing blank in the turn, as in nearly all of them."""
    for block in turn.blocks:
        if _says_nothing(block, target):
            return False
        if type(block) is ToolResult and len(block.content) > 1:
            return False
    return bool(turn.blocks)


def _without_blanks(result: ToolResult, target: Target) -> ToolResult:
    """A result without texts that say nothing; one may stay, because a result may be empty as a whole."""
    if len(result.content) < 2:
        return result
    content = tuple(block for block in result.content if not _says_nothing(block, target))
    return result if len(content) == len(result.content) else replace(result, content=content)


def _says_nothing(block: AnyBlock, target: Target) -> bool:
    if type(block) is Text:
        return block.seal is None and not (block.text if target.blank_text else block.text.strip())
    if type(block) is Refusal:
        return not block.text
    return False


class _Step:
    """Assistant turns in a row, and what answered their calls."""

    __slots__ = ("blocks", "calls", "results", "sources", "turns")

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.blocks: list[AnyBlock] = []
        #: Every call that was made, to notice when it comes again.
        self.calls: set[tuple[str, str, str, str]] = set()
        #: By the position of the call in `blocks`.
        self.results: dict[int, ToolResult] = {}
        #: The turns that the results came from.
        self.sources: list[Turn] = []


class _History:
    def __init__(self, target: Target, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self._items: list[Turn | _Step] = []
        #: By id, the last step that calls with it, and the positions of the calls there that wait for a
        #: result. An id that is called again lets go of what was called by it before.
        self._waiting: dict[str, tuple[_Step, deque[int]]] = {}
        self._interrupted = False

    def read(self, turn: Turn) -> None:
        if turn.role == "assistant":
            self._read_assistant(turn)
            self._interrupted = False
        else:
            self._read_other(turn)
            self._interrupted = True

    def _read_assistant(self, turn: Turn) -> None:
        step = self._items[-1] if self._items else None
        # Results leave no item behind, and yet what comes after them is said later.
        if not isinstance(step, _Step) or (self._interrupted and step.calls):
            step = _Step()
            self._items.append(step)
        blocks = [block for block in turn.blocks if not self._is_result(block, turn)]
        if step.blocks and blocks:
            blocks[0] = self._parted(step.blocks[-1], blocks[0])
        step.turns.append(turn)
        for block in blocks:
            if type(block) is not ToolCall or self._is_new(block, step):
                step.blocks.append(block)

    def _is_new(self, call: ToolCall, step: _Step) -> bool:
        same = (call.id, call.name, call.arguments, call.kind)
        if same in step.calls:
            self._losses.add(call.at, "the same call came twice")
            return False
        step.calls.add(same)
        waiting = self._waiting.get(call.id)
        if waiting is None or waiting[0] is not step:
            waiting = self._waiting[call.id] = (step, deque())
        waiting[1].append(len(step.blocks))
        return True

    def _is_result(self, block: AnyBlock, turn: Turn) -> bool:
        if type(block) is not ToolResult:
            return False
        if not self._answered(block, turn):
            self._losses.add(block.at, "a result without a call")
        return True

    def _read_other(self, turn: Turn) -> None:
        kept: list[AnyBlock] = []
        orphans: list[AnyBlock] = []
        changed = False
        for block in turn.blocks:
            if type(block) is ToolResult:
                changed = True
                if not self._answered(block, turn):
                    self._losses.add(block.at, "a result without a call became text")
                    orphans += self._as_text(block)
            elif isinstance(block, _SPOKEN):
                changed = True
                self._losses.add(block.at, "only the assistant can say this")
            else:
                kept.append(block)
        if not changed:
            self._items.append(turn)
        elif orphans or kept:
            if orphans and kept:
                kept[0] = self._parted(orphans[-1], kept[0])
            blocks = (*orphans, *kept)
            self._items.append(replace(turn, role="user", blocks=blocks, form="", extras={}))

    def _as_text(self, result: ToolResult) -> list[AnyBlock]:
        label = f"{ORPHAN} {result.name}".rstrip()
        blocks: list[AnyBlock] = [Text(text=label, at=result.at)]
        for block in result.content:
            if not _says_nothing(block, self._target):
                blocks.append(self._parted(blocks[-1], block))
        return blocks

    def _parted(self, before: AnyBlock, after: AnyBlock) -> AnyBlock:
        return parted(before, after) if self._target.joins_text else after

    def _answered(self, result: ToolResult, turn: Turn) -> bool:
        """Put the result beside its call. A second result for the same call is dropped."""
        waiting = self._waiting.get(result.call_id)
        if waiting is None:
            return False
        step, positions = waiting
        if not positions:
            self._losses.add(result.at, "the call already has a result")
            return True
        step.results[positions.popleft()] = result
        if not step.sources or step.sources[-1] is not turn:
            step.sources.append(turn)
        return True

    def turns(self) -> list[Turn]:
        turns: list[Turn] = []
        for item in self._items:
            if isinstance(item, Turn):
                turns.append(item)
            else:
                turns += self._turns_of(item)
        return turns

    def _turns_of(self, step: _Step) -> list[Turn]:
        if not step.blocks:
            return []
        first = step.turns[0]
        blocks = tuple(step.blocks)
        if len(step.turns) == 1 and len(blocks) == len(first.blocks):
            spoken = first
        else:
            spoken = replace(first, blocks=blocks, form="", extras={})
        calls = [(at, block) for at, block in enumerate(blocks) if type(block) is ToolCall]
        if not calls:
            return [spoken]
        return [spoken, self._tool_turn(step, calls)]

    def _tool_turn(self, step: _Step, calls: list[tuple[int, ToolCall]]) -> Turn:
        results = tuple(self._result(step.results.get(position), call) for position, call in calls)
        source = step.sources[0] if len(step.sources) == 1 else None
        if source and source.role == "tool" and _are_same(results, source.blocks):
            return source
        return Turn(role="tool", blocks=results, at=step.sources[0].at if step.sources else "")

    def _result(self, result: ToolResult | None, call: ToolCall) -> ToolResult:
        name = call.name if self._target.result_names else ""
        if result is None:
            self._losses.add(call.at, "no result came for this call, a stand-in was added")
            words = Text(text=NO_RESULT, at=call.at)
            return ToolResult(call_id=call.id, content=(words,), name=name, kind=call.kind, at=call.at)
        if name and result.name != name:
            result = replace(result, name=name)
        # Dialects that have one kind of result for all calls leave it to the call to say which.
        return result if result.kind == call.kind else replace(result, kind=call.kind, form="", extras={})


def history(request: Request, target: Target, losses: Losses) -> Request:
    if not target.strict_results:
        return request
    conversation = _History(target, losses)
    for turn in request.turns:
        conversation.read(turn)
    return with_turns(request, conversation.turns())


def parted(before: AnyBlock, after: AnyBlock) -> AnyBlock:
    """The second of two texts that are about to run into each other, with a blank line in front."""
    if type(before) is not Text or type(after) is not Text:
        return after
    if before.text.endswith("\n") or after.text.startswith("\n"):
        return after
    return replace(after, text="\n\n" + after.text, form="")


def _are_same(some: Sequence[AnyBlock], others: Sequence[AnyBlock]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))
