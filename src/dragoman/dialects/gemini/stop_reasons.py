"""Translates finish reasons, and collects the other metadata of a reply.

Gemini uses `STOP` for an answer, a stop sequence and a tool call; the content shows the difference. Of the
metadata (ratings, grounding, probabilities, times) a later value replaces the earlier value of its field,
except where each chunk holds only its own share.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from dragoman.dialects.gemini.names import to_camel
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Extras
from dragoman.hub.builder import reconcile_cause
from dragoman.hub.events import ReplyFinished, StopCause

_decode = msgspec.json.Decoder().decode

CAUSES: dict[str, StopCause] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    # The server's own limit for one request; the client can request the rest.
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    # The model wanted to call a tool and did not succeed. Gemini may send a part of such a call as text.
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "MALFORMED_RESPONSE": "malformed_call",
    "TOO_MANY_TOOL_CALLS": "malformed_call",
    "LANGUAGE": "other",
    "NO_IMAGE": "other",
    "IMAGE_OTHER": "other",
    "OTHER": "other",
}

#: Values of servers that fill every field: the reply continues.
NO_REASON = frozenset({"", "FINISH_REASON_UNSPECIFIED"})
NOT_BLOCKED = frozenset({"", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})

REASONS: dict[StopCause, str] = {
    "end": "STOP",
    "tool_calls": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "context_window": "MAX_TOKENS",
    "refusal": "SAFETY",
    "content_filter": "SAFETY",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "pause": "OTHER",
    "compaction": "OTHER",
    "other": "OTHER",
}

KNOWN_IN_REPLY = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
#: An empty `error` is no error. It is dropped, because a client would treat it as one.
_TYPES_IN_REPLY: dict[str, type | tuple[()]] = {"promptFeedback": dict, "createTime": str, "error": ()}
_CONTENTS_WITHOUT_PARTS: tuple[Json, ...] = ({"role": "model"}, {"role": "model", "parts": []})
_KNOWN_IN_CANDIDATE = frozenset({"content", "finishReason", "index"})

#: Objects that are merged over the chunks, with the lists that every chunk holds only for its own text.
_SHARES: dict[str, tuple[str, ...]] = {
    "logprobsResult": ("topCandidates", "chosenCandidates"),
    # Later feedback does not cancel that the prompt was blocked.
    "promptFeedback": (),
}
MAX_SHARES = 200_000


def choose_finish_reason(finished: ReplyFinished, *, native: bool, has_calls: bool, visible: bool) -> str:
    """The finish reason to write. `native`: the reply comes from Gemini, whose own reason is kept if it fits.

    A reply without visible content does not end with `STOP`: Gemini CLI would treat the stream as broken and
    retry. `OTHER` reports something unusual without an invented text.
    """
    raw = finished.raw_cause
    if native and raw in CAUSES and reconcile_cause(CAUSES[raw], has_calls=has_calls) == finished.cause:
        return raw
    reason = REASONS[finished.cause]
    return "OTHER" if reason == "STOP" and not visible else reason


def merge_value(name: str, before: object, after: object) -> object:
    """The value of a field after one more chunk."""
    if name not in _SHARES or not isinstance(before, dict) or not isinstance(after, dict):
        return after
    whole = {**before, **after}
    for share in _SHARES[name]:
        first, second = before.get(share), after.get(share)
        if isinstance(first, list) and isinstance(second, list):
            # Grows in place: a copy for each chunk takes quadratic time.
            if len(first) < MAX_SHARES:
                first.extend(second)
            whole[share] = first
    return whole


def read_seconds(time: object) -> int:
    """The seconds since the epoch of an RFC 3339 time; 0 if the value is no such time."""
    if not isinstance(time, str):
        return 0
    try:
        moment = datetime.fromisoformat(time)
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
    except (ValueError, OverflowError):
        return 0


class ReplyMetadata:
    """The metadata of one reply so far."""

    def __init__(self) -> None:
        self.usage: Json = {}
        self._reply: Json = {}
        self._candidate: Json = {}

    def add_usage(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.usage.update(to_camel(usage))

    def read_usages(self, values: Sequence[bytes]) -> bool:
        """Add usages that are not decoded. False if one of them is no JSON object in one line."""
        joined = b"".join(values)
        if joined.find(b"\n") >= 0 or joined.find(b"\r") >= 0:
            return False
        try:
            usages = [_decode(value) for value in values]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if not all(isinstance(usage, dict) for usage in usages):
            return False
        for usage in usages:
            self.add_usage(usage)
        return True

    def add_chunk(self, payload: Json) -> None:
        self.add_usage(payload.get("usageMetadata"))
        if not payload.keys() <= KNOWN_IN_REPLY:
            for key, value in payload.items():
                if key not in KNOWN_IN_REPLY and isinstance(value, _TYPES_IN_REPLY.get(key, object)):
                    self._reply[key] = merge_value(key, self._reply.get(key), value)

    def add_candidate(self, candidate: Json) -> Json:
        """Add a candidate. Returns its fields other than the content and the finish reason."""
        content = candidate.get("content")
        metadata: Json = {}
        if isinstance(content, dict) and content in _CONTENTS_WITHOUT_PARTS:
            # It is needed only if the reply has no parts at all.
            self._candidate["content"] = content
        if not candidate.keys() <= _KNOWN_IN_CANDIDATE:
            metadata = {key: value for key, value in candidate.items() if key not in _KNOWN_IN_CANDIDATE}
            for key, value in metadata.items():
                self._candidate[key] = merge_value(key, self._candidate.get(key), value)
        return metadata

    def find_explanation(self) -> str:
        feedback = self._reply.get("promptFeedback")
        blocked = feedback.get("blockReasonMessage") if isinstance(feedback, dict) else None
        for text in (self._candidate.get("finishMessage"), blocked):
            if isinstance(text, str):
                return text
        return ""

    def build_extras(self, *, blocked: bool) -> Extras:
        """The extras of the reply's end, which only Gemini clients understand."""
        extras: Extras = {}
        if self._candidate:
            extras["candidate"] = self._candidate
        if self._reply:
            extras["reply"] = self._reply
        if blocked:
            extras["blocked"] = True
        return extras
