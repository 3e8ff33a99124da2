"""Judges a stream by what Gemini's strictest readers accept; knows nothing of our reader and writer.

A stream is `data: {json}` lines, each followed by a blank line, and nothing else. Every object is a chunk
or, as the last one, an error. The answer ends with a finish reason or not at all: nothing follows it.
"""

import base64
import binascii
from collections.abc import Callable, Iterator

import msgspec

from dragoman.dialects.base import Json, Violation

FINISH_REASONS = frozenset(
    {
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MALFORMED_FUNCTION_CALL",
        "IMAGE_SAFETY",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "IMAGE_PROHIBITED_CONTENT",
        "NO_IMAGE",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
        "CONTINUATION",
        "MALFORMED_RESPONSE",
    }
)

#: A part has exactly one of these, and it is of this type.
DATA_FIELDS: dict[str, type] = {
    "text": str,
    "inlineData": dict,
    "fileData": dict,
    "functionCall": dict,
    "functionResponse": dict,
    "executableCode": dict,
    "codeExecutionResult": dict,
    "toolCall": dict,
    "toolResponse": dict,
}

#: What must be inside, by name and type.
NEEDED: dict[str, dict[str, type]] = {
    "inlineData": {"data": str},
    "fileData": {"fileUri": str},
    "executableCode": {"language": str, "code": str},
    "codeExecutionResult": {"outcome": str},
    "toolCall": {"toolType": str},
    "toolResponse": {"toolType": str},
}

CHUNK_FIELDS: dict[str, type] = {
    "candidates": list,
    "usageMetadata": dict,
    "promptFeedback": dict,
    "modelVersion": str,
    "responseId": str,
}

ERROR_FIELDS: dict[str, type] = {"code": int, "message": str, "status": str}

#: From the alphabet for URLs to the standard one.
STANDARD = str.maketrans("-_", "+/")

#: Line ends to readers that split decoded text, although JSON allows them raw.
UNSAFE = ("\x85", "\u2028", "\u2029")


def check_stream(stream: bytes) -> list[Violation]:
    judge = _Judge()
    return [*judge.stream(stream)]


