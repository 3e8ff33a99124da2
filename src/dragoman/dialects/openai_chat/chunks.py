"""Builds the bytes of chunks. The fields around the delta are encoded once per reply, the delta each time."""

import msgspec

from dragoman.dialects.base import Json
from dragoman.wire.sse import Frame, Frames

DONE: Frames = (Frame("", b"[DONE]"),)

_encode = msgspec.json.Encoder().encode


class ChunkFrames:
    """Builds the frames of one reply. `has_usage`: every chunk has a `usage`, null before the last."""

    def __init__(self, identity: Json, extras: Json, *, has_usage: bool) -> None:
        self._envelope: Json = dict(identity)
        self._tells_usage = has_usage
        self._lists: dict[str, int] = {}
        self.learn(extras)

    def learn(self, extras: Json) -> None:
        """Add these fields to all following chunks."""
        self._envelope.update(extras)
        self._head = b'%b,"choices":[{"index":0,"delta":' % _encode(self._envelope)[:-1]
        usage = b',"usage":null' if self._tells_usage else b""
        self._tail = b',"logprobs":null,"finish_reason":null}]%b}' % usage
        self._content_head = self._head + b'{"content":'
        self._content_tail = b"}" + self._tail
        self._fragment_head = self._head + b'{"tool_calls":[{"index":'
        self._fragment_tail = b"}}]}" + self._tail

    def content(self, text: str) -> Frames:
        return (Frame("", self._content_head + _encode(text) + self._content_tail),)

    def arguments(self, number: int, text: str, *, custom: bool) -> Frames:
        """The frame of a later fragment of a call."""
        place = b',"custom":{"input":' if custom else b',"function":{"arguments":'
        data = self._fragment_head + b"%d" % number + place + _encode(text) + self._fragment_tail
        return (Frame("", data),)

    def delta(self, delta: Json) -> Frames:
        return (Frame("", self._head + _encode(delta) + self._tail),)

    def entries(self, field: str, entries: list[Json]) -> Frames:
        """The frame of entries of a list that grows over the reply: clients merge them by index."""
        first = self._lists.get(field, 0)
        self._lists[field] = first + len(entries)
        return self.delta({field: [{**entry, "index": first + n} for n, entry in enumerate(entries)]})

    def choice(self, choice: Json) -> Frames:
        return self._chunk([choice], None)

    def usage(self, usage: Json) -> Frames:
        return self._chunk([], usage) if self._tells_usage else ()

    def _chunk(self, choices: list[Json], usage: Json | None) -> Frames:
        chunk: Json = {**self._envelope, "choices": choices}
        if self._tells_usage:
            chunk["usage"] = usage
        return (Frame("", _encode(chunk)),)


def error_frame(body: Json) -> Frames:
    return (Frame("", _encode(body)),)
