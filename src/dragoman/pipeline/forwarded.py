"""Forwarded replies: client and upstream use the same dialect, and the upstream's events go on as they are.

The reply is still read, for its usage, its ending and its first content, but runs of deltas are skipped: the
dialect recognises a run, and from then on a template recognises similar events without a search. The
beginning of an event waits for its end: no client can use it earlier, and a reply that breaks off inside an
event can still be ended properly. The rules of each dialect are in its `forwarding.py`
(`dialects/forwarding.py` has the defaults). The bytes of an ending are in `dialects/forwarded_ending.py`, for
Responses in its own `forwarded_ending.py`.
"""

import re
from collections.abc import Iterable

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.event_template import EventTemplate, are_texts
from dragoman.dialects.forwarding import SLICE
from dragoman.dialects.interfaces import StreamReader
from dragoman.dialects.reply_patch import ReplyPatch
from dragoman.hub.errors import DragomanError
from dragoman.hub.events import DeltaRun, ReplyEvent, ReplyFailed
from dragoman.hub.tally import TALLY_EVENTS, Tally
from dragoman.wire.fields import decode
from dragoman.wire.sse import (
    LIMIT,
    STRAY_LIMIT,
    Frame,
    Frames,
    Output,
    RawEvents,
    complete_event,
    encode_sse,
)

#: What may stand before a whole reply: white space, and the byte order mark in any pieces.
_BLANKS = b" \t\r\n\xef\xbb\xbf"

#: How often a template is learned per reply. A reply whose events differ elsewhere gains nothing from more.
MOST_TRIES = 12
#: So many events in one read that fit a template allow others to be learned.
LONG_RUN = 8

#: How an event ends, with each of the line ends that servers use.
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")


