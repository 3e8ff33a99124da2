"""The order of turns that the target insists on: who begins, who alternates, who has the last word."""

from dragoman.fit.editing import is_foreign, replace, with_blocks, with_turns
from dragoman.fit.history import parted
from dragoman.fit.system import INSTRUCTING
from dragoman.hub.content import AnyBlock, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Role, Turn
from dragoman.providers.profile import Target

OPENING = "[the conversation begins here]"
CONTINUE = "Continue exactly where your last message ended."


def last_word(request: Request, target: Target, losses: Losses) -> Request:
    """An answer that the client began for the model, where the target cannot go on from it."""
    last = request.turns[-1] if request.turns else None
    if last is None or last.role != "assistant":
        return request
    if not target.prefill:
        losses.add(last.at, "the target cannot go on from a begun answer and was asked to continue it")
        asked = Turn(role="user", blocks=(Text(text=CONTINUE),), at=last.at)
        return replace(request, turns=(*request.turns, asked))
    if is_foreign(request, target) and last.blocks:
        return _without_trailing_blanks(request, last)
    return request


def _without_trailing_blanks(request: Request, last: Turn) -> Request:
    """Vendors that continue an answer refuse one that ends in blanks."""
    end = last.blocks[-1]
    if type(end) is not Text or end.text == end.text.rstrip():
        return request
    trimmed = replace(end, text=end.text.rstrip(), form="")
    return with_turns(request, [*request.turns[:-1], with_blocks(last, (*last.blocks[:-1], trimmed))])


def alternation(request: Request, target: Target, losses: Losses) -> Request:
    """Merge turns of one side; results come first in the user's turn, right behind their calls."""
    if not target.alternation:
        return request
    runs: list[list[Turn]] = []
    for turn in request.turns:
        side = _side(turn)
        if runs and side != "system" and _side(runs[-1][0]) == side:
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return with_turns(request, [_merged(run, target) for run in runs])


def _side(turn: Turn) -> str:
    if turn.role in INSTRUCTING:
        return "system"
    return "assistant" if turn.role == "assistant" else "user"


def _merged(run: list[Turn], target: Target) -> Turn:
    first = run[0]
    if len(run) == 1:
        return replace(first, role="user", form="", extras={}) if first.role == "tool" else first
    results: list[AnyBlock] = []
    others: list[AnyBlock] = []
    for turn in run:
        blocks = list(turn.blocks)
        if others and blocks and target.joins_text:
            blocks[0] = parted(others[-1], blocks[0])
        for block in blocks:
            (results if type(block) is ToolResult else others).append(block)
    role: Role = "assistant" if first.role == "assistant" else "user"
    return replace(first, role=role, blocks=(*results, *others), form="", extras={})


def user_first(request: Request, target: Target, losses: Losses) -> Request:
    """Somebody has to speak to the model before it answers."""
    front = next(
        (at for at, turn in enumerate(request.turns) if turn.role not in INSTRUCTING), len(request.turns)
    )
    if front < len(request.turns):
        needed = target.user_first and request.turns[front].role == "assistant"
    else:
        # What a client of another dialect said may all have been left out.
        needed = target.turns_required or (not request.turns and is_foreign(request, target))
    if not needed:
        return request
    opening = Turn(role="user", blocks=(Text(text=OPENING),))
    return replace(request, turns=(*request.turns[:front], opening, *request.turns[front:]))


def open_calls(turns: tuple[Turn, ...]) -> Turn | None:
    """The assistant's turn whose calls are just being answered, if the conversation stands there."""
    for turn in reversed(turns):
        if turn.role == "assistant":
            return turn if any(type(block) is ToolCall for block in turn.blocks) else None
        if turn.role in INSTRUCTING:
            continue
        if not any(type(block) is ToolResult for block in turn.blocks):
            return None
    return None
