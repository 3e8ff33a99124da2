"""The compact form of a recorded stream: what repeats between its texts is stored once.

A streamed reply has hundreds of events that differ in one JSON string. In the compact form, a run of such
events is the first event with all texts of the run, and between two texts stands a code: one byte for the end
of an event and the beginning of the next. The form is exact for any bytes. It is a twentieth of the stream,
so to search it for secrets and to compress it takes little time.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from dragoman.wire.sse import EVENT_PREFIXES, Frame, FrameRun, FrameRuns, Output, RawEvents

#: Bytes that no UTF-8 text has. If a stream has one of them, it is not used as a code.
CODES = tuple(bytes((value,)) for value in range(0xF8, 0x100))
#: Events whose text is looked at before the rest of a stream is left as it is, unless they begin a run.
MAX_TRIES = 40
#: Bytes. Shorter parts of a stream are not searched for runs: to store them as they are costs less.
MIN_SEARCHED = 1024

#: The strings of a stream that grow from event to event.
TEXT_NAME = (
    rb'"(text|partial_json|thinking|delta|content|reasoning_content|reasoning|arguments|input)"\s*:\s*"'
)
#: The inside of a JSON string. Possessive: three times faster than an alternative per character.
STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
TEXT = re.compile(TEXT_NAME + b"(" + STRING + b')"')

_START = re.compile(TEXT_NAME)
_STRING = re.compile(STRING)
_EVENT_END = b"\n\n"


class CompactStream(NamedTuple):
    """`repeated` has what the codes in `content` stand for, in the order of `CODES`; empty: not used."""

    content: bytes
    repeated: tuple[bytes, ...] = ()

    def expand(self) -> bytes:
        """The stream, byte for byte."""
        content = self.content
        for code, part in zip(CODES, self.repeated, strict=False):
            if part:
                content = content.replace(code, part)
        return content


class TextRun(NamedTuple):
    """The texts of a run, joined and with a code between them, and the name of their field."""

    name: bytes
    code: bytes
    texts: bytes
    joined: bytes


class StreamParts(NamedTuple):
    """A stream in its compact form, its runs, and the rest of it with a code for each run."""

    compact: CompactStream
    runs: list[TextRun]
    rest: bytes

    def list_texts(self) -> list[bytes]:
        """The texts of the runs, joined by their fields."""
        texts: dict[bytes, bytes] = {}
        for run in self.runs:
            texts[run.name] = texts.get(run.name, b"") + run.joined
        return [*texts.values()]

    def list_all_texts(self) -> list[bytes] | None:
        """The texts of runs and of single events, joined by their fields; None if a run is not among them.

        It searches the rest of the stream, which takes long.
        """
        texts: dict[bytes, list[bytes]] = {}
        left = iter(self.runs)
        count = 0
        for name, text in TEXT.findall(self.rest):
            run = next(left, None) if text in CODES else None
            count += run is not None
            texts.setdefault(name, []).append(text if run is None else run.joined)
        if count != len(self.runs):
            return None
        return [b"".join(each) for each in texts.values()]


class _Builder:
    """Assigns codes to repeated parts, and collects the parts of a stream."""

    def __init__(self) -> None:
        self._codes: dict[bytes, bytes] = {}
        self._free = list(CODES)
        self._plain: list[bytes] = []
        self._runs: list[TextRun] = []

    def find_code(self, part: bytes, wanted: bytes = b"") -> bytes:
        """The code of a part, `wanted` if it is free; empty if there is none."""
        code = self._codes.get(part, b"")
        if not code and self._free:
            code = self._free.pop(self._free.index(wanted) if wanted in self._free else 0)
            self._codes[part] = code
        return code

    def add(self, data: bytes) -> None:
        """Add the bytes before the next run. Called first, and after each `add_run`."""
        self._plain.append(data)

    def add_run(self, run: TextRun) -> None:
        """Add a run of texts. Called after `add`: bytes and runs alternate."""
        self._runs.append(run)

    def finish(self) -> StreamParts | None:
        """The parts of the stream; None if its bytes contain a code, which could not be restored."""
        runs = self._runs
        original = b"".join([*self._plain, *[run.joined for run in runs]])
        for code in self._codes.values():
            if original.find(code) >= 0:
                return None
        # Bytes and runs in turn.
        content = [b""] * (2 * len(runs) + 1)
        content[::2] = self._plain
        rest = content.copy()
        content[1::2] = [run.texts for run in runs]
        rest[1::2] = [run.code for run in runs]
        parts = {code: part for part, code in self._codes.items()}
        last = max(parts, default=b"")
        repeated = tuple([parts.get(code, b"") for code in CODES if code <= last])
        return StreamParts(CompactStream(b"".join(content), repeated), runs, b"".join(rest))


def compact_outputs(outputs: Sequence[Output | bytes]) -> tuple[StreamParts, list[int]] | None:
    """The compact form of what a client got, and the length of each output as server-sent events.

    The writers of some dialects give runs of texts, so that nothing is searched. None: they give none.
    """
    runs = (output.parts for output in outputs if isinstance(output, FrameRuns))
    if not any(isinstance(part, FrameRun) for parts in runs for part in parts):
        return None
    reader = _OutputReader()
    lengths = []
    for output in outputs:
        if isinstance(output, (RawEvents, bytes)):
            return None
        lengths.append(reader.read(output.parts if isinstance(output, FrameRuns) else output))
    found = reader.finish()
    return (found, lengths) if found is not None and found.runs else None


class _OutputReader:
    """Builds the compact form of the parts of outputs."""

    def __init__(self) -> None:
        self._builder = _Builder()
        #: What follows the last run.
        self._single: list[bytes] = []
        #: The run that is open, if it has a code: the bytes before and after each text, its code, its texts.
        self._start = self._end = self._code = b""
        self._texts: list[bytes] = []

    def read(self, parts: Iterable[Frame | FrameRun]) -> int:
        """Add the parts of an output. Returns its length as server-sent events."""
        length = 0
        for part in parts:
            start = EVENT_PREFIXES[part.event]
            if isinstance(part, Frame):
                event = start + part.data + _EVENT_END
                self._single.append(event)
                length += len(event)
            else:
                length += self._read_run(start + part.head, part.values, part.tail + _EVENT_END)
        return length

    def finish(self) -> StreamParts | None:
        self._builder.add(b"".join((self._close(), *self._single)))
        return self._builder.finish()

    def _read_run(self, start: bytes, values: bytes, end: bytes) -> int:
        """Add a run. The single events before it belong to it if they have its form."""
        code = self._open(start + b'"', b'"' + end) if values[:1] == b'"' else b""
        if not code:
            events = start + values[:-1].replace(b"\n", end + start) + end
            self._single.append(events)
            return len(events)
        texts = values[1:-2].replace(b'"\n"', code)
        self._texts.append(texts)
        # What stands between two texts is one byte instead of three.
        between = (len(values) - 3 - len(texts)) // 2
        return len(texts) - between + (between + 1) * (len(start) + len(end) + 2)

    def _open(self, start: bytes, end: bytes) -> bytes:
        """Open a run, or continue the open one. Returns its code; empty if all codes are used."""
        single, head, tail = self._single, len(start), len(end)
        count = len(single)
        while count and single[count - 1].startswith(start) and single[count - 1].endswith(end, head):
            count -= 1
        if count or not self._code or start != self._start or end != self._end:
            code = self._builder.find_code(end + start)
            if not code:
                return b""
            self._builder.add(b"".join((self._close(), *single[:count], start)))
            del single[:count]
            self._start, self._end, self._code = start, end, code
        self._texts += [event[head : len(event) - tail] for event in single]
        single.clear()
        return self._code

    def _close(self) -> bytes:
        """Close the run, if one is open. Returns the end of its last event."""
        code = self._code
        if not code:
            return b""
        texts = code.join(self._texts)
        self._builder.add_run(TextRun(_find_name(self._start), code, texts, texts.replace(code, b"")))
        self._texts, self._code = [], b""
        return self._end


def compact_stream(data: bytes, runs: Sequence[TextRun] = ()) -> StreamParts:
    """The compact form of any bytes. `runs`: texts that the stream probably has, in this order."""
    builder = _Builder()
    position = 0
    for run in runs[:MAX_TRIES]:
        if found := _match_run(data, position, run, builder):
            at, own, length = found
            _add_runs(data[position:at], builder)
            builder.add_run(own)
            position = at + length
    _add_runs(data[position:], builder)
    return builder.finish() or StreamParts(CompactStream(data), [], data)


def _match_run(
    data: bytes, position: int, run: TextRun, builder: _Builder
) -> tuple[int, TextRun, int] | None:
    """Where the stream has the texts of a run, from `position` on: the place, the run, its length.

    To write the expected bytes and to compare them is far faster than to search.
    """
    # Some writers begin with an empty text.
    texts = run.texts.lstrip(run.code)
    first, code, _ = texts.partition(run.code)
    at = data.find(b'"' + first + b'"', position) + 1
    end_at = data.find(_EVENT_END, at + len(first)) + len(_EVENT_END)
    if not code or not at or end_at < len(_EVENT_END):
        return None
    before = data.rfind(_EVENT_END, position, at)
    head = data[before + len(_EVENT_END) if before >= 0 else position : at]
    part = data[at + len(first) : end_at] + head
    expected = texts.replace(code, part)
    if not data.startswith(expected, at) or not (own := builder.find_code(part, code)):
        return None
    texts = texts if own == code else texts.replace(code, own)
    return at, TextRun(_find_name(head), own, texts, run.joined), len(expected)


def _add_runs(data: bytes, builder: _Builder) -> None:
    """Add bytes and the runs in them."""
    copied = position = 0
    for _ in range(MAX_TRIES if len(data) >= MIN_SEARCHED else 0):
        mark = _START.search(data, position)
        text = mark and _STRING.match(data, mark.end())
        if mark is None or text is None:
            break
        head_at = data.rfind(_EVENT_END, copied, mark.start()) + len(_EVENT_END)
        head_at = copied if head_at < len(_EVENT_END) else head_at
        next_at = data.find(_EVENT_END, text.end()) + len(_EVENT_END)
        if next_at < len(_EVENT_END):
            break
        head, tail = data[head_at : mark.end()], data[text.end() : next_at]
        position = next_at
        if not data.startswith(head, next_at):
            continue
        found = _read_run(data, head_at, head, tail, builder)
        if found is None:
            break
        run, length = found
        builder.add(data[copied : mark.end()])
        builder.add_run(run)
        copied = position = mark.end() + length
    builder.add(data[copied:])


def _find_name(head: bytes) -> bytes:
    """The name of the field whose text follows. `head` ends with the text's first quote."""
    parts = head.rsplit(b'"', 3)
    return parts[1] if len(parts) > 3 else b""


def _read_run(
    data: bytes, start: int, head: bytes, tail: bytes, builder: _Builder
) -> tuple[TextRun, int] | None:
    """The run whose first event begins at `start`, and its length.

    It splits lines. To search for the bytes between two texts would be slower, because they are long.
    """
    first, last = head.rpartition(b"\n")[2], tail.partition(b"\n")[0]
    at = head.count(b"\n")
    lines = data[start:].split(b"\n")[at :: at + tail.count(b"\n")]
    own = takewhile(lambda line: line.startswith(first) and line.endswith(last, len(first)), lines)
    texts = [line[len(first) : len(line) - len(last)] for line in own]
    part = tail + head
    expected = part.join(texts)
    if not data.startswith(expected, start + len(head)) or not (code := builder.find_code(part)):
        return None
    return TextRun(_find_name(head), code, code.join(texts), b"".join(texts)), len(expected)
