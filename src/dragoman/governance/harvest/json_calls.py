"""Calls as JSON objects: one, a list of them, or one per line, between a family's own marks."""

from typing import Literal

import msgspec

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Calls, Context, Reader, Reading
from dragoman.governance.harvest.json_text import (
    Bounds,
    is_object,
    raw_value,
    read_key,
    read_name,
    unwrapped,
)
from dragoman.governance.harvest.schemas import properties_of

Shape = Literal["object", "list", "lines"]

#: Keys that say nothing about what is called.
_HARMLESS = frozenset(("id", "type", "index", "tool_call_id"))


class JsonBody(msgspec.Struct, frozen=True, kw_only=True):
    """How a family writes calls as JSON.

    `before`: literals between the marker and the body. `closers`: what ends it; where there are none, its
    last bracket does. `optional`: the closer may be missing. `keyed`: the only key of an object is the name.
    """

    shapes: tuple[Shape, ...]
    closers: tuple[str, ...] = ()
    optional: bool = False
    barred: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ("arguments", "parameters")
    keyed: bool = False

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.closers, self.barred)


def json_reader(body: JsonBody) -> Reader:
    def read(cursor: Cursor, context: Context) -> Reading:
        for literal in body.before:
            yield from cursor.blanks()
            if not (yield from cursor.literal(literal)):
                return None
        calls = yield from read_calls(cursor, context, body)
        if not calls or not (yield from end_of(cursor, body, strict=context.strict)):
            return None
        return Calls(calls)

    return read


def end_of(cursor: Cursor, body: JsonBody, *, strict: bool) -> Step[bool]:
    """The family's closing mark behind the body, past brackets that are one too many."""
    if not body.closers:
        return True
    yield from cursor.blanks()
    if body.optional:
        yield from cursor.literal(*body.closers)
        return True
    if strict:
        return bool((yield from cursor.literal(*body.closers)))
    while (yield from cursor.literal("}", "]")):
        yield from cursor.blanks()
    return (yield from cursor.closing(*body.closers))


def read_calls(cursor: Cursor, context: Context, body: JsonBody) -> Step[tuple[Call, ...] | None]:
    yield from cursor.blanks()
    first = yield from cursor.peek()
    if first == "[" and "list" in body.shapes:
        return (yield from _read_list(cursor, context, body))
    if first != "{" or body.shapes == ("list",):
        return None
    call = yield from read_object(cursor, context, body)
    if call is None or "lines" not in body.shapes:
        return None if call is None else (call,)
    calls = [call]
    while True:
        yield from cursor.blanks()
        if (yield from cursor.peek()) != "{":
            return tuple(calls)
        call = yield from read_object(cursor, context, body)
        if call is None:
            return None
        calls.append(call)


def _read_list(cursor: Cursor, context: Context, body: JsonBody) -> Step[tuple[Call, ...] | None]:
    calls: list[Call] = []
    yield from cursor.literal("[")
    while True:
        yield from cursor.blanks()
        if (yield from cursor.literal("]")):
            return tuple(calls)
        if calls and not context.strict and (yield from cursor.ahead(*body.closers)):
            return tuple(calls)
        if calls and not (yield from cursor.literal(",")) and context.strict:
            return None
        yield from cursor.blanks()
        call = yield from read_object(cursor, context, body)
        if call is None:
            return None
        calls.append(call)


def read_object(cursor: Cursor, context: Context, body: JsonBody) -> Step[Call | None]:
    """One call. Its name, once known, must be declared, or nothing more is read."""
    name = arguments = None
    if not (yield from cursor.literal("{")):
        return None
    while not (yield from _end_of_object(cursor, context, body)):
        key = yield from read_key(cursor, strict=context.strict)
        if key is None:
            return None
        yield from cursor.blanks()
        if name is None and (body.keyed or key in body.names):
            name = key if body.keyed else (yield from read_name(cursor, context.longest))
            if name is None or not context.knows(name):
                return None
            if not body.keyed:
                continue
        elif context.strict and key not in body.arguments and key not in _HARMLESS:
            return None
        raw = yield from raw_value(cursor, body.bounds)
        if raw is None:
            return None
        if arguments is None and (body.keyed or key in body.arguments):
            arguments = raw
    return None if name is None else _call(name, arguments, context)


def _end_of_object(cursor: Cursor, context: Context, body: JsonBody) -> Step[bool]:
    """Whether the object ends here; otherwise its next member comes, past the comma."""
    yield from cursor.blanks()
    if (yield from cursor.literal(",")):
        yield from cursor.blanks()
        if context.strict:
            return False
    if (yield from cursor.literal("}")):
        return True
    return not context.strict and bool((yield from cursor.ahead(*body.closers)))


def _call(name: str, raw: str | None, context: Context) -> Call | None:
    if raw is None:
        # Only a tool that takes nothing is called without saying with what.
        return None if properties_of(context.tools[name].schema) else Call(name=name, arguments="{}")
    arguments = unwrapped(raw)
    if context.strict and not is_object(arguments):
        return None
    return Call(name=name, arguments=arguments)