class _Judge:
    """Follows one stream."""

    def __init__(self) -> None:
        self._finished: set[int] = set()
        self._begun: set[int] = set()
        self._ended = False
        self._call_ids: set[str] = set()
        #: A call that announced more of itself.
        self._arriving = False

    def stream(self, stream: bytes) -> Iterator[Violation]:
        number = 0
        for number, frame in enumerate(_frames(stream), 1):
            yield from (Violation(number, message) for message in self._frame(frame))
        if not number:
            yield Violation(0, "an empty stream")
        elif not self._ended and (not self._finished or self._begun - self._finished):
            yield Violation(number, "ends without finishReason, blockReason or error")
        elif self._arriving:
            yield Violation(number, "ends inside a call")

    def _frame(self, frame: str) -> Iterator[str]:
        if self._ended:
            yield "a frame after the end"
        if not frame.startswith("data: ") or "\n" in frame or "\r" in frame:
            yield "not a single line `data: {json}` and a blank line"
            return
        if any(character in frame for character in UNSAFE):
            yield "a raw line separator inside a line"
        try:
            chunk = msgspec.json.decode(frame[len("data: ") :])
        except (msgspec.DecodeError, RecursionError):
            yield "not JSON"
            return
        if not isinstance(chunk, dict):
            yield "not a JSON object"
        elif "error" in chunk:
            self._ended = True
            yield from _error(chunk["error"])
        else:
            yield from self._chunk(chunk)

    def _chunk(self, chunk: Json) -> Iterator[str]:
        yield from _typed(chunk, CHUNK_FIELDS, "", required=False)
        candidates = chunk.get("candidates")
        if isinstance(candidates, list):
            for candidate in candidates:
                if isinstance(candidate, dict):
                    yield from self._candidate(candidate)
                else:
                    yield "a candidate that is no object"
        feedback = chunk.get("promptFeedback")
        if not candidates and isinstance(feedback, dict) and isinstance(feedback.get("blockReason"), str):
            self._ended = True
        usage = chunk.get("usageMetadata")
        for name, count in usage.items() if isinstance(usage, dict) else ():
            if name.endswith("TokenCount") and (type(count) is not int or count < 0):
                yield f"usageMetadata.{name} is no count"

    def _candidate(self, candidate: Json) -> Iterator[str]:
        index = candidate.get("index", 0)
        if type(index) is not int or index < 0:
            yield "a candidate's index is no number"
            return
        if index in self._finished:
            yield "a candidate goes on after its finishReason"
        self._begun.add(index)
        content = candidate.get("content")
        if content is not None:
            yield from self._content(content)
        reason = candidate.get("finishReason")
        if reason is None:
            return
        self._finished.add(index)
        if reason not in FINISH_REASONS:
            yield "an unknown finishReason"

    def _content(self, content: object) -> Iterator[str]:
        if not isinstance(content, dict):
            yield "content is no object"
            return
        if content.get("role") != "model":
            yield "content.role is not model"
        parts = content.get("parts", [])
        for part in parts if isinstance(parts, list) else [None]:
            if isinstance(part, dict):
                yield from self._part(part)
            else:
                yield "content.parts is no array of objects"

    def _part(self, part: Json) -> Iterator[str]:
        names = [name for name in DATA_FIELDS if name in part]
        # A signature may stand alone, and a newer API may have data of a newer kind.
        unknown = "thoughtSignature" in part or any(isinstance(value, dict) for value in part.values())
        if len(names) > 1 or (not names and not unknown):
            yield f"a part with {len(names)} kinds of data"
            return
        if "thought" in part and type(part["thought"]) is not bool:
            yield "thought is no boolean"
        yield from _signature(part.get("thoughtSignature"))
        for name in names:
            value = part[name]
            if not isinstance(value, DATA_FIELDS[name]):
                yield f"{name} has the wrong type"
            elif isinstance(value, dict):
                yield from _CHECKS.get(name, _Judge._whole)(self, name, value)

    def _whole(self, name: str, value: Json) -> Iterator[str]:
        yield from _typed(value, NEEDED.get(name, {}), name, required=True)

    def _call(self, name: str, call: Json) -> Iterator[str]:
        goes_on = call.get("willContinue") is True
        begins = "name" in call
        if begins == self._arriving:
            yield "a call inside a call" if begins else "a call without a name"
        if begins and (not isinstance(call["name"], str) or not call["name"]):
            yield "functionCall.name is no name"
        if (
            begins
            and not goes_on
            and "partialArgs" not in call
            and not isinstance(call.get("args", {}), dict)
        ):
            yield "functionCall.args is no object"
        given = call.get("id")
        if given is not None:
            if not isinstance(given, str) or not given:
                yield "functionCall.id is no text"
            elif given in self._call_ids:
                yield "functionCall.id is used twice"
            else:
                self._call_ids.add(given)
        self._arriving = goes_on


_CHECKS: dict[str, Callable[[_Judge, str, Json], Iterator[str]]] = {"functionCall": _Judge._call}


def _frames(stream: bytes) -> Iterator[str]:
    """The stream cut at blank lines; what is left over after the last one is a frame too."""
    text = stream.decode("utf-8", "replace").replace("\r\n", "\n")
    *frames, rest = text.split("\n\n")
    yield from frames
    if rest:
        # Its blank line is missing: no reader gets to see it as an event.
        yield rest + "\n"


def _error(error: object) -> Iterator[str]:
    if isinstance(error, dict):
        yield from _typed(error, ERROR_FIELDS, "error", required=True)
    else:
        yield "error is no object"


def _typed(value: Json, fields: dict[str, type], path: str, *, required: bool) -> Iterator[str]:
    for name, kind in fields.items():
        if (required or name in value) and type(value.get(name)) is not kind:
            yield f"{path}.{name} has the wrong type".removeprefix(".")


def _signature(signature: object) -> Iterator[str]:
    if signature is None:
        return
    try:
        # Both alphabets are legal.
        text = signature.translate(STANDARD) if isinstance(signature, str) else "?"
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        yield "thoughtSignature is no base64"
