"""Replay: finds the recorded turn that a new request repeats, and where it deviates.

An agent varies some values of its requests by itself: ids, dates, times, temporary folders. They are replaced
by placeholders before two requests are compared.
"""

import re
import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from dragoman.records.differences import Difference, compare
from dragoman.records.filters import Condition
from dragoman.records.prompts import PromptPart, find_break, list_parts
from dragoman.records.reading import find_session_id, iterate_turns, read_raw, read_turn
from dragoman.records.redaction import redact_content

#: Members that name a session, a device or a request; they are not part of the conversation.
_VARIED_MEMBERS = frozenset(
    {"metadata", "user", "prompt_cache_key", "client_metadata", "safety_identifier", "id", "request_id"}
)
#: Members with the id of a call, which the model chose. They are numbered in the order of the calls.
_CALL_MEMBERS = frozenset({"tool_use_id", "tool_call_id", "call_id"})
#: What agents vary in texts, and the placeholders.
_VARIED_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "<uuid>"),
    (
        re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?"),
        "<date>",
    ),
    (re.compile(r"\b\d{1,2}:\d{2}:\d{2}\b"), "<time>"),
    (re.compile(r"\b\d{1,2}/\d{1,2}/\d{4}\b"), "<date>"),
    (re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b"), "<day>"),
    (
        re.compile(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,2}(?:, \d{4})?\b"),
        "<date>",
    ),
    # Claude Code writes a hash of the request into its system text.
    (re.compile(r"\bcch=[0-9a-f]+"), "cch=<hash>"),
    (re.compile(r"\b(?:Chunk ID|chunk_id): \w+"), "<chunk>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b"), "<span>"),
    (re.compile(r"\b(?:pid|PID|process|Process)[ :=#]+\d+"), "<process>"),
    (re.compile(r"(?<![\w/])/(?:tmp|var/folders|private/tmp)/[\w.+/-]+"), "<temporary>"),
)

_encode = msgspec.json.Encoder(order="deterministic").encode


class RecordedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn with all that is needed to serve its reply again."""

    number: int
    client: str
    sub_agent: str
    request: dict[str, Any]
    fingerprint: bytes
    status: int
    headers: dict[str, str]
    reply: bytes


class ReplayedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request during a replay. `number` is the turn that it repeats, or comes nearest to; 0: none.

    `is_live`: it got the reply of a live model, otherwise that of the turn, if there was any.
    """

    number: int
    is_exact: bool
    is_live: bool = False
    #: Where the request differs from that of the turn.
    differences: list[Difference] = []


class ReplaySession:
    """The turns of a recorded session, and which of them were served. `at`: later turns are not served."""

    def __init__(self, turns: list[RecordedTurn], *, at: int = 0, is_strict: bool = False) -> None:
        self._turns = [turn for turn in turns if not at or turn.number < at]
        self._served: set[int] = set()
        self._is_strict = is_strict
        self._is_fork = bool(at)
        self.requests: list[ReplayedRequest] = []

    def answer(self, body: bytes) -> RecordedTurn | None:
        """The turn that a request repeats, or the most similar one that was not served yet.

        None if there is none: in a fork a live model answers then.
        """
        request = normalise_request(body)
        fingerprint = build_fingerprint(request)
        same = [turn for turn in self._turns if turn.fingerprint == fingerprint]
        # An agent that sends a request again gets the same reply again.
        turn = next((each for each in same if each.number not in self._served), same[-1] if same else None)
        if turn is not None:
            return self._serve(turn, [], is_exact=True)
        nearest = self._find_nearest(request)
        differences = compare(nearest.request, request) if nearest else []
        if nearest is None or self._is_fork or self._is_strict:
            number = nearest.number if nearest else 0
            self.requests.append(
                ReplayedRequest(number=number, is_exact=False, is_live=self._is_fork, differences=differences)
            )
            return None
        return self._serve(nearest, differences, is_exact=False)

    def list_unserved(self) -> list[int]:
        return [turn.number for turn in self._turns if turn.number not in self._served]

    def _serve(self, turn: RecordedTurn, differences: list[Difference], *, is_exact: bool) -> RecordedTurn:
        self._served.add(turn.number)
        self.requests.append(ReplayedRequest(number=turn.number, is_exact=is_exact, differences=differences))
        return turn

    def _find_nearest(self, request: Mapping[str, object]) -> RecordedTurn | None:
        """The turn whose prompt is most alike, of those that were not served; the first of equals."""
        parts = list_parts(request)
        left = [turn for turn in self._turns if turn.number not in self._served]
        return max(left, key=lambda turn: _measure_likeness(list_parts(turn.request), parts), default=None)


def load_session(connection: sqlite3.Connection, session: str) -> list[RecordedTurn]:
    """The turns of a session that have contents, in their order."""
    session = find_session_id(connection, session)
    turns: list[RecordedTurn] = []
    for row in iterate_turns(connection, Condition("session = ?", (session,))):
        body, reply = (read_raw(connection, row["id"], part) for part in ("client_request", "client_reply"))
        if body is None or reply is None:
            continue
        request = normalise_request(body)
        turns.append(
            RecordedTurn(
                number=row["number"],
                client=row["client"],
                sub_agent=row["sub_agent"],
                request=request,
                fingerprint=build_fingerprint(request),
                status=row["status"],
                headers=read_turn(connection, session, row["number"])["reply_headers"],
                reply=reply,
            )
        )
    return turns


def normalise_request(body: bytes) -> dict[str, Any]:
    """The request without what an agent varies by itself. Secrets are masked, as they are in the records."""
    try:
        request = msgspec.json.decode(redact_content(body))
        normalised: dict[str, Any] = _normalise(request, {}) if isinstance(request, dict) else {}
    except (ValueError, RecursionError):
        return {}
    return normalised


def build_fingerprint(request: Mapping[str, object]) -> bytes:
    return blake2b(_encode(request), digest_size=16).digest()


def _normalise(value: Any, calls: dict[str, int]) -> Any:
    """`calls`: the numbers of the ids that were seen so far. A call names its own id `id` or `call_id`."""
    if isinstance(value, dict):
        normalised = {}
        for name, each in value.items():
            if isinstance(each, str) and name in ("id", *_CALL_MEMBERS):
                number = calls.setdefault(each, len(calls) + 1)
                if name in _CALL_MEMBERS:
                    normalised[name] = f"<call {number}>"
            elif name not in _VARIED_MEMBERS:
                normalised[name] = _normalise(each, calls)
        return normalised
    if isinstance(value, list):
        return [_normalise(each, calls) for each in value]
    return normalise_text(value) if isinstance(value, str) else value


def normalise_text(text: str) -> str:
    for pattern, placeholder in _VARIED_TEXTS:
        text = pattern.sub(placeholder, text)
    return text


def _measure_likeness(before: list[PromptPart], after: list[PromptPart]) -> tuple[float, int]:
    found = find_break(before, after)
    shared = 1.0 if found is None else found.shared
    return shared, -abs(len(before) - len(after))