class ForwardedReply:
    """One forwarded reply. `patch` replaces members such as the model's name; see `ReplyPatch`."""

    def __init__(
        self,
        reader: StreamReader,
        dialect: Dialect,
        *,
        hides_usage: bool = False,
        patch: ReplyPatch | None = None,
    ) -> None:
        self._reader = reader
        self._dialect = dialect
        self._forwarding = dialect.forwarding
        self._ending = dialect.forwarding.build_ending(dialect)
        self._hides_usage = hides_usage
        self._patch = patch
        #: The upstream sends one JSON object under the content type of a stream. None until its first byte.
        self._is_whole: bool | None = None
        #: The beginning of an event, or of a whole reply. It grows in place: small pieces cost little.
        self._begun = bytearray()
        #: The last events with the mark, which the ending of a failed reply needs.
        self._last_mark, self._last = self._ending.last_mark, b""
        #: The upstream has reported a failure, but not yet in the event that must be its last.
        self._lacks_closing = False
        #: Events that fit the template are deltas that are not read. `_start` replaces its beginning, if
        #: the client gets another one.
        self._template: EventTemplate | None = None
        self._start = b""
        #: Events that match are deltas that are not read. None until the reply has an answer.
        self._deltas: re.Pattern[bytes] | None = None
        self._tries = MOST_TRIES if dialect.forwarding.has_templates else 0
        self.is_ended = False
        self.is_round_over = False
        self.tally = Tally()

    @property
    def passes_trailing(self) -> bool:
        """False only after a failure whose closing event was sent."""
        return self._lacks_closing or not isinstance(self.tally.ending, ReplyFailed)

    @property
    def holds_for_a_time(self) -> bool:
        return False

    def release_overdue(self) -> Output:
        return ()

    def next_round(self) -> None:
        """Forwarded replies are not governed, so they have one round."""

    def resume(self) -> RawEvents:
        return RawEvents(b"")

    def feed(self, data: bytes) -> RawEvents:
        # The most frequent reads by far: an event that is known to be a delta.
        if not self._begun and self._deltas is not None and self._deltas.fullmatch(data):
            if self._last_mark and data.find(self._last_mark) >= 0:
                self._last = data
            return RawEvents(data)
        template = self._template
        if template is None or self._begun or template.read_event(data) is None:
            return self._feed(data)
        return RawEvents(self._start + data[len(template.start) :] if self._start else data)

    def _feed(self, data: bytes) -> RawEvents:
        if not self._is_stream(data):
            return self._hold_whole(data)
        was_ended = self.is_ended
        events = data if data[-2:] == b"\n\n" and not self._begun else self._take_whole_events(data)
        events = self._pass(events)
        mark = self._last_mark
        if mark and events and events.find(mark) >= 0:
            self._last = events
        ending = self.tally.ending
        if isinstance(ending, ReplyFailed):
            return RawEvents(events, self._complete_failure(ending, events, was_ended=was_ended))
        return RawEvents(events)

    def _pass(self, events: bytes) -> bytes:
        """Read whole events, and return them as the client gets them.

        Runs of deltas that fit a template are not read. The templates are learned from deltas on the way.
        """
        passed: list[bytes] = []
        at = 0
        while self._tries and at < len(events):
            size = self._pass_run(events, at, passed)
            if not size:
                end = events.find(b"\n\n", at)
                # Events with other line ends are read together.
                first = events[at : end + 2] if end >= 0 else b""
                if self._is_unread(first):
                    size = self._pass_run(events, at, passed) if self._learn(first) else 0
                elif first and not (self.tally.has_content and self._reader.has_answer):
                    self._read(first)
                else:
                    break
                if not size:
                    size = len(first)
                    passed.append(self._select(first))
            at += size
        rest = events[at:]
        if rest:
            self._read(rest)
            passed.append(self._select(rest))
        return b"".join(passed)

    def _pass_run(self, events: bytes, at: int, passed: list[bytes]) -> int:
        """Pass the events from `at` on that fit the template. Returns their size in bytes."""
        template = self._template
        if template is None:
            return 0
        size, raws = template.cut_events(events, at)
        if not raws or not are_texts(raws):
            return 0
        if len(raws) >= LONG_RUN:
            # A template that fits is worth its cost, so others may be learned after it.
            self._tries = MOST_TRIES
        passed.append(template.join_events(raws, self._start) if self._start else events[at : at + size])
        return size

    def _is_unread(self, event: bytes) -> bool:
        """Whether an event is a delta that changes nothing of the tally, whatever its text is."""
        forwarding = self._forwarding
        return (
            self.tally.has_content
            and forwarding.is_delta_run(event)
            and (self._reader.has_answer or not forwarding.may_answer(event))
        )

    def _learn(self, event: bytes) -> bool:
        """Learn the template of a delta. Returns whether it has one."""
        self._tries -= 1
        template = self._forwarding.find_template(event)
        if template is None:
            return False
        rest = event[len(template.start) :]
        changed = self._select(event)
        if not changed.endswith(rest):
            return False
        self._template = template
        self._start = changed[: len(changed) - len(rest)] if changed != event else b""
        return True

    def _read(self, events: bytes) -> None:
        """Add events to the tally. Runs of deltas that change no ending are not read.

        These are all runs after the first answer, and runs of reasoning after the first content. Events that
        are no such run are divided, down to about `SLICE` bytes: in halves, and before there is content
        into the first part and the rest.
        """
        forwarding, has_content = self._forwarding, self.tally.has_content
        if has_content and self._reader.has_answer:
            return self._read_whole_events(forwarding.drop_deltas(events))
        if has_content and forwarding.is_delta_run(events) and not forwarding.may_answer(events):
            return None
        size = len(events)
        middle = events.find(b"\n\n", size // 2 if has_content else SLICE) + 2 if size > SLICE else 0
        if 2 <= middle < size:
            self._read(events[:middle])
            return self._read(events[middle:])
        return self._read_whole_events(events)

    def _read_whole_events(self, events: bytes) -> None:
        if events:
            self._add_to_tally(self._reader.feed_runs(events))
            self._ending.note(events)

    def feed_frames(self, frames: Iterable[Frame]) -> Output:
        """Add the frames of a whole reply to the tally. The client gets the upstream's body instead."""
        self._add_to_tally(self._reader.feed_frames(frames))
        return ()

    def close(self) -> RawEvents:
        """The output at the upstream's end: the last event, and what is missing after it.

        That is a failed ending if the stream broke off, or the closing event if the upstream left it out.
        """
        was_ended = self.is_ended
        rest = self._select(self._read_rest())
        ending = self.tally.ending
        if not isinstance(ending, ReplyFailed):
            return RawEvents(rest if was_ended else rest + self._forwarding.add_closing_event(rest))
        if not was_ended and not self._ending.has_failure(rest):
            return RawEvents(b"", self._write_ending(ending))
        self._complete_failure(ending, rest, was_ended=was_ended)
        if not self._lacks_closing:
            return RawEvents(rest)
        self._lacks_closing = False
        last = rest or self._last
        return RawEvents(rest, self._ending.write(ending, self.tally.started, last, is_reported=True))

    def fail(self, failure: ReplyFailed) -> RawEvents:
        if self.is_ended:
            return RawEvents(b"")
        if failure.ending == "truncated":
            # The connection is lost. A reply whose end marker has come is complete.
            rest = self._select(self._read_rest())
            if not isinstance(self.tally.ending, ReplyFailed):
                return RawEvents(rest + self._forwarding.add_closing_event(rest))
        self._add_to_tally([failure])
        return RawEvents(b"", self._write_ending(failure))

    def _is_stream(self, data: bytes) -> bool:
        """Whether the reply is a stream of events, or may still be one. Called with every piece."""
        if self._is_whole is None and (first := data.lstrip(_BLANKS)[:1]):
            self._is_whole = first == b"{"
        return not self._is_whole

    def _hold_whole(self, data: bytes) -> RawEvents:
        self._begun += data
        if len(self._begun) > STRAY_LIMIT:
            self._is_whole = False
            data = bytes(self._begun)
            self._begun.clear()
            return self.feed(data)
        return RawEvents(b"")

    def _read_rest(self) -> bytes:
        """Read what has come since the last whole event. Returns its events, as the client gets them."""
        begun = bytes(self._begun)
        self._begun.clear()
        if self._is_whole and (events := self._explode(begun.lstrip(_BLANKS))):
            self._add_to_tally(self._reader.feed(events))
            self._add_to_tally(self._reader.close())
            return events
        self._add_to_tally(self._reader.feed(begun))
        self._add_to_tally(self._reader.close())
        return complete_event(begun)

    def _explode(self, body: bytes) -> bytes:
        """A whole reply as the events of a stream; empty if it is no JSON object."""
        try:
            value = decode(body)
        except DragomanError:
            return b""
        return encode_sse(self._dialect.explode(value)) if isinstance(value, dict) else b""

    def _select(self, events: bytes) -> bytes:
        if not events:
            return events
        events = self._forwarding.select(events, hides_usage=self._hides_usage)
        return events if self._patch is None else self._patch.apply(events)

    def _complete_failure(self, ending: ReplyFailed, events: bytes, *, was_ended: bool) -> Frames:
        """The frames that the client still needs after these events of a failed reply."""
        if was_ended:
            self._lacks_closing = self._lacks_closing and not self._ending.is_complete(events)
        elif self._ending.has_failure(events):
            self._lacks_closing = not self._ending.is_complete(events)
        else:
            return self._write_ending(ending)
        return ()

    def _take_whole_events(self, data: bytes) -> bytes:
        begun = self._begun
        searched = max(0, len(begun) - 2)
        begun += data
        end = 0
        # Most streams have no carriage return, and a search that finds nothing reads everything.
        for mark in _EVENT_ENDS if b"\r" in begun else _EVENT_ENDS[:1]:
            at = begun.rfind(mark, searched)
            if at >= 0:
                end = max(end, at + len(mark))
        events = bytes(begun[:end])
        del begun[:end]
        if len(begun) > LIMIT:
            # The reader fails the reply.
            self._add_to_tally(self._reader.feed(bytes(begun)))
            begun.clear()
        return events

    def _add_to_tally(self, events: Iterable[ReplyEvent | DeltaRun]) -> None:
        for event in events:
            if type(event) in TALLY_EVENTS and not isinstance(event, DeltaRun):
                self.tally.add(event)
        if self.tally.ending is not None:
            self.is_ended = self.is_round_over = True
            self._template = self._deltas = None
            self._tries = 0
        elif self.tally.has_content and self._reader.has_answer:
            self._deltas = self._forwarding.deltas

    def _write_ending(self, failed: ReplyFailed) -> Frames:
        return self._ending.write(failed, self.tally.started, self._last)
