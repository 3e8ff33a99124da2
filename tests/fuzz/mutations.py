"""Ways to spoil good traffic. Everything comes from one seeded generator, so that a case can be run again."""

import gzip
from collections.abc import Callable
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


def bomb(size: int) -> bytes:
    """Small on the wire, large in memory."""
    return gzip.compress(bytes(size), 9)
