"""The order of messages: where instructions stand, which side begins, alternates and comes last.

Targets that accept system text only at the beginning get later instructions as reminders in user messages.
The history pass, which runs after `fit_system`, moves such reminders out from between calls and results.
"""

from dragoman.fit.editing import (
    INSTRUCTING,
    find_first_non_instruction_message,
    is_foreign,
    replace,
    replace_blocks,
    replace_messages,
    separate_texts,
)
from dragoman.fit.history import CONTINUE
from dragoman.hub.blocks import AnyBlock, Text, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, Role
from dragoman.providers.profile import TargetFacts

#: Claude Code's note for Anthropic. It changes with every request and would defeat any other vendor's cache.
BILLING = "x-anthropic-billing-header:"

#: The side that a message belongs to, by its role.
_SIDES: dict[Role, str] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "user",
    "assistant": "assistant",
}

OPENING = "[the conversation begins here]"


def fit_system(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write system and developer texts where, and with the role, that the target accepts."""
    foreign = is_foreign(request, target)
    if not foreign and target.system == "inline" and target.developer_role:
        return request
    messages: list[Message] = []
    is_leading = True
    for message in request.messages:
        if message.role not in INSTRUCTING:
            is_leading = False
            messages.append(message)
            continue
        if foreign:
            message = _keep_texts(message, losses)
            if not message.blocks:
                continue
        if target.system == "user" or (target.system == "leading" and not is_leading):
            messages.append(_write_reminder(message))
        elif message.role == "developer" and not target.developer_role:
            messages.append(replace(message, role="system"))
        else:
            messages.append(message)
    return replace_messages(request, messages)


def _keep_texts(message: Message, losses: Losses) -> Message:
    """Remove blocks that are no text, and texts that begin with `BILLING` (Claude Code's billing header)."""
    kept: list[AnyBlock] = []
    for block in message.blocks:
        if type(block) is not Text:
            losses.add(block.at, f"system texts cannot hold {type(block).__name__}")
        elif block.text.startswith(BILLING):
            losses.add(block.at, "a billing note for another vendor")
        elif block.text:
            kept.append(block)
    return message if len(kept) == len(message.blocks) else replace_blocks(message, tuple(kept))


def _write_reminder(message: Message) -> Message:
    """A user message with the text in `<system-reminder>` tags, which mark text that is not of the user."""
    blocks = tuple(
        block
        if type(block) is not Text or block.text.startswith("<system-reminder>")
        else Text(text=f"<system-reminder>\n{block.text}\n</system-reminder>", at=block.at, cache=block.cache)
        for block in message.blocks
    )
    return Message(role="user", blocks=blocks, at=message.at)


def join_leading_messages(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """One leading system message instead of several: chat templates take only the first message as one."""
    count = find_first_non_instruction_message(request.messages)
    if target.system != "leading" or count < 2:
        return request
    blocks: list[AnyBlock] = []
    for message in request.messages[:count]:
        first, *others = message.blocks or (Text(text=""),)
        blocks += [separate_texts(blocks[-1], first) if blocks and target.joins_text else first, *others]
    leading = replace(request.messages[0], blocks=tuple(blocks), form="", extras={})
    return replace_messages(request, [leading, *request.messages[count:]])


def fit_last_message(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Ask the model to continue an answer that the client began, where the target cannot continue it."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "assistant":
        return request
    if not target.prefill:
        losses.add(last.at, "the target cannot continue a begun answer, so it is asked to continue")
        request_message = Message(role="user", blocks=(Text(text=CONTINUE),), at=last.at)
        return replace(request, messages=(*request.messages, request_message))
    if is_foreign(request, target) and last.blocks:
        return _trim_last_text(request, last)
    return request


def _trim_last_text(request: Request, last: Message) -> Request:
    """Remove white space at the end: vendors that continue an answer refuse it."""
    end = last.blocks[-1]
    if type(end) is not Text or end.text == end.text.rstrip():
        return request
    trimmed = replace(end, text=end.text.rstrip(), form="")
    return replace_messages(
        request, [*request.messages[:-1], replace_blocks(last, (*last.blocks[:-1], trimmed))]
    )


def merge_messages(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Merge adjacent messages of one side; in a user message results come first, right behind their calls."""
    if not target.alternation:
        return request
    runs: list[list[Message]] = []
    before = ""
    for message in request.messages:
        side = _SIDES[message.role]
        if side == before and side != "system":
            runs[-1].append(message)
        else:
            runs.append([message])
        before = side
    return replace_messages(request, [_merge_run(run, target) for run in runs])


def _merge_run(run: list[Message], target: TargetFacts) -> Message:
    first = run[0]
    if len(run) == 1:
        return replace(first, role="user", form="", extras={}) if first.role == "tool" else first
    results: list[AnyBlock] = []
    others: list[AnyBlock] = []
    for message in run:
        blocks = list(message.blocks)
        if others and blocks and target.joins_text:
            blocks[0] = separate_texts(others[-1], blocks[0])
        for block in blocks:
            (results if type(block) is ToolResult else others).append(block)
    role: Role = "assistant" if first.role == "assistant" else "user"
    return replace(first, role=role, blocks=(*results, *others), form="", extras={})


def begin_with_user(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Insert a user message before all others where the target demands one."""
    first = find_first_non_instruction_message(request.messages)
    if first < len(request.messages):
        is_needed = target.user_first and request.messages[first].role == "assistant"
    else:
        # Other passes may have removed all messages of a client of another dialect.
        is_needed = target.turns_required or (not request.messages and is_foreign(request, target))
    if not is_needed:
        return request
    opening = Message(role="user", blocks=(Text(text=OPENING),))
    return replace(request, messages=(*request.messages[:first], opening, *request.messages[first:]))


def find_open_calls(messages: tuple[Message, ...]) -> Message | None:
    """The assistant message whose calls the last messages answer; None if the conversation ends otherwise."""
    for message in reversed(messages):
        if message.role == "assistant":
            return message if any(type(block) is ToolCall for block in message.blocks) else None
        if message.role in INSTRUCTING:
            continue
        if not any(type(block) is ToolResult for block in message.blocks):
            return None
    return None
