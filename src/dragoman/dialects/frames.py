"""`FrameReader`: the part of a stream reader that all dialects share.

It cuts bytes into frames, decodes their JSON and passes each payload to the dialect's `_read`. Deltas that
look like one before are recognised by their bytes, and not decoded (`DeltaTemplate`). An error on the way
becomes a failed ending, never an exception: content may already be at the client, so the ending
must report what happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgspec

from dragoman.dialects.delta_template import DeltaTemplate, VaryingMember
from dragoman.dialects.event_template import EventTemplate
from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReadEvents, ReplyEvent, expand_runs
from dragoman.wire.fields import decode
from dragoman.wire.sse import LIMIT, Frame, SseReader

_decode = msgspec.json.Decoder().decode

NO_FRAME = Frame("", b"")
TOO_DEEP = Failure(kind="server", status=502, message="the upstream's reply is nested too deeply")


#: How often one read is searched for events that fit the template. Those behind are read frame by frame.
MOST_SEARCHES = 32
#: Bytes of a read with so few events that they are read together, unless one of them may fit the template.
FEW_EVENTS = 1024


class FrameReader(ABC):
    """Base class of stream readers. Subclasses implement `_read`, `_read_whole` and `_end`.

    `_read` teaches `_template` each delta that later ones may look like, with `_frame`, the current one.
    """

    #: Members of a payload that differ from delta to delta without a meaning of their own.
    varying: ClassVar[Mapping[str, VaryingMember]] = {}
    #: Whether `count_texts` needs the texts; otherwise it gets their characters alone.
    keeps_texts: ClassVar[bool] = False

    def __init__(self, context: UpstreamContext) -> None:
        self.context = context
        self.builder = ReplyBuilder()
        self._sse = self._build_frame_reader()
        self._template = DeltaTemplate(self.varying)
        self._frame = NO_FRAME

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
            self._read_frames(list(frames))
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

    @property
    def text_template(self) -> EventTemplate | None:
        """The template of the last learned delta, while the next bytes begin an event and its text or thought
        is open."""
        return self._template.event if self._sse.is_between_events and self._template.takes_text else None

    def count_texts(self, texts: list[str], characters: int) -> None:
        """Count the texts of events that fit `text_template` and were not read."""
        self._template.count_texts(texts, characters)

    def _fail_reply(self, error: DragomanError | RecursionError) -> None:
        self.builder.fail(error.failure if isinstance(error, DragomanError) else TOO_DEEP)

    def _read_rest(self) -> None:
        self._read_frames(self._sse.close())
        if not self._sse.saw_event and self._sse.stray:
            self._read_stray(self._sse.stray)
        self._end()

    def _read_data(self, data: bytes) -> None:
        if not self._sse.is_between_events:
            # An event that is cut between two reads may fit as well as those behind it.
            data = self._sse.complete_held(data)
        # Most reads of a live stream are one event that fits the learned template.
        if not (self._sse.is_between_events and self._template.take_event(data)):
            self._read_events(data)

    def _read_events(self, data: bytes) -> None:
        # Most events fit the learned template and need no frames. The others are read one by one, so that
        # events behind them can fit again.
        sse, template, size = self._sse, self._template, len(data)
        if size <= FEW_EVENTS and data.find(template.event.start) < 0:
            return self._read_frames(sse.feed(data), may_fit=False)
        start, left = 0, MOST_SEARCHES if size <= LIMIT else 0
        while start < size and left:
            left -= 1
            is_event = sse.is_between_events
            is_alike = not is_event or data.startswith(template.event.start, start)
            taken = template.take_events(data, start) if is_event and is_alike else 0
            if not taken:
                taken = data.find(b"\n\n", start) + 2 - start
                if taken < 2:
                    break
                self._read_frames(sse.feed(data[start : start + taken]), may_fit=is_alike)
                if self.builder.is_ended:
                    return None
            start += taken
        if start < size:
            self._read_frames(sse.feed(data[start:]))
        return None

    def _read_frames(self, frames: Sequence[Frame], *, may_fit: bool = True) -> None:
        """Read frames. `may_fit`: the learned template may fit the first of them."""
        start = 0
        while start < len(frames):
            taken = self._template.take_run(frames, start) if may_fit else 0
            start += taken or 1
            if not taken:
                self._frame = frames[start - 1]
                self._read_frame(self._frame)
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
