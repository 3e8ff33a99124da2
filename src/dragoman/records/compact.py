"""The compact form of a recorded stream: what repeats between its texts is stored once.

A streamed reply has hundreds of events that differ in one JSON string. In the compact form, a run of such
events is the first event with all texts of the run, and between two texts stands a code: one byte for the end
of an event and the beginning of the next. The form is exact for any bytes. It is a twentieth of the stream,
so to search it for secrets and to compress it takes little time.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from dragoman.wire.sse import EVENT_PREFIXES, Frame, FrameRun, FrameRuns, Output, RawEvents

#: Bytes that no UTF-8 text has. If a stream has one of them, it is not used as a code.
CODES = tuple(bytes((value,)) for value in range(0xF8, 0x100))
#: Events whose text is looked at before the rest of a stream is left as it is, unless they begin a run.
MAX_TRIES = 40

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
    """The texts of a run: with a code between them, and joined."""

    code: bytes
    texts: bytes
    joined: bytes


class StreamParts(NamedTuple):
    """A stream in its compact form, its runs, and the rest of it with a code for each run."""

    compact: CompactStream
    runs: list[TextRun]
    rest: bytes

    def list_texts(self) -> list[bytes] | None:
        """The texts, joined by their fields; None if the rest does not have all runs as texts."""
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
        if isinstance(output, RawEvents | bytes):
            return None
        parts = output.parts if isinstance(output, FrameRuns) else output
        lengths.append(sum(map(reader.read, parts)))
    found = reader.finish()
    return (found, lengths) if found is not None and found.runs else None


class _OutputReader:
    """Builds the compact form of the parts of outputs."""

    def __init__(self) -> None:
        self._builder = _Builder()
        #: What follows the last run. Its last events may belong to the next run: they are written alone.
        self._alone: list[bytes] = []
        #: The run that is open: the bytes before and after each text with its quotes, its code, its texts.
        self._start = self._end = self._code = b""
        self._texts: list[bytes] = []
        self._joined: list[bytes] = []

    def read(self, part: Frame | FrameRun) -> int:
        """Add a part. Returns its length as server-sent events."""
        if isinstance(part, Frame):
            event = EVENT_PREFIXES[part.event] + part.data + _EVENT_END
            if self._code and self._has_form(event):
                self._add_texts(event[len(self._start) : len(event) - len(self._end)], b"\n")
            else:
                self._close()
                self._alone.append(event)
            return len(event)
        start, end = EVENT_PREFIXES[part.event] + part.head, part.tail + _EVENT_END
        values, between = part.values[:-1], b"\n"
        if values[:1] == b'"':
            start, end, values, between = start + b'"', b'"' + end, values[1:-1], b'"\n"'
        self._open(start, end)
        if self._code:
            joined = self._add_texts(values, between)
        else:
            joined = len(values.replace(between, b""))
            self._alone.append(start + values.replace(between, end + start) + end)
        count = (len(values) - joined) // len(between) + 1
        return joined + count * (len(start) + len(end))

    def finish(self) -> StreamParts | None:
        self._close()
        self._builder.add(b"".join(self._alone))
        return self._builder.finish()

    def _has_form(self, event: bytes) -> bool:
        return event.startswith(self._start) and event.endswith(self._end, len(self._start))

    def _add_texts(self, values: bytes, between: bytes) -> int:
        """Add texts to the open run. Returns their length."""
        joined = values.replace(between, b"")
        self._texts.append(values.replace(between, self._code))
        self._joined.append(joined)
        return len(joined)

    def _open(self, start: bytes, end: bytes) -> None:
        """Open the run with this form, unless it is open. If there is no code for it, none is open."""
        if self._code and (start, end) == (self._start, self._end):
            return
        self._close()
        self._start, self._end = start, end
        self._code = self._builder.find_code(end + start)
        if not self._code:
            return
        first = list(takewhile(self._has_form, reversed(self._alone)))
        del self._alone[len(self._alone) - len(first) :]
        self._builder.add(b"".join((*self._alone, start)))
        self._alone = []
        for event in reversed(first):
            self._add_texts(event[len(start) : len(event) - len(end)], b"\n")

    def _close(self) -> None:
        if self._code:
            texts, joined = self._code.join(self._texts), b"".join(self._joined)
            self._builder.add_run(TextRun(self._code, texts, joined))
            self._alone = [self._end]
            self._texts, self._joined, self._code = [], [], b""


def compact_stream(data: bytes, runs: Sequence[TextRun] = ()) -> StreamParts:
    """The compact form of any bytes. `runs`: texts that the stream probably has."""
    builder = _Builder()
    copied = position = 0
    for _ in range(MAX_TRIES):
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
        found = _match_run(data, mark.end(), text.end(), tail + head, runs, builder)
        found = found or _read_run(data, head_at, head, tail, builder)
        if found is None:
            break
        run, length = found
        builder.add(data[copied : mark.end()])
        builder.add_run(run)
        copied = position = mark.end() + length
    builder.add(data[copied:])
    return builder.finish() or StreamParts(CompactStream(data), [], data)


def _match_run(
    data: bytes, start: int, end: int, part: bytes, runs: Sequence[TextRun], builder: _Builder
) -> tuple[TextRun, int] | None:
    """The run that the data has from `start` on, and its length. `end`: of the first text.

    To write the expected bytes and to compare them is far faster than to search.
    """
    for run in runs:
        # Some writers begin with an empty text.
        texts = run.texts.lstrip(run.code)
        if not texts.startswith(data[start:end] + run.code):
            continue
        expected = texts.replace(run.code, part)
        if data.startswith(expected, start) and (code := builder.find_code(part, run.code)):
            return TextRun(code, texts.replace(run.code, code), run.joined), len(expected)
    return None


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
    return TextRun(code, code.join(texts), b"".join(texts)), len(expected)
