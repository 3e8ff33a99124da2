"""What a stream tells beside its parts: counts, ratings, grounding, probabilities, times.

Later values replace earlier ones, name by name, except where each chunk tells only its own share.
"""

from datetime import UTC, datetime

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.spelling import camel
from dragoman.hub.content import Extras

KNOWN_IN_REPLY = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
#: An `error` that is empty is none; to tell it again would make it one.
_TYPES_IN_REPLY: dict[str, type | tuple[()]] = {"promptFeedback": dict, "createTime": str, "error": ()}
_CONTENTS_WITHOUT_PARTS: tuple[Json, ...] = ({"role": "model"}, {"role": "model", "parts": []})
_KNOWN_IN_CANDIDATE = frozenset({"content", "finishReason", "index"})

#: Lists of which every chunk holds the share that belongs to its own text.
_SHARES: dict[str, tuple[str, ...]] = {"logprobsResult": ("topCandidates", "chosenCandidates")}
MAX_SHARES = 200_000


def joined(name: str, before: object, after: object) -> object:
    """The value of a name after one more chunk."""
    if name not in _SHARES or not isinstance(before, dict) or not isinstance(after, dict):
        return after
    whole = {**before, **after}
    for share in _SHARES[name]:
        first, second = before.get(share), after.get(share)
        if isinstance(first, list) and isinstance(second, list):
            # Grows in place: a copy at each chunk would be quadratic.
            if len(first) < MAX_SHARES:
                first.extend(second)
            whole[share] = first
    return whole


def seconds_of(time: object) -> int:
    """Seconds since the epoch of an RFC 3339 time; 0 if it is none."""
    if not isinstance(time, str):
        return 0
    try:
        moment = datetime.fromisoformat(time)
        return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
    except (ValueError, OverflowError):
        return 0


class Gathered:
    """The metadata of one reply, as far as it has been told."""

    def __init__(self) -> None:
        self.usage: Json = {}
        self._reply: Json = {}
        self._candidate: Json = {}

    def count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.usage.update(camel(usage))

    def reply(self, payload: Json) -> None:
        self.count(payload.get("usageMetadata"))
        if not payload.keys() <= KNOWN_IN_REPLY:
            for key, value in payload.items():
                if key not in KNOWN_IN_REPLY and isinstance(value, _TYPES_IN_REPLY.get(key, object)):
                    self._reply[key] = value

    def candidate(self, candidate: Json) -> Json:
        """Take in a candidate; gives back what it told beside its parts."""
        content = candidate.get("content")
        told: Json = {}
        if isinstance(content, dict) and content in _CONTENTS_WITHOUT_PARTS:
            # It matters only if no parts come at all.
            self._candidate["content"] = content
        if not candidate.keys() <= _KNOWN_IN_CANDIDATE:
            told = {key: value for key, value in candidate.items() if key not in _KNOWN_IN_CANDIDATE}
            for key, value in told.items():
                self._candidate[key] = joined(key, self._candidate.get(key), value)
        return told

    def explanation(self) -> str:
        feedback = self._reply.get("promptFeedback")
        blocked = feedback.get("blockReasonMessage") if isinstance(feedback, dict) else None
        for text in (self._candidate.get("finishMessage"), blocked):
            if isinstance(text, str):
                return text
        return ""

    def extras(self, *, blocked: bool) -> Extras:
        """For the end of the reply: what only Gemini clients understand."""
        extras: Extras = {}
        if self._candidate:
            extras["candidate"] = self._candidate
        if self._reply:
            extras["reply"] = self._reply
        if blocked:
            extras["blocked"] = True
        return extras
