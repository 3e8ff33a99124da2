"""`FrameReader`: the part of a stream reader that all dialects share.

It cuts bytes into frames, decodes their JSON and passes each payload to the dialect's `_read`. An error on
the way becomes a failed ending, never an exception: content may already be at the client, so the ending
must report what happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import msgspec

from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReadEvents, ReplyEvent, expand_runs
from dragoman.wire.fields import decode
from dragoman.wire.sse import Frame, SseReader

_decode = msgspec.json.Decoder().decode

TOO_DEEP = Failure(kind="server", status=502, message="the upstream's reply is nested too deeply")


class FrameReader(ABC):
    """Base class of stream readers. Subclasses implement `_read`, `_read_whole` and `_end`."""

    def __init__(self, context: UpstreamContext) -> None:
        self.context = context
        self.builder = ReplyBuilder()
        self._sse = self._build_frame_reader()

    def _build_frame_reader(self) -> SseReader:
        return SseReader()

    def feed(self, data: bytes) -> list[ReplyEvent]:
        return expand_runs(self.feed_runs(data))

    def feed_runs(self, data: bytes) -> ReadEvents:
        if self.builder.is_ended:
            return []
        try:
            self._read_data(data)
        except (DragomanError, RecursionError) as error:
            self._fail_reply(error)
        return self.builder.take_runs()

    def feed_frames(self, frames: Iterable[Frame]) -> list[ReplyEvent]:
        try:
            self._read_frames(frames)
        except (DragomanError, RecursionError) as error:
            self._fail_reply(error)
        return self.builder.take()

    @property
    def has_answer(self) -> bool:
        return self.builder.has_answer

    def close(self) -> list[ReplyEvent]:
        if self.builder.is_ended:
            return []
        try:
            self._read_rest()
        except (DragomanError, RecursionError) as error:
            self._fail_reply(error)
        # This has no effect if the reply has its ending.
        self.builder.truncate()
        return self.builder.take()

    def _fail_reply(self, error: DragomanError | RecursionError) -> None:
        self.builder.fail(error.failure if isinstance(error, DragomanError) else TOO_DEEP)

    def _read_rest(self) -> None:
        self._read_frames(self._sse.close())
        if not self._sse.saw_event and self._sse.stray:
            self._read_stray(self._sse.stray)
        self._end()

    def _read_data(self, data: bytes) -> None:
        self._read_frames(self._sse.feed(data))

    def _read_frames(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._read_frame(frame)
            if self.builder.is_ended:
                # Nothing may follow the ending.
                return

    def _read_frame(self, frame: Frame) -> None:
        try:
            payload = _decode(frame.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._read_text(frame)
            return
        if isinstance(payload, dict):
            self._read(payload, frame.event)
        else:
            self.context.losses.add("", "a stream payload that is no JSON object was skipped")

    def _read_text(self, frame: Frame) -> None:
        """Read a payload that is not JSON, such as the closing `[DONE]` of some dialects."""
        self.context.losses.add("", "a stream payload that is not JSON was skipped")

    def _read_stray(self, stray: bytes) -> None:
        """Read a body that is no event stream: a whole reply, or an error page."""
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
        """Read one payload of the stream. `event` is the event's name."""

    @abstractmethod
    def _read_whole(self, body: Json) -> None:
        """Read a whole reply that came instead of a stream."""

    @abstractmethod
    def _end(self) -> None:
        """The bytes have ended: finish the reply if it is complete. Otherwise it is truncated."""
