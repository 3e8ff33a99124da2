"""Checks a stream against what the strictest clients of Gemini accept.

A stream is lines `data: {json}`, each with a blank line after it, and nothing else. Every object is a chunk;
the last may be an error. Nothing follows the finish reason.
"""

import re

from dragoman.dialects.interfaces import Json, Violation
from dragoman.dialects.stream_check_toolkit import (
    Exactly,
    FieldRule,
    FieldRules,
    StreamChecker,
    fields,
    one_of,
)

_REASONS = one_of(
    "STOP MAX_TOKENS SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII NO_IMAGE IMAGE_SAFETY"
    " MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS IMAGE_PROHIBITED_CONTENT"
    " IMAGE_RECITATION IMAGE_OTHER CONTINUATION MALFORMED_RESPONSE"
)
_CHUNK: FieldRules = {
    "candidates": "list",
    **fields("usageMetadata promptFeedback", "object"),
    **fields("modelVersion responseId", "text"),
}
_CANDIDATE: FieldRules = {"index": "count", "content": ("object", None), "finishReason": (_REASONS, None)}
_CONTENT: FieldRules = {"role": Exactly("model")}
_ERROR: FieldRules = {"code": "count", **fields("message status", "text")}
#: A part has exactly one of these fields.
_DATA: dict[str, FieldRule] = {
    "text": "text",
    "inlineData": {"data": "text"},
    "fileData": {"fileUri": "text"},
    "functionCall": "object",
    "functionResponse": "object",
    "executableCode": {"language": "text", "code": "text"},
    "codeExecutionResult": {"outcome": "text"},
    "toolCall": {"toolType": "text"},
    "toolResponse": {"toolType": "text"},
}
#: Base64 in the standard alphabet or in that for URLs.
_BASE64 = re.compile(r"(?:[\w+/-]{4})*(?:[\w+/-]{2}==|[\w+/-]{3}=)?", re.ASCII)
_PART: FieldRules = {"thought": "flag", "thoughtSignature": (_BASE64, None)}
#: JSON allows these characters, but clients that split decoded text into lines treat them as line ends.
_LINE_SEPARATOR = re.compile("[\x85\u2028\u2029]")


_MOVES = {
    "NEW": {"chunk": "NEW", "block": "DONE", "error": "DONE"},
    "DONE": {},
}


class GeminiChecker(StreamChecker):
    """Checks one stream of `generateContent` chunks; see `StreamChecker`."""

    def __init__(self) -> None:
        super().__init__(_MOVES)
        self._started: set[int] = set()
        self._finished: set[int] = set()
        self._call_ids: set[str] = set()
        #: The last call announced more pieces.
        self._is_call_open = False

    def check_frame(self, event: str, data: bytes) -> None:
        is_safe = not _LINE_SEPARATOR.search(data.decode("utf-8", "replace"))
        self.require(is_safe, "a raw line separator inside a line")
        chunk = self.decode(data)
        if chunk is None:
            return
        if "error" in chunk:
            self.move("error")
            self.check_fields(chunk, {"error": _ERROR})
            return
        self.check_fields(chunk, _CHUNK, required=False)
        candidates, feedback, usage = map(chunk.get, ("candidates", "promptFeedback", "usageMetadata"))
        is_blocked = isinstance(feedback, dict) and isinstance(feedback.get("blockReason"), str)
        self.move("block" if is_blocked and not candidates else "chunk")
        for candidate in self.require_objects(candidates, "candidates") if candidates else []:
            self._check_candidate(candidate)
        if isinstance(usage, dict):
            counts = [name for name in usage if name.endswith("TokenCount")]
            self.check_fields(usage, dict.fromkeys(counts, "count"), "usageMetadata")

    def check_end(self) -> None:
        is_complete = self.state == "DONE" or (self._finished and self._started == self._finished)
        if not self.number:
            self.report("an empty stream")
        elif self.require(bool(is_complete), "the stream ends without finishReason, blockReason or error"):
            self.require(self.state == "DONE" or not self._is_call_open, "the stream ends inside a call")

    def _check_candidate(self, candidate: Json) -> None:
        self.check_fields(candidate, _CANDIDATE, required=False)
        index, content = candidate.get("index", 0), candidate.get("content")
        if not isinstance(index, int):
            return
        self.require(index not in self._finished, "a candidate continues after its finishReason")
        self._started.add(index)
        self._finished |= set() if candidate.get("finishReason") is None else {index}
        if isinstance(content, dict):
            self.check_fields(content, _CONTENT, "content")
            for part in self.require_objects(content.get("parts", []), "content.parts"):
                self._check_part(part)

    def _check_part(self, part: Json) -> None:
        names = [name for name in _DATA if name in part]
        # A signature may come alone, and a newer API may have objects that are unknown here.
        is_other = "thoughtSignature" in part or any(isinstance(value, dict) for value in part.values())
        is_legal = len(names) == 1 or (not names and is_other)
        if not self.require(is_legal, f"a part with {len(names)} kinds of data"):
            return
        self.check_fields(part, _PART, required=False)
        self.check_fields(part, {name: _DATA[name] for name in names})
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._check_call(call)

    def _check_call(self, call: Json) -> None:
        is_first = "name" in call
        continues = call.get("willContinue") is True
        self.require(is_first or self._is_call_open, "a call without a name")
        self.require(not is_first or not self._is_call_open, "a call inside a call")
        self._is_call_open = continues
        is_whole = is_first and not continues and "partialArgs" not in call
        rules: FieldRules = {"name": "name", "id": ("name", None), **({"args": "object"} if is_whole else {})}
        self.check_fields(call, rules, "functionCall", required=False)
        call_id = call.get("id")
        if isinstance(call_id, str):
            self.require(call_id not in self._call_ids, "functionCall.id is used twice")
            self._call_ids.add(call_id)


def check_stream(stream: bytes) -> list[Violation]:
    """Everything in the stream that a strict client refuses, in order."""
    return GeminiChecker().check_line_stream(stream.replace(b"\r\n", b"\n"), has_comments=False)
