"""Ways to spoil good traffic. Everything comes from one seeded generator, so that a case can be run again."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from random import Random

import msgspec

Json = object

#: Values that a careless or hostile peer puts where another kind is expected.
ODD_VALUES: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    10**18,
    1e308,
    "",
    "\x00",
    "\u2028",
    "a" * 3000,
    [],
    {},
    [[[[[[[[[[]]]]]]]]]],
    {"type": None},
    {"type": "no such thing"},
    [None],
)

#: What JSON allows and few expect, or what it does not allow at all.
ODD_TEXTS = (
    b'"\\ud800"',
    b'"\\u0000"',
    b"1e999",
    b"-0",
    b"NaN",
    b"99999999999999999999999999",
    b'{"a":1,"a":2}',
    b"[" * 600,
    b'{"a":' * 600,
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"// comment\n",
)


def spoiled_json(dice: Random, body: bytes) -> bytes:
    """One or two places of the tree changed; still JSON."""
    tree = msgspec.json.decode(body)
    for _ in range(dice.randint(1, 2)):
        tree = _changed(dice, tree)
    return msgspec.json.encode(tree)


def _changed(dice: Random, value: Json) -> Json:
    """Somewhere in the tree: a value replaced, a member removed, renamed or doubled."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        name = dice.choice(list(value))
        what = dice.random()
        if what < 0.6:
            return {**value, name: _changed(dice, value[name])}
        if what < 0.75:
            return {other: kept for other, kept in value.items() if other != name}
        if what < 0.85:
            return {**value, f"{name}\u0000": value[name]}
        return {**value, name: dice.choice(ODD_VALUES)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        place = dice.randrange(len(value))
        if dice.random() < 0.2:
            return [*value, *value[place : place + 1] * dice.randint(1, 3)]
        return [*value[:place], _changed(dice, value[place]), *value[place + 1 :]]
    return dice.choice(ODD_VALUES)


def spoiled_bytes(dice: Random, data: bytes) -> bytes:
    """Bytes flipped, cut, doubled or put in, anywhere."""
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(data) + 1)
        data = dice.choice(_SPOILERS)(dice, data, place)
    return data


def _flip(dice: Random, data: bytes, place: int) -> bytes:
    return data[:place] + bytes([dice.randrange(256)]) + data[place + 1 :]


def _cut(dice: Random, data: bytes, place: int) -> bytes:
    return data[:place] if dice.random() < 0.4 else data[:place] + data[place + dice.randint(1, 40) :]


def _double(dice: Random, data: bytes, place: int) -> bytes:
    return data[:place] + data[max(0, place - dice.randint(1, 200)) :]


def _put_in(dice: Random, data: bytes, place: int) -> bytes:
    return data[:place] + dice.choice(ODD_TEXTS) + data[place:]


_SPOILERS: tuple[Callable[[Random, bytes, int], bytes], ...] = (_flip, _cut, _double, _put_in)


def spoil_stream(dice: Random, stream: bytes, other: bytes) -> bytes:
    """A stream with one to three kinds of damage: to its events, to their JSON, to its bytes; or cut off.

    `other` is a stream of the same dialect, of which events may be mixed in.
    """
    for _ in range(dice.choice((1, 1, 2, 3))):
        stream = dice.choice(_STREAM_SPOILERS)(dice, stream, other)
    return stream


def _cut_off(dice: Random, stream: bytes, other: bytes) -> bytes:
    return stream[: dice.randint(0, len(stream))]


def _cut_off_after_event(dice: Random, stream: bytes, other: bytes) -> bytes:
    events = stream.split(b"\n\n")
    return b"\n\n".join(events[: dice.randint(0, len(events))]) + b"\n\n"


def _change_events(dice: Random, stream: bytes, other: bytes) -> bytes:
    """Whole events lost, doubled, moved or exchanged."""
    events = stream.split(b"\n\n")
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(events))
        change = dice.randrange(4)
        if change == 0 and len(events) > 1:
            del events[place]
        elif change == 1:
            events.insert(place, dice.choice(events))
        elif change == 2:
            events.insert(dice.randrange(len(events)), events.pop(place))
        else:
            events[place] = dice.choice(other.split(b"\n\n"))
    return b"\n\n".join(events)


def _splice(dice: Random, stream: bytes, other: bytes) -> bytes:
    """The beginning of one stream and the end of another, joined between events or anywhere."""
    if dice.random() < 0.3:
        return stream[: dice.randint(0, len(stream))] + other[dice.randint(0, len(other)) :]
    mine, yours = stream.split(b"\n\n"), other.split(b"\n\n")
    return b"\n\n".join(mine[: dice.randint(0, len(mine))] + yours[dice.randint(0, len(yours)) :])


def _change_json(dice: Random, stream: bytes, other: bytes) -> bytes:
    """Good framing, JSON with changed values."""
    lines = stream.split(b"\n")
    data = [number for number, line in enumerate(lines) if line.startswith(b"data: {")]
    for number in dice.sample(data, min(len(data), dice.randint(1, 3))):
        with suppress(ValueError, RecursionError):
            lines[number] = b"data: " + spoiled_json(dice, lines[number][6:])
    return b"\n".join(lines)


def _shorten_texts(dice: Random, stream: bytes, other: bytes) -> bytes:
    """Texts inside the JSON end early, so that arguments come half and the end still comes."""
    lines = stream.split(b"\n")
    for _ in range(dice.randint(1, 3)):
        number = dice.randrange(len(lines))
        with suppress(ValueError, RecursionError):
            tree = msgspec.json.decode(lines[number].removeprefix(b"data: "))
            lines[number] = b"data: " + msgspec.json.encode(_shortened(dice, tree))
    return b"\n".join(lines)


def _shortened(dice: Random, value: Json) -> Json:
    if isinstance(value, dict) and value:
        name = dice.choice(list(value))
        return {**value, name: _shortened(dice, value[name])}
    if isinstance(value, list) and value:
        place = dice.randrange(len(value))
        return [*value[:place], _shortened(dice, value[place]), *value[place + 1 :]]
    return value[: dice.randint(0, len(value))] if isinstance(value, str) else value


def _spoil_bytes(dice: Random, stream: bytes, other: bytes) -> bytes:
    return spoiled_bytes(dice, stream)


_STREAM_SPOILERS: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    _cut_off, _cut_off, _cut_off_after_event, _change_events, _change_events, _splice,
    _change_json, _change_json, _shorten_texts, _spoil_bytes,
)  # fmt: skip


def bomb(size: int) -> bytes:
    """Small on the wire, large in memory."""
    return gzip.compress(bytes(size), 9)
