"""`EventTemplate`: the bytes of an event around one JSON text.

Most events of a stream have the same bytes except for one text. An event that fits the template of another
has the same meaning with another text, so it needs neither a decoder nor a search. `VaryingTemplate` is for
servers that also number or pad their events.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import msgspec

from dragoman.wire.sse import LIMIT, Frame

_text_decoder = msgspec.json.Decoder(str)
_decode_text = _text_decoder.decode
_decode_texts = _text_decoder.decode_lines

_DATA = b"data: "

#: Frames that are compared together. Often only the first of them fit, so more would be compared again.
MOST_FRAMES = 64
#: Bytes that are cut into lines together, for the same reason.
MOST_BYTES = 64 * 1024


class EventTemplate:
    """The events `data: {before}{text}{after}`. `before` ends with the text's first quote, `after` begins
    with its last one. `name`: the name of the events, which stands in a line before the data."""

    __slots__ = ("_begin", "_name", "_size", "_take_text", "_text", "end", "start")

    def __init__(self, before: bytes, after: bytes, name: str = "") -> None:
        self._name = name
        #: The beginning of the line with the data.
        self._begin = _DATA + before
        self.start = (b"event: %b\n" % name.encode() if name else b"") + self._begin
        self.end = after + b"\n\n"
        #: The lines of an event. The last one is blank, the data is before it.
        self._size = 3 if name else 2
        #: The place of the text in an event, with its quotes.
        self._text = slice(len(self.start) - 1, 1 - len(self.end))
        #: Takes the text, without its quotes, out of the line of the data.
        self._take_text: Callable[[bytes], bytes] = itemgetter(slice(len(self._begin), 1 - len(self.end)))

    def read_event(self, data: bytes) -> str | None:
        """The text of one event that fits, and is all of `data`; None if it does not fit."""
        if not data.startswith(self.start) or not data.endswith(self.end) or len(data) > LIMIT:
            return None
        try:
            # With both quotes, so that an event in which they are one and the same does not fit. No text
            # contains a line end, so there is only one event.
            return _decode_text(data[self._text])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def read_events(self, data: bytes, start: int) -> tuple[int, list[str]]:
        """The size and the texts of the events that fit, from `start` on, which is between two events."""
        size, raws = self.cut_events(data, start)
        texts = read_texts(raws) if raws else None
        return (0, []) if texts is None else (size, texts)

    def read_frames(self, frames: Sequence[Frame], start: int) -> list[str]:
        """The texts of the frames that fit, from the one at `start` on."""
        lines = self._list_lines(frames, start, self._begin, self.end[:-1])
        raws = list(map(self._take_text, lines))
        return (read_texts(raws) or read_texts(raws[:1]) or []) if raws else []

    def cut_events(self, data: bytes, start: int = 0) -> tuple[int, list[bytes]]:
        """The size of the events that fit, from `start` on, and their texts in JSON form without quotes.

        `start` is between two events. `are_texts` shows whether they are JSON texts.
        """
        if not data.startswith(self.start, start):
            return 0, []
        raws = list(map(self._take_text, self._split_lines(data, start)[self._size - 2 :: self._size]))
        if not raws:
            return 0, raws
        between, at = self.end + self.start, start + len(self.start)
        joined = between.join(raws)
        last = at + len(joined)
        if data.startswith(joined, at) and data.startswith(self.end, last):
            return last + len(self.end) - start, raws
        # Not all fit. Find the first that does not: `at` is its text, or that of the last one before it.
        count, left = 0, len(raws)
        while left > 1:
            half = left // 2
            joined = between.join([*raws[count : count + half], b""])
            if data.startswith(joined, at):
                at, count, left = at + len(joined), count + half, left - half
            else:
                left = half
        ending = raws[count] + self.end
        if data.startswith(ending, at):
            return at + len(ending) - start, raws[: count + 1]
        return at - len(self.start) - start, raws[:count]

    def join_events(self, raws: list[bytes], start: bytes = b"") -> bytes:
        """The events with these texts. `start`: what stands before the texts, if it is not the template's."""
        start = start or self.start
        if len(raws) < 2:
            return start + raws[0] + self.end if raws else b""
        return (self.end + start).join([start + raws[0], *raws[1:-1], raws[-1] + self.end])

    def _split_lines(self, data: bytes, start: int) -> list[bytes]:
        """The lines from `start` on, as many as whole events of this form have, within about `MOST_BYTES`.

        What follows the last blank line may be the beginning of an event.
        """
        # A file of bytes finds its lines in a third of the time of `split`.
        file = BytesIO(data)
        file.seek(start)
        lines = file.readlines(MOST_BYTES)
        return lines[: len(lines) // self._size * self._size]

    def _list_lines(self, frames: Sequence[Frame], start: int, begin: bytes, end: bytes) -> list[bytes]:
        """The data of frames from the one at `start` on, as lines, while they begin and end so."""
        name, least = self._name, len(begin) + len(end)
        lines: list[bytes] = []
        for frame in islice(frames, start, start + MOST_FRAMES):
            line = _DATA + frame.data + b"\n"
            if frame.event != name or len(line) < least:
                break
            if not line.startswith(begin) or not line.endswith(end):
                break
            lines.append(line)
        return lines


class Gap(NamedTuple):
    """Bytes that differ between events: what stands before and after them.

    `are_legal`: whether these are values that may stand there. Called last, when everything else fits. No
    legal value contains a line end, because that would end the line of the data.
    """

    before: bytes
    after: bytes
    are_legal: Callable[[Sequence[bytes]], bool]


class VaryingTemplate(EventTemplate):
    """Events with a gap before the text, after it, or both.

    `before` and `after` are the sides of the text, and contain its quotes as in `EventTemplate`.
    """

    __slots__ = ("_before", "_line", "_middle", "_separator", "_tail", "_values")

    def __init__(self, before: bytes | Gap, after: bytes | Gap, name: str = "") -> None:
        before = before if isinstance(before, Gap) else Gap(before, b"", _are_empty)
        after = after if isinstance(after, Gap) else Gap(b"", after, _are_empty)
        super().__init__(before.before, after.after, name)
        #: Where the line of the data begins in an event.
        self._line = len(self.start) - len(self._begin)
        self._before, self._middle = before.are_legal, before.after
        self._separator, self._values = after.before, after.are_legal
        self._tail = self.end[:-1]

    def read_event(self, data: bytes) -> str | None:
        size = len(data)
        if not data.startswith(self.start) or not data.endswith(self.end) or size > LIMIT:
            return None
        first, end, middle, separator = len(self.start), size - len(self.end), self._middle, self._separator
        at = data.find(middle, first)
        begin = at + len(middle)
        until = data.rfind(separator, begin, end) if separator else end
        if at < 0 or until < 0:
            return None
        try:
            text = _decode_text(data[begin - 1 : until + 1])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if middle and not self._before((data[first:at],)):
            return None
        return text if not separator or self._values((data[until + len(separator) : end],)) else None

    def read_events(self, data: bytes, start: int) -> tuple[int, list[str]]:
        if not data.startswith(self.start, start):
            return 0, []
        lines, size = self._split_lines(data, start), self._size
        data_lines = self._select(lines[size - 2 :: size])
        count = len(data_lines)
        is_whole = lines[size - 1 : count * size : size] == [b"\n"] * count
        if size == 3 and is_whole:
            is_whole = lines[: count * size : size] == [self.start[: self._line]] * count
        texts = self._read_lines(data_lines) if is_whole else []
        return (len(b"".join(lines[: count * size])), texts) if texts else (0, [])

    def read_frames(self, frames: Sequence[Frame], start: int) -> list[str]:
        lines = self._select(self._list_lines(frames, start, self._begin, self._tail))
        return self._read_lines(lines) or self._read_lines(lines[:1])

    def _select(self, lines: list[bytes]) -> list[bytes]:
        """The lines of data from the first on that fit, with their first gaps of the same size."""
        if not lines:
            return []
        begin, middle, tail = self._begin, self._middle, self._tail
        at = lines[0].find(middle, len(begin))
        for count, line in enumerate(lines):
            if not line.startswith(begin) or not line.startswith(middle, at) or not line.endswith(tail):
                return lines[:count]
        return lines

    def _read_lines(self, lines: list[bytes]) -> list[str]:
        """The texts of lines that `_select` gave; nothing if one of them does not fit."""
        if not lines:
            return []
        first, middle, separator = len(self._begin), self._middle, self._separator
        at = lines[0].find(middle, first)
        start = at + len(middle)
        end = -len(self._tail)
        if at < 0 or min(map(len, lines)) < start - end:
            return []
        raws: Sequence[bytes] = [line[start:end] for line in lines]
        values: Sequence[bytes] = ()
        if separator:
            raws, found, values = zip(*[raw.rpartition(separator) for raw in raws], strict=True)
            if found.count(separator) != len(found):
                return []
        texts = read_texts(raws)
        if texts is None or (middle and not self._before([line[first:at] for line in lines])):
            return []
        return texts if not separator or self._values(values) else []


def _are_empty(values: Sequence[bytes]) -> bool:
    return not any(values)


def are_texts(raws: Sequence[bytes]) -> bool:
    """Whether all are texts in their JSON form, without quotes."""
    try:
        # No escape ends with a comma, so it cannot complete a text that ends inside an escape.
        _decode_text(b'"' + b",".join(raws) + b'"')
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def read_texts(raws: Sequence[bytes]) -> list[str] | None:
    """The texts in their JSON form, without quotes, as strings; None if one of them is no JSON text."""
    try:
        texts = _decode_texts(b'"' + b'"\n"'.join(raws) + b'"')
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # No text goes over a line break, so a text that contains a quote makes more texts than there are.
    return texts if len(texts) == len(raws) else None
