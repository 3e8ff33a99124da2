"""Whole replies of the toy API as streams, and back."""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.hub.builder import TRUNCATED_MESSAGE
from dragoman.hub.errors import Failure
from dragoman.wire.sse import Frame, Frames
from tests.toy_dialect.errors import write_error


def explode(body: Json) -> Frames:
    payloads: list[Json] = [{"begin": {"id": body.get("id", ""), "model": body.get("model", "")}}]
    parts = body.get("parts")
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"call": {"input": text, **call}}:
                payloads += ({"call": call}, {"input": text})
            case {"text": text}:
                payloads.append({"text": text})
    if "end" in body:
        payloads.append({"end": body["end"], "usage": body.get("usage")})
    elif "failed" in body:
        payloads = [{"failed": body["failed"]}]
    return tuple(Frame("", msgspec.json.encode(payload)) for payload in payloads)


def collect(frames: Iterable[Frame]) -> Json:
    body: Json = {}
    parts: list[Json] = []
    for payload in (msgspec.json.decode(frame.data) for frame in frames):
        match payload:
            case {"begin": begin}:
                body = {**begin, "parts": parts}
            case {"text": text} if parts and "text" in parts[-1]:
                parts[-1]["text"] += text
            case {"text": _}:
                parts.append(payload)
            case {"call": call}:
                parts.append({"call": {**call, "input": ""}})
            case {"input": text}:
                parts[-1]["call"]["input"] += text  # type: ignore[index]  # the grammar puts it after a call
            case {"end": _}:
                return {**body, **payload}
            case {"failed": _}:
                return dict(payload)
    return write_error(Failure(kind="overloaded", message=TRUNCATED_MESSAGE))
