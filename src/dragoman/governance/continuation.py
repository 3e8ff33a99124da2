"""How a text that went out as the beginning of an object can still become a certain object.

What was said cannot be taken back, but a string can go on, members can follow, and brackets can close.
"""

from typing import NamedTuple

from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, encode
from dragoman.wire.partial_json import LIMIT, JsonPrefix


class _Level(NamedTuple):
    """An open object or array: what was said of it, and what it shall be."""

    said: object
    wanted: object


def continuation(sent: str, wanted: dict[str, object]) -> str | None:
    """The text that makes `sent` a JSON text of `wanted`, or None if there is none.

    `sent` is a beginning of a JSON object that ends inside a string or behind a bracket, colon or quote.
    """
    if not sent:
        return _text(wanted)
    prefix = JsonPrefix()
    prefix.feed(sent)
    if prefix.is_broken:
        return None
    closing = prefix.closing()
    try:
        levels = _levels(decode(sent + closing, limit=2 * LIMIT), wanted, prefix.depth)
        candidate = _candidate(levels, closing)
        if candidate is not None and decode(sent + candidate, limit=2 * LIMIT) == wanted:
            return candidate
    except (DragomanError, KeyError, IndexError, TypeError):
        # What was said and what is wanted are of different shapes.
        return None
    return None


def _levels(said: object, wanted: object, depth: int) -> list[_Level]:
    """The open containers, outermost first; each but the first is the last member of the one before."""
    levels: list[_Level] = []
    for _ in range(depth):
        levels.append(_Level(said, wanted))
        if said:
            key = _last_key(said)
            said, wanted = _member(said, key), _maybe_member(wanted, key)
    return levels


def _candidate(levels: list[_Level], closing: str) -> str | None:
    if not levels:
        return ""
    text = _ended_value(levels[-1], closing)
    if text is None:
        return None
    for level in reversed(levels):
        text += _rest(level, in_key=closing.startswith('":') and level is levels[-1])
    return text


def _ended_value(innermost: _Level, closing: str) -> str | None:
    """What completes the member that is under way, told by how it could be closed."""
    said, wanted = innermost
    if closing.startswith('":'):
        begun = str(_last_key(said))
        key = _meant_key(innermost, begun)
        return None if key is None else f'{_inside(key[len(begun) :])}":{_text(_member(wanted, key))}'
    if closing.startswith('"') and not closing.startswith('"":'):
        place = _last_key(said)
        part, whole = _member(said, place), _member(wanted, place)
        if not isinstance(part, str) or not isinstance(whole, str) or not whole.startswith(part):
            return None
        return _inside(whole[len(part) :]) + '"'
    if closing.startswith((":null", "null")):
        colon = ":" if closing.startswith(":") else ""
        return colon + _text(_member(wanted, _last_key(said)))
    return ""


def _meant_key(level: _Level, begun: str) -> str | None:
    """The key that is under way: the first that begins like it and was not said before."""
    said, wanted = level
    if not isinstance(said, dict) or not isinstance(wanted, dict):
        return None
    return next((key for key in wanted if key.startswith(begun) and (key == begun or key not in said)), None)


def _rest(level: _Level, *, in_key: bool) -> str:
    """The members that were not said yet, and the bracket."""
    said, wanted = level
    if isinstance(said, list) and isinstance(wanted, list):
        members = [_text(item) for item in wanted[len(said) :]]
    elif isinstance(said, dict) and isinstance(wanted, dict):
        done = set(said)
        if in_key:
            begun = str(_last_key(said))
            done = (done - {begun}) | {_meant_key(level, begun)}
        members = [f"{_text(key)}:{_text(value)}" for key, value in wanted.items() if key not in done]
    else:
        raise TypeError
    comma = "," if said and members else ""
    return comma + ",".join(members) + ("]" if isinstance(said, list) else "}")


def _last_key(container: object) -> str | int:
    if isinstance(container, dict):
        return str(next(reversed(container)))
    if isinstance(container, list):
        return len(container) - 1
    raise TypeError


def _member(container: object, key: str | int) -> object:
    if isinstance(container, dict) and isinstance(key, str):
        return container[key]
    if isinstance(container, list) and isinstance(key, int):
        return container[key]
    raise TypeError


def _maybe_member(container: object, key: str | int) -> object:
    """The last level may be in the middle of a key, which is no member of what is wanted."""
    try:
        return _member(container, key)
    except (KeyError, IndexError):
        return None


def _text(value: object) -> str:
    return encode(value).decode()


def _inside(text: str) -> str:
    """The text as it stands inside a JSON string."""
    return _text(text)[1:-1]
