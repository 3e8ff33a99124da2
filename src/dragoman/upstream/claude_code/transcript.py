"""Writes a history as a transcript of Claude Code, from which a new session continues.

The transcript ends with the caller's last message. Claude Code takes an unanswered user message for an
interrupted turn and answers it without a further prompt (`CLAUDE_CODE_RESUME_INTERRUPTED_TURN`).
"""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid5

import msgspec

from dragoman.upstream.claude_code.conversation import Conversation, HistoryItem
from dragoman.upstream.claude_code.tools import write_inner_name

Json = dict[str, Any]

#: Claude Code reads a transcript in its order, so that any date will do.
TIMESTAMP = "2020-01-01T00:00:00.000Z"
#: User content is text: `/command` is not run and `@file` is not read.
VERBATIM = {"queueSkipSlashCommands": True, "queueSkipAttachments": True}
CANCELLED = "[no result: the user went on without it]"


def write_project_folder(directory: str) -> str:
    """Write the name of the folder below `projects` in which Claude Code looks for transcripts."""
    return re.sub(r"[^a-zA-Z0-9]", "-", directory)


def write_transcript(conversation: Conversation, session: str, directory: str, model: str) -> bytes:
    """Write one line of JSON per message. `session` is a UUID, `directory` the working directory."""
    lines: list[bytes] = []
    parent: str | None = None
    for number, message in enumerate(_split_last(write_messages(conversation))):
        entry = str(uuid5(UUID(session), str(number)))
        if message["role"] == "assistant":
            message = {
                "id": f"msg_{entry[:8]}",
                "type": "message",
                "model": model,
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
                **message,
            }
        line = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": directory,
            "sessionId": session,
            "version": "2.0.0",
            "type": message["role"],
            "message": message,
            "uuid": entry,
            "timestamp": TIMESTAMP,
            **VERBATIM,
        }
        lines.append(msgspec.json.encode(line) + b"\n")
        parent = entry
    return b"".join(lines)


def _split_last(messages: list[Json]) -> list[Json]:
    """Put the user content after the last results into a message of its own, also if it is empty.

    Claude Code adds the text "Continue from where you left off." to a transcript whose last message begins
    with a result. It answers a last message without results as it is, and sends both as one message.
    """
    *earlier, last = messages
    results = [block for block in last["content"] if block["type"] == "tool_result"]
    if not results:
        return messages
    rest = [block for block in last["content"] if block["type"] != "tool_result"]
    return [*earlier, {**last, "content": results}, {"role": "user", "content": rest}]


def has_question(conversation: Conversation) -> bool:
    """Whether the transcript ends with the caller. The result of an old call is moved to its call."""
    return bool(conversation.prompt) or write_messages(conversation)[-1]["role"] == "user"


def write_messages(conversation: Conversation) -> list[Json]:
    """Write the messages with each result right after its call. A call without a result was cancelled."""
    results = {item.id: item for item in conversation.items if item.kind == "result"}
    messages: list[Json] = []
    for role, items in _split_by_role(conversation.items):
        content = [_write_block(item) for item in items]
        if role == "assistant":
            messages.append({"role": "assistant", "content": content})
            calls = [item for item in items if item.kind == "call"]
            if calls:
                answers = [
                    results[call.id].block if call.id in results else _write_cancelled(call) for call in calls
                ]
                messages.append({"role": "user", "content": answers})
        elif messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += content
        else:
            messages.append({"role": "user", "content": content})
    return messages


def _split_by_role(items: tuple[HistoryItem, ...]) -> Iterator[tuple[str, list[HistoryItem]]]:
    """Split the items into runs of one role. Results are left out; each one ends a run."""
    run: list[HistoryItem] = []
    is_answered = False
    for item in items:
        if item.kind == "result":
            is_answered = True
            continue
        if run and (run[-1].role != item.role or is_answered):
            yield run[0].role, run
            run = []
        run.append(item)
        is_answered = False
    if run:
        yield run[0].role, run


def _write_block(item: HistoryItem) -> Json:
    if item.kind == "call":
        name = write_inner_name(str(item.block.get("name")))
        return {**item.block, "name": name, "input": item.block.get("input") or {}}
    return {name: value for name, value in item.block.items() if name != "cache_control"}


def _write_cancelled(call: HistoryItem) -> Json:
    return {"type": "tool_result", "tool_use_id": call.id, "content": CANCELLED, "is_error": True}
