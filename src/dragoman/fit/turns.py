"""The order of turns: where instructions stand, which side begins, alternates and comes last.

Targets that accept system text only at the beginning get later instructions as reminders in user turns. The
history pass, which runs after `fit_system`, moves such reminders out from between calls and results.
"""

from dragoman.fit.editing import (
    INSTRUCTING,
    find_first_non_instruction_turn,
    is_foreign,
    replace,
    replace_blocks,
    replace_turns,
    separate_texts,
)
from dragoman.hub.blocks import AnyBlock, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Role, Turn
from dragoman.providers.profile import TargetFacts

#: Claude Code's note for Anthropic. It changes with every request and would defeat any other vendor's cache.
BILLING = "x-anthropic-billing-header:"

OPENING = "[the conversation begins here]"
CONTINUE = "Continue exactly where your last message ended."


def fit_system(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write system and developer texts where, and with the role, that the target accepts."""
    foreign = is_foreign(request, target)
    if not foreign and target.system == "inline" and target.developer_role:
        return request
    turns: list[Turn] = []
    is_leading = True
    for turn in request.turns:
        if turn.role not in INSTRUCTING:
            is_leading = False
            turns.append(turn)
            continue
        if foreign:
            turn = _keep_texts(turn, losses)
            if not turn.blocks:
                continue
        if target.system == "user" or (target.system == "leading" and not is_leading):
            turns.append(_write_reminder(turn))
        elif turn.role == "developer" and not target.developer_role:
            turns.append(replace(turn, role="system"))
        else:
            turns.append(turn)
    return replace_turns(request, turns)


def _keep_texts(turn: Turn, losses: Losses) -> Turn:
    """Remove blocks that are no text, and texts that begin with `BILLING` (Claude Code's billing header)."""
    kept: list[AnyBlock] = []
    for block in turn.blocks:
        if type(block) is not Text:
            losses.add(block.at, f"system texts cannot hold {type(block).__name__}")
        elif block.text.startswith(BILLING):
            losses.add(block.at, "a billing note for another vendor")
        elif block.text:
            kept.append(block)
    return turn if len(kept) == len(turn.blocks) else replace_blocks(turn, tuple(kept))


def _write_reminder(turn: Turn) -> Turn:
    """A user turn with the text in `<system-reminder>` tags, which mark text that the user did not write."""
    blocks = tuple(
        block
        if type(block) is not Text or block.text.startswith("<system-reminder>")
        else Text(text=f"<system-reminder>\n{block.text}\n</system-reminder>", at=block.at, cache=block.cache)
        for block in turn.blocks
    )
    return Turn(role="user", blocks=blocks, at=turn.at)


def join_leading_turns(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """One leading system turn instead of several: chat templates take only the first message as one."""
    count = find_first_non_instruction_turn(request.turns)
    if target.system != "leading" or count < 2:
        return request
    blocks: list[AnyBlock] = []
    for turn in request.turns[:count]:
        first, *others = turn.blocks or (Text(text=""),)
        blocks += [separate_texts(blocks[-1], first) if blocks and target.joins_text else first, *others]
    leading = replace(request.turns[0], blocks=tuple(blocks), form="", extras={})
    return replace_turns(request, [leading, *request.turns[count:]])


def fit_last_turn(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Ask the model to continue an answer that the client began, where the target cannot continue it."""
    last = request.turns[-1] if request.turns else None
    if last is None or last.role != "assistant":
        return request
    if not target.prefill:
        losses.add(last.at, "the target cannot go on from a begun answer and was asked to continue it")
        request_turn = Turn(role="user", blocks=(Text(text=CONTINUE),), at=last.at)
        return replace(request, turns=(*request.turns, request_turn))
    if is_foreign(request, target) and last.blocks:
        return _trim_last_text(request, last)
    return request


def _trim_last_text(request: Request, last: Turn) -> Request:
    """Remove white space at the end: vendors that continue an answer refuse it."""
    end = last.blocks[-1]
    if type(end) is not Text or end.text == end.text.rstrip():
        return request
    trimmed = replace(end, text=end.text.rstrip(), form="")
    return replace_turns(request, [*request.turns[:-1], replace_blocks(last, (*last.blocks[:-1], trimmed))])


def merge_turns(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Merge adjacent turns of one side; in a user turn results come first, right behind their calls."""
    if not target.alternation:
        return request
    runs: list[list[Turn]] = []
    for turn in request.turns:
        side = _find_side(turn)
        if runs and side != "system" and _find_side(runs[-1][0]) == side:
            runs[-1].append(turn)
        else:
            runs.append([turn])
    return replace_turns(request, [_merge_run(run, target) for run in runs])


def _find_side(turn: Turn) -> str:
    if turn.role in INSTRUCTING:
        return "system"
    return "assistant" if turn.role == "assistant" else "user"


def _merge_run(run: list[Turn], target: TargetFacts) -> Turn:
    first = run[0]
    if len(run) == 1:
        return replace(first, role="user", form="", extras={}) if first.role == "tool" else first
    results: list[AnyBlock] = []
    others: list[AnyBlock] = []
    for turn in run:
        blocks = list(turn.blocks)
        if others and blocks and target.joins_text:
            blocks[0] = separate_texts(others[-1], blocks[0])
        for block in blocks:
            (results if type(block) is ToolResult else others).append(block)
    role: Role = "assistant" if first.role == "assistant" else "user"
    return replace(first, role=role, blocks=(*results, *others), form="", extras={})


def begin_with_user(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Insert a user turn in front where the target demands one."""
    front = find_first_non_instruction_turn(request.turns)
    if front < len(request.turns):
        is_needed = target.user_first and request.turns[front].role == "assistant"
    else:
        # Other passes may have removed all turns of a client of another dialect.
        is_needed = target.turns_required or (not request.turns and is_foreign(request, target))
    if not is_needed:
        return request
    opening = Turn(role="user", blocks=(Text(text=OPENING),))
    return replace(request, turns=(*request.turns[:front], opening, *request.turns[front:]))


def find_open_calls(turns: tuple[Turn, ...]) -> Turn | None:
    """The assistant turn whose calls the last turns answer; None if the conversation ends otherwise."""
    for turn in reversed(turns):
        if turn.role == "assistant":
            return turn if any(type(block) is ToolCall for block in turn.blocks) else None
        if turn.role in INSTRUCTING:
            continue
        if not any(type(block) is ToolResult for block in turn.blocks):
            return None
    return None
