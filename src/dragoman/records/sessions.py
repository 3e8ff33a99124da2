"""Recognises the session and the project of a request whose headers do not name them."""

import re
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from dragoman.agents import ClientIdentity
from dragoman.dialects.forwarding import Members
from dragoman.hub.ids import digest

#: Bytes of a body that are searched.
MAX_SEARCHED = 2 * 1024 * 1024

#: How agents state their working folder in a prompt: Claude Code and OpenCode, Codex, Gemini CLI.
_FOLDER = re2.compile(
    rb"(?:[Ww]orking directory(?: is)?: ?|<cwd>|working in the directory: ?|Workspace Directories:\\n\s*- )"
    rb"(/[^\"\\<\n]{1,300}|[A-Za-z]:(?:\\\\[^\"\\<\n]{1,100}){1,10})"
)
#: The members with the conversation, of every dialect.
_TURNS = ("messages", "input", "contents")
#: The members that name a conversation. Claude Code writes JSON into its `user_id`.
_USER_ID = re.compile(rb'session_id\\?"\s*:\s*\\?"([0-9a-zA-Z-]{8,64})')

_USERS = ("user", None)

#: Bytes of a conversation in which the ends of its first items are looked for, and places that are tried.
MAX_BEGINNING = 32 * 1024
MAX_TRIES = 8

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def find_project(body: bytes) -> str:
    """The folder that the agent works in; empty if the request does not name it."""
    found = _FOLDER.search(body[:MAX_SEARCHED])
    return found[1].decode("utf-8", "replace").strip() if found else ""


def find_session(identity: ClientIdentity, members: Members | None, caller: str) -> str:
    """The session's id: that of the agent, or a name that all requests of the conversation share.

    The name is made of the first message, which later requests repeat, so two conversations that begin with
    the same words are one session. `members`: those of the body; None if it is no object.
    """
    if identity.session:
        return identity.session
    if members is None:
        return ""
    named = _USER_ID.search(bytes(members.get("metadata", b"")))
    if named:
        return named[1].decode()
    turns = next((members[name] for name in _TURNS if name in members), b"")
    first = _find_first_user_turn(turns)
    return "auto-" + digest(caller, identity.agent, first, length=12)


def _find_first_user_turn(turns: msgspec.Raw | bytes) -> str:
    """The texts of the first message of the user. Cache marks, which move, are not part of it."""
    try:
        if bytes(memoryview(turns)[:1]) != b"[":
            return str(msgspec.json.decode(turns))
        users = (turn for turn in _read_items(turns) if isinstance(turn, dict) and turn.get("role") in _USERS)
        return str(_collect_texts(next(users, "")))
    except (ValueError, RecursionError):
        return ""


def _read_items(array: msgspec.Raw | bytes) -> Iterator[object]:
    """The items of a JSON array. To read the first one does not take longer if there are many others."""
    beginning = bytes(memoryview(array)[:MAX_BEGINNING])
    start, end = 1, 0
    for _ in range(MAX_TRIES):
        end = beginning.find(b"},{", end) + 1
        if not end:
            break
        # If this is not the end of the item but a place inside it, it cannot be decoded.
        with suppress(ValueError):
            item = msgspec.json.decode(beginning[start:end])
            start = end + 1
            yield item
    yield from map(msgspec.json.decode, _decode_items(b"[" + memoryview(array)[start:]))


def _collect_texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [
            text for name, each in value.items() if name != "cache_control" for text in _collect_texts(each)
        ]
    if isinstance(value, list):
        return [text for each in value for text in _collect_texts(each)]
    return [value] if isinstance(value, str) else []
