"""A visible history as a transcript of Claude Code's own, from which a fresh session goes on.

The transcript ends with the caller's last words; Claude Code takes a turn that was never answered for an
interrupted one and answers it, so that nothing has to be said to it.
"""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid5

import msgspec

from dragoman.upstream.claude_code.conversation import Atom, Conversation
from dragoman.upstream.claude_code.naming import inner_name

Json = dict[str, Any]

#: Any date will do: the transcript is read once, in its order.
LONG_AGO = "2020-01-01T00:00:00.000Z"
#: What the user said is words: no command to run, and no file to fetch.
VERBATIM = {"queueSkipSlashCommands": True, "queueSkipAttachments": True}
CANCELLED = "[no result: the user went on without it]"


def project_folder(directory: str) -> str:
    """The folder below `projects` where Claude Code looks for a directory's transcripts."""
    return re.sub(r"[^a-zA-Z0-9]", "-", directory)


def transcript(talk: Conversation, session: str, directory: str, model: str) -> bytes:
    """One line for every message."""
    lines: list[bytes] = []
    parent: str | None = None
    for number, message in enumerate(messages(talk)):
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
            "timestamp": LONG_AGO,
            **VERBATIM,
        }
        lines.append(msgspec.json.encode(line) + b"\n")
        parent = entry
    return b"".join(lines)


def awaits_answer(talk: Conversation) -> bool:
    """Whether the transcript ends with the caller: a result of long ago stands where its call does."""
    return bool(talk.words) or messages(talk)[-1]["role"] == "user"


def messages(talk: Conversation) -> list[Json]:
    """The conversation with every call's result right behind it; a call without one was given up."""
    results = {atom.id: atom for atom in talk.atoms if atom.kind == "result"}
    written: list[Json] = []
    for role, atoms in _sides(talk.atoms):
        if role == "assistant":
            written.append({"role": "assistant", "content": [_block(atom) for atom in atoms]})
            calls = [atom for atom in atoms if atom.kind == "call"]
            if calls:
                answers = [results[call.id].block if call.id in results else _none(call) for call in calls]
                written.append({"role": "user", "content": answers})
        elif written and written[-1]["role"] == "user":
            written[-1]["content"] += [_block(atom) for atom in atoms]
        else:
            written.append({"role": "user", "content": [_block(atom) for atom in atoms]})
    return written


def _sides(atoms: tuple[Atom, ...]) -> Iterator[tuple[str, list[Atom]]]:
    """Runs of what one side said; results only part one run from the next."""
    run: list[Atom] = []
    is_answered = False
    for atom in atoms:
        if atom.kind == "result":
            is_answered = True
            continue
        if run and (run[-1].role != atom.role or is_answered):
            yield run[0].role, run
            run = []
        run.append(atom)
        is_answered = False
    if run:
        yield run[0].role, run


def _block(atom: Atom) -> Json:
    if atom.kind == "call":
        name = inner_name(str(atom.block.get("name")))
        return {**atom.block, "name": name, "input": atom.block.get("input") or {}}
    return {name: value for name, value in atom.block.items() if name != "cache_control"}


def _none(call: Atom) -> Json:
    return {"type": "tool_result", "tool_use_id": call.id, "content": CANCELLED, "is_error": True}
