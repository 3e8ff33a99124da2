"""The part of reading a stream that all dialects share: framing, decoding, and ends that tell the truth.

A dialect's reader says what a payload means (`_read`) and whether the upstream had finished its
sentence (`_end`). Whatever breaks on the way becomes a failed ending, never an exception: the bytes
already sent to the client cannot be recalled, so the ending must say what happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from dragoman.dialects.base import Json, Source
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyEvent
from dragoman.wire.fields import decode
from dragoman.wire.sse import Frame, SseReader

_decode = msgspec.json.Decoder().decode

Fed = TypeVar("Fed")

TOO_DEEP = Failure(kind="server", status=502, message="the upstream's reply is nested too deeply")


class FrameReader(ABC):
    """Feeds each JSON payload of a stream to `_read`; `_end` speaks the last word when the bytes end."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.builder = ReplyBuilder()
        self._sse = self._framing()

    def _framing(self) -> SseReader:
        return SseReader()

    def feed(self, data: bytes) -> list[ReplyEvent]:
        return self._events(data, self._sse.feed)

    def feed_frames(self, frames: Iterable[Frame]) -> list[ReplyEvent]:
        return self._events(frames, iter)

    def _events(self, data: Fed, frames_of: Callable[[Fed], Iterable[Frame]]) -> list[ReplyEvent]:
        if self.builder.is_ended:
            return []
        try:
            self._frames(frames_of(data))
        except DragomanError as error:
            self.builder.fail(error.failure)
        except RecursionError:
            self.builder.fail(TOO_DEEP)
        return self.builder.take()

    def close(self) -> list[ReplyEvent]:
        if self.builder.is_ended:
            return []
        try:
            self._last_words()
        except DragomanError as error:
            self.builder.fail(error.failure)
        except RecursionError:
            self.builder.fail(TOO_DEEP)
        # Says nothing if the reply has ended by now.
        self.builder.truncate()
        return self.builder.take()

    def _last_words(self) -> None:
        self._frames(self._sse.close())
        if not self._sse.saw_event and self._sse.stray:
            self._read_stray(self._sse.stray)
        self._end()

    def _frames(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._frame(frame)
            if self.builder.is_ended:
                # What an upstream says after its last word is nobody's.
                return

    def _frame(self, frame: Frame) -> None:
        try:
            payload = _decode(frame.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._read_text(frame)
            return
        if isinstance(payload, dict):
            self._read(payload, frame.event)
        else:
            self.source.losses.add("", "a stream payload that is no JSON object was skipped")

    def _read_text(self, frame: Frame) -> None:
        """A payload that is not JSON. Dialects with a closing word such as `[DONE]` look for it here."""
        self.source.losses.add("", "a stream payload that is not JSON was skipped")

    def _read_stray(self, stray: bytes) -> None:
        """The upstream sent no event stream at all: perhaps a whole reply, perhaps an error page."""
        try:
            body = decode(stray)
        except DragomanError:
            body = None
        if isinstance(body, dict):
            self._read_whole(body)
            return
        kind = "an HTML page" if stray.lstrip()[:1] == b"<" else "something else"
        self.builder.fail(
            Failure(
                kind="server", status=502, message=f"expected an event stream from the upstream, got {kind}"
            )
        )

    @abstractmethod
    def _read(self, payload: Json, event: str) -> None:
        """One payload of the stream, with the name of its event."""

    @abstractmethod
    def _read_whole(self, body: Json) -> None:
        """A whole body came where a stream was asked for."""

    @abstractmethod
    def _end(self) -> None:
        """The bytes ended: finish if the upstream had said all, otherwise leave the reply to be cut off."""
