"""Decides which session a request continues. Pure: it looks at snapshots of sessions and waits for nothing.

Order: the id of a call, which is unique; the session that the client names; the fingerprint of the history.
A request that fits no session, or fits one and has another history, is replayed from its history. So a client
that keeps nothing but the history can always continue.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.upstream.claude_code.conversation import Conversation, fingerprint, outline

SessionState = Literal["idle", "parked", "settling", "running"]
#: States in which a session can take a request, at once or in a moment.
OPEN_STATES: frozenset[SessionState] = frozenset({"idle", "parked", "settling"})

MatchAction = Literal["continue", "repeat_reply", "replay", "repeat_calls", "late", "not_found"]


class SessionSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A session between two requests."""

    id: str
    owner: str
    model: str
    state: SessionState
    #: `fingerprint` and `outline` of its history.
    fingerprint: str
    outline: str
    #: Fingerprint of its system prompt.
    system: str = ""


class Match(msgspec.Struct, frozen=True):
    """The decision about a request.

    - `continue`: the session takes the request.
    - `repeat_reply`: the session has answered this request; send the reply again.
    - `replay`: a new session takes over the history, under the id `session` if it is not empty.
    - `repeat_calls`: results are missing; request them again.
    - `late`: a result came after its time.
    - `not_found`: the session or the call does not exist.
    """

    action: MatchAction
    session: str = ""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, the model, and the session id that the request names (or an empty text)."""

    owner: str
    model: str
    session: str = ""


class SessionIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Lookups of sessions."""

    by_call: Callable[[str], SessionSnapshot | None]
    by_id: Callable[[str], SessionSnapshot | None]
    by_fingerprint: Callable[[str], SessionSnapshot | None]
    #: By the fingerprint of all items of the last request that the session answered.
    by_request: Callable[[str], SessionSnapshot | None]
    #: The session of a call whose time is over, by call and owner; an empty text if it is not.
    find_late: Callable[[str, str], str]
    #: Whether a session id was issued to an owner, also if the session has ended.
    is_issued: Callable[[str, str], bool]


def match_request(conversation: Conversation, query: SessionQuery, index: SessionIndex) -> Match:
    """Decide which session continues the conversation."""
    late = [session for item in conversation.results if (session := index.find_late(item.id, query.owner))]
    if late and not conversation.prompt:
        return Match("late", late[0])
    if (repeated := _find_repeated(conversation, query, index)) is not None:
        return Match("repeat_reply", repeated.id)
    waiting = _find_by_call(conversation, query, index)
    if waiting is not None:
        if _is_open(waiting, query) and waiting.outline == outline(conversation.history, query.owner):
            return Match("continue", waiting.id)
    elif query.session:
        return _match_by_id(conversation, query, index)
    elif conversation.history_length:
        found = index.by_fingerprint(fingerprint(conversation.history, query.owner))
        if found is not None and _can_continue(found, conversation, query):
            return Match("continue", found.id)
    return _replay(conversation)


def _find_by_call(
    conversation: Conversation, query: SessionQuery, index: SessionIndex
) -> SessionSnapshot | None:
    """Find the session that waits for one of the results."""
    for item in conversation.results:
        found = index.by_call(item.id)
        if found is not None and found.owner == query.owner:
            return found
    return None


def _find_repeated(
    conversation: Conversation, query: SessionQuery, index: SessionIndex
) -> SessionSnapshot | None:
    """Find the session that has answered this request. Clients send it again after a broken connection.

    A request without results is a repetition only if it names its session. Otherwise it may be a second
    conversation that begins in the same way, or a request for another answer.
    """
    found = index.by_request(fingerprint(conversation.items, query.owner))
    if found is None or not _is_open(found, query):
        return None
    return found if conversation.results or query.session == found.id else None


def _match_by_id(conversation: Conversation, query: SessionQuery, index: SessionIndex) -> Match:
    found = index.by_id(query.session)
    if found is None or found.owner != query.owner:
        has_ended = found is None and index.is_issued(query.session, query.owner)
        return _replay(conversation, query.session) if has_ended else Match("not_found", query.session)
    has_history = found.fingerprint == fingerprint(conversation.history, query.owner)
    if _can_continue(found, conversation, query) and has_history:
        return Match("continue", found.id)
    return _replay(conversation)


def _is_open(session: SessionSnapshot, query: SessionQuery) -> bool:
    return session.owner == query.owner and session.model == query.model and session.state in OPEN_STATES


def _can_continue(session: SessionSnapshot, conversation: Conversation, query: SessionQuery) -> bool:
    """Whether user content can continue the session. Results alone cannot: it does not wait for them."""
    return (
        _is_open(session, query)
        and bool(conversation.prompt)
        and session.system == fingerprint((), conversation.system)
    )


def _replay(conversation: Conversation, session: str = "") -> Match:
    calls = {item.id for item in conversation.history if item.kind == "call"}
    if any(item.id not in calls for item in conversation.results):
        return Match("not_found", session)
    if conversation.open_calls and not conversation.prompt:
        return Match("repeat_calls", session)
    return Match("replay", session)
