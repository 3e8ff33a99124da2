"""`DeltaTemplate`: reads deltas that look like the last one without decoding them.

A stream reader learns the template from a delta that it has read, and gives the functions that take the texts
of later ones (`TextChange`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dragoman.dialects.event_template import EventTemplate, Gap, VaryingTemplate
from dragoman.dialects.interfaces import Json
from dragoman.wire.sse import Frame

_decode = msgspec.json.Decoder().decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode

#: How often a template is learned that then fits nothing. A reply whose deltas differ elsewhere gains nothing
#: from more.
MOST_TRIES = 12

#: Replaces the text while a template is tested; no server sends it.
_PROBE = "\x00dragoman\x00"


class TextChange(NamedTuple):
    """The text of a decoded delta that may differ in the next ones, and the functions that take new texts.

    The functions return False if they can take no texts any more, because the block has closed. `note` takes
    texts of an open text or thought that were not read (`StreamReader.count_texts`).
    """

    holder: Json
    field: str
    take: Callable[[str], bool]
    take_run: Callable[[list[str]], bool]
    note: Callable[[list[str], int], None] | None = None


class VaryingMember(NamedTuple):
    """A member of a payload that may differ in every delta.

    `are_legal`: whether these are values of the member. Called with the values of deltas that fit; a reader
    that needs the values takes them there. `probe` replaces the value while a template is tested.
    """

    are_legal: Callable[[Sequence[bytes]], bool]
    probe: object


def are_numbers(values: Sequence[bytes]) -> bool:
    """Whether all are JSON integers above zero. None begins with a zero, and none is empty."""
    return b"".join(values).isdigit() and min(values) >= b"1"


def are_padding(values: Sequence[bytes]) -> bool:
    """Whether all are JSON texts of letters and digits, without their quotes."""
    joined = b"".join(values)
    return not joined or joined.isalnum()


#: The number of an event, and the padding that hides how long its text is.
EVENT_NUMBER = VaryingMember(are_numbers, 2**40 + 1)
PADDING = VaryingMember(are_padding, "dragoman")

_NOTHING: Mapping[str, VaryingMember] = {}

#: Fits no event.
_UNLEARNED = EventTemplate(b"\n", b"\n")


class DeltaTemplate:
    """The bytes around the text of the last learned delta. The `take` methods read texts of similar deltas.

    Most deltas of a reply have the same bytes except for one JSON string. If the bytes before and after the
    string are the same, then the delta has the same meaning with another text, and is not decoded again.
    `varying`: members beside it that differ too, without changing what the delta means.
    """

    __slots__ = ("_note", "_take", "_take_run", "_tries", "_varying", "event")

    def __init__(self, varying: Mapping[str, VaryingMember] = _NOTHING) -> None:
        self._varying = varying
        self.event = _UNLEARNED
        self._take: Callable[[str], bool] = _take_nothing
        self._take_run: Callable[[list[str]], bool] = _take_nothing
        self._note: Callable[[list[str], int], None] | None = None
        self._tries = MOST_TRIES

    def take_event(self, data: bytes) -> bool:
        """Take the text of one event that fits, and is all of `data`. False if it does not fit."""
        text = self.event.read_event(data)
        if text is None:
            return False
        # A template that fits is worth its cost, so others may be learned after it.
        self._tries = MOST_TRIES
        return self._take(text)

    def take_events(self, data: bytes, start: int = 0) -> int:
        """Take the texts of the events from `start` on that fit. Returns their size in bytes.

        `start` is between two events.
        """
        size, texts = self.event.read_events(data, start)
        return size if texts and self._take_texts(texts) else 0

    def take_run(self, frames: Sequence[Frame], start: int) -> int:
        """Take the texts of the frames from `start` on that fit. Returns their number."""
        texts = self.event.read_frames(frames, start)
        return len(texts) if texts and self._take_texts(texts) else 0

    def _take_texts(self, texts: list[str]) -> bool:
        self._tries = MOST_TRIES
        return self._take_run(texts) if len(texts) > 1 else self._take(texts[0])

    @property
    def can_learn(self) -> bool:
        return self._tries > 0

    @property
    def takes_text(self) -> bool:
        """Whether similar deltas extend a text or thought that is still open."""
        return self._note is not None and self._take_run([])

    def count_texts(self, texts: list[str], characters: int) -> None:
        """Count texts that fitted and were not read, if `takes_text`. `characters`: those of all texts."""
        if self._note is not None:
            self._note(texts, characters)

    def learn(self, frame: Frame, payload: Json, change: TextChange) -> None:
        """Learn the template of a delta: its frame, its decoded payload, and the text inside it."""
        self._tries -= 1
        holder, field, take, take_run, note = change
        text, data = holder[field], frame.data
        name, value = _encode(field), _encode(text)
        # A server with another way to escape characters is not recognised.
        colon = b": " if name + b": " in data else b":"
        left, found, right = data.rpartition(name + colon + value)
        if not found:
            return
        sides: list[bytes | Gap] = [left + name + colon + b'"', b'"' + right]
        probes = self._find_gaps(sides, data, payload)
        holder[field] = _PROBE
        is_there = _decodes_to(_fill(sides, probes), {**payload, **probes})
        holder[field] = text
        if not is_there:
            return
        self._take, self._take_run, self._note = take, take_run, note
        before, after = sides
        if isinstance(before, Gap) or isinstance(after, Gap):
            self.event = VaryingTemplate(before, after, frame.event)
        else:
            self.event = EventTemplate(before, after, frame.event)

    def _find_gaps(self, sides: list[bytes | Gap], data: bytes, payload: Json) -> Json:
        """Replace sides that contain a member that varies by gaps. Returns the probes of these members."""
        names = [name for name in self._varying if name in payload]
        probes: Json = {}
        try:
            raws = _decode_members(data) if names else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The data is that of another payload, or nested so deeply that it can hardly be decoded.
            return probes
        for name in names:
            member, quote = self._varying[name], b'"' if isinstance(payload[name], str) else b""
            value = bytes(raws[name])[len(quote) :]
            for number, side in enumerate(sides):
                gap = None if isinstance(side, Gap) else _find_gap(side, name, quote, value, member)
                if gap is not None:
                    sides[number], probes[name] = gap, member.probe
        return probes


def _find_gap(side: bytes, name: str, quote: bytes, value: bytes, member: VaryingMember) -> Gap | None:
    """The gap of the value of a member. `quote`: its first quote, if it is a text, which is no part of it."""
    for colon in (b":", b": "):
        mark = _encode(name) + colon + quote
        head, found, tail = side.partition(mark + value)
        if found:
            return Gap(head + mark, quote + tail, member.are_legal)
    return None


def _fill(sides: list[bytes | Gap], probes: Json) -> bytes:
    """The payload with probes instead of the text and of the values in gaps."""
    values = iter([_encode(probe).strip(b'"') for probe in probes.values()])
    filled = [side.before + next(values) + side.after if isinstance(side, Gap) else side for side in sides]
    return filled[0][:-1] + _encode(_PROBE) + filled[1][1:]


def _take_nothing(text: str | list[str]) -> bool:
    return False


def _decodes_to(data: bytes, payload: Json) -> bool:
    try:
        return bool(_decode(data) == payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
