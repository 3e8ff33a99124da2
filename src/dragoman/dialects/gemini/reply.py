"""Turns whole replies into streams and back.

A chunk of a stream has the shape of a whole reply, so a whole reply is a stream of one chunk. `collect` joins
what a client joins: neighbouring texts of one kind, until one of them has a signature.
"""

from collections.abc import Iterable

import msgspec

from dragoman.dialects.gemini.stop_reasons import merge_value
from dragoman.dialects.gemini.stream_blocks import PartialArguments
from dragoman.dialects.interfaces import Json
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, Frames

_CALL_PROGRESS = frozenset({"partialArgs", "willContinue"})


def explode(body: Json) -> Frames:
    """The frames of the stream that has the same content as this whole reply."""
    return (Frame("", encode(body)),)


def collect(frames: Iterable[Frame]) -> Json:
    """The whole reply that a client accumulates, or an error body if the stream failed."""
    body: Json = {}
    usage: Json = {}
    candidates: dict[int, _CandidateBuilder] = {}
    for frame in frames:
        try:
            chunk = msgspec.json.decode(frame.data, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if "error" in chunk:
            return chunk
        for candidate in _objects(chunk.pop("candidates", None)):
            index = candidate.get("index", 0)
            if type(index) is int:
                candidates.setdefault(index, _CandidateBuilder()).add(candidate)
        counts = chunk.pop("usageMetadata", None)
        if isinstance(counts, dict):
            usage |= counts
        body |= chunk
    if candidates:
        body["candidates"] = [candidates[index].value() for index in sorted(candidates)]
    if usage:
        body["usageMetadata"] = usage
    return body


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class _CandidateBuilder:
    """Builds one candidate of a whole reply from stream chunks."""

    def __init__(self) -> None:
        self._fields: Json = {}
        self._content: Json | None = None
        self._parts: list[_PartBuilder] = []

    def add(self, candidate: Json) -> None:
        for name, value in candidate.items():
            if name == "content" and isinstance(value, dict):
                self._content = {**(self._content or {}), **value}
                for part in _objects(value.get("parts")):
                    self._add_part(part)
            else:
                self._fields[name] = merge_value(name, self._fields.get(name), value)

    def value(self) -> Json:
        if self._content is None:
            return self._fields
        parts = [part.value() for part in self._parts]
        if parts:
            self._content["parts"] = parts
        return {"content": self._content, **self._fields}

    def _add_part(self, part: Json) -> None:
        if self._parts and self._parts[-1].is_continued_by(part):
            self._parts[-1].add(part)
        elif part != {"text": ""}:
            self._parts.append(_PartBuilder(part))


class _PartBuilder:
    """Accumulates one part: a text from texts, a call from partial arguments."""

    def __init__(self, part: Json) -> None:
        self._fields: Json = part
        text, call = part.get("text"), part.get("functionCall")
        self._pieces: list[str] | None = [text] if isinstance(text, str) else None
        self._arguments: PartialArguments | None = None
        if isinstance(call, dict) and not _CALL_PROGRESS.isdisjoint(call):
            self._arguments = PartialArguments(call.get("args"))
            self._add_arguments(call)

    def is_continued_by(self, part: Json) -> bool:
        """Whether the part continues this one. A text with a signature is complete."""
        if self._arguments is not None:
            call = part.get("functionCall")
            return isinstance(call, dict) and not call.get("name")
        return (
            self._pieces is not None
            and isinstance(part.get("text"), str)
            and bool(self._fields.get("thought")) == bool(part.get("thought"))
            and "thoughtSignature" not in self._fields
        )

    def add(self, part: Json) -> None:
        text, call = part.get("text"), part.get("functionCall")
        if isinstance(call, dict):
            self._add_arguments(call)
        elif self._pieces is not None and isinstance(text, str):
            self._pieces.append(text)
        self._fields = {**part, **self._fields}

    def _add_arguments(self, call: Json) -> None:
        pieces = call.get("partialArgs")
        if self._arguments is not None and isinstance(pieces, list):
            for piece in pieces:
                self._arguments.add(piece)

    def value(self) -> Json:
        if self._pieces is not None:
            return {**self._fields, "text": "".join(self._pieces)}
        call = self._fields.get("functionCall")
        if self._arguments is None or not isinstance(call, dict):
            return self._fields
        fields = {name: value for name, value in call.items() if name not in _CALL_PROGRESS}
        return {**self._fields, "functionCall": {**fields, "args": self._arguments.value()}}
