"""Which session a request continues, if any: a decision over what is known, without waiting for anything.

The order: a call's id, which is unique; the session that the client names; the longest history that is a
session's own. Whatever fits none of them, or fits and yet says something else, is replayed from what the
client shows, so that a client which keeps nothing always gets on.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from dragoman.upstream.claude_code.conversation import Conversation, fingerprint, outline

State = Literal["idle", "parked", "settling", "running"]
#: A session in one of these can take a request, at once or in a moment.
OPEN: frozenset[State] = frozenset({"idle", "parked", "settling"})

Step = Literal["continue", "replay", "again", "late", "lost"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session stands between two requests."""

    id: str
    owner: str
    model: str
    state: State
    #: Of the whole history, and of it without Claude's words.
    mark: str
    outline: str
    #: Of the system prompt that it was begun with.
    system: str = ""
    #: Calls whose results would come too late.
    overdue: frozenset[str] = frozenset()


class Verdict(msgspec.Struct, frozen=True):
    """`continue`: with this session. `replay`: anew, under this id if it is named. `again`: results are
    missing, ask for them again. `late`: the call has timed out. `lost`: there is no such session."""

    step: Step
    session: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, for which model, and for which session if it names one."""

    owner: str
    model: str
    named: str = ""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to look things up in."""

    by_call: Callable[[str], Standing | None]
    by_id: Callable[[str], Standing | None]
    by_mark: Callable[[str], Standing | None]
    #: Whether an id was ever given out here, to this owner.
    is_of: Callable[[str, str], bool]


def decide(talk: Conversation, claim: Claim, known: Known) -> Verdict:
    waiting = _by_call(talk, claim, known)
    if waiting is not None:
        if waiting.overdue.intersection(atom.id for atom in talk.results) and not talk.words:
            return Verdict("late", waiting.id)
        if _is_open(waiting, claim) and waiting.outline == outline(talk.history, claim.owner):
            return Verdict("continue", waiting.id)
    elif claim.named:
        return _by_name(talk, claim, known)
    else:
        found = known.by_mark(fingerprint(talk.history, claim.owner)) if talk.said else None
        if found is not None and _continues(found, talk, claim):
            return Verdict("continue", found.id)
    return _anew(talk)


def _by_call(talk: Conversation, claim: Claim, known: Known) -> Standing | None:
    """The session that waits, or waited, for one of these results."""
    for atom in talk.results:
        found = known.by_call(atom.id)
        if found is not None and found.owner == claim.owner:
            return found
    return None


def _by_name(talk: Conversation, claim: Claim, known: Known) -> Verdict:
    named, found = claim.named, known.by_id(claim.named)
    if found is None or found.owner != claim.owner:
        # Once the caller's and gone since: the history is all that is needed.
        is_gone = found is None and known.is_of(named, claim.owner)
        return _anew(talk, named) if is_gone else Verdict("lost", named)
    if _continues(found, talk, claim) and found.mark == fingerprint(talk.history, claim.owner):
        return Verdict("continue", found.id)
    return _anew(talk)


def _is_open(found: Standing, claim: Claim) -> bool:
    return found.owner == claim.owner and found.model == claim.model and found.state in OPEN


def _continues(found: Standing, talk: Conversation, claim: Claim) -> bool:
    """Results alone cannot go on with a session that does not wait for them."""
    return _is_open(found, claim) and bool(talk.words) and found.system == fingerprint((), talk.system)


def _anew(talk: Conversation, session: str = "") -> Verdict:
    shown = {atom.id for atom in talk.history if atom.kind == "call"}
    if any(atom.id not in shown for atom in talk.results):
        return Verdict("lost", session)
    if talk.open_calls and not talk.words:
        return Verdict("again", session)
    return Verdict("replay", session)
