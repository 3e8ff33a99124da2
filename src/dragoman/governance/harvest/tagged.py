"""Calls whose parameters stand in tags as raw text; their types come from the tool's schema.

A raw value is data to the last blank. It ends at the closing tag that more of the call's structure follows,
so that it may hold tags that look alike.
"""

import re
from typing import Literal

import msgspec

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import Calls, Context, Reading
from dragoman.governance.harvest.json_text import json_object, json_string
from dragoman.governance.harvest.schemas import is_json, may_be_all, member_schema, properties_of, typed
from dragoman.governance.tool_names import DeclaredTool

#: Where the type of a value comes from: the schema, or the tag, which calls it text or JSON.
Kind = Literal["schema", "text", "json"]

NAME = re.compile(r"[^\s<>\"'={}\[\]()|,;]+")
_KEY = re.compile(r"[^<>\"\r\n]+")
_KEY_LIMIT = 256
_CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)
_LINE_BREAK_BEFORE = re.compile(r"\r?\n")
_LINE_BREAK_AFTER = re.compile(r"\r?\n\Z")


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """How a family writes one parameter: `opens` key `named` value `closes`.

    `named` maps what may end the key to where the value's type comes from; `begins` stands behind that, past
    blanks. `trimmed`: one line break on either side is layout. `forgiving`: the next parameter ends one whose
    closing tag is missing. `character_data`: the value may stand in a CDATA section.
    """

    opens: str
    named: dict[str, Kind]
    closes: str
    begins: str = ""
    trimmed: bool = False
    forgiving: bool = False
    character_data: bool = False


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """How a family writes one call: `opens` name `named` parameters `closes`."""

    opens: str
    named: tuple[str, ...]
    closes: str
    parameter: Parameter


def read_tool_name(cursor: Cursor, context: Context, *named: str) -> Step[DeclaredTool | None]:
    """A declared name and what ends it."""
    name = yield from cursor.word(NAME, context.longest)
    tool = context.tools.get(name)
    return tool if tool and (yield from cursor.literal(*named)) else None


def read_invocation(cursor: Cursor, context: Context, grammar: Invocation) -> Step[Call | None]:
    """One call, from behind its opening."""
    tool = yield from read_tool_name(cursor, context, *grammar.named)
    if tool is None:
        return None
    members = yield from read_parameters(cursor, context, grammar.parameter, tool, grammar.closes)
    return None if members is None else Call(name=tool.name, arguments=json_object(members))


def read_wrapped(
    cursor: Cursor, context: Context, grammar: Invocation, *closers: str, one_by_one: bool = False
) -> Reading:
    """Calls up to a wrapper's end. `one_by_one`: each is handed over as soon as it is complete."""
    calls: list[Call] = []
    while True:
        yield from cursor.blanks()
        found = yield from cursor.literal(grammar.opens, *closers)
        if found != grammar.opens:
            complete = bool(found) or (not context.strict and cursor.stops_short_of(grammar.opens, *closers))
            if not complete or not calls:
                return None
            if not found:
                yield from cursor.closing(*closers)
            return Calls(() if one_by_one else tuple(calls))
        call = yield from read_invocation(cursor, context, grammar)
        if call is None:
            return None
        calls.append(call)
        if one_by_one:
            yield call


def read_parameters(
    cursor: Cursor, context: Context, grammar: Parameter, tool: DeclaredTool, *closers: str
) -> Step[dict[str, str] | None]:
    """The members of the arguments as JSON, up to and with a closer; None if these are no parameters."""
    members: dict[str, str] = {}
    opened = False
    while True:
        if not opened:
            yield from cursor.blanks()
            found = yield from cursor.literal(grammar.opens, *closers)
            if found != grammar.opens:
                if found:
                    return members
                may_end = not context.strict and may_be_all(members, tool.schema)
                return members if may_end and (yield from cursor.closing(*closers)) else None
        key = yield from cursor.word(_KEY, _KEY_LIMIT)
        named = yield from cursor.literal(*grammar.named)
        if not key or not named or not (yield from _begins(cursor, grammar)):
            return None
        value = yield from _read_value(cursor, context, grammar, tool, closers)
        if value is None:
            return None
        text, opened = value
        members[key] = _as_json(_inner(text, grammar), grammar.named[named], key, tool)


def _begins(cursor: Cursor, grammar: Parameter) -> Step[bool]:
    if not grammar.begins:
        return True
    yield from cursor.blanks()
    return bool((yield from cursor.literal(grammar.begins)))


def _read_value(
    cursor: Cursor, context: Context, grammar: Parameter, tool: DeclaredTool, closers: tuple[str, ...]
) -> Step[tuple[str, bool] | None]:
    """A raw value, and whether the next parameter has begun already; None if it has no end."""
    parts: list[str] = []
    forgiving = grammar.forgiving and not context.strict
    stops = (grammar.closes, grammar.opens) if forgiving else (grammar.closes,)
    while True:
        text, stop = yield from cursor.until(*stops)
        parts.append(text)
        if not stop:
            return None
        if stop == grammar.opens:
            if (yield from _is_next_parameter(cursor, grammar, tool)):
                return "".join(parts), True
            parts.append(stop)
            continue
        blanks = yield from cursor.blanks()
        if grammar.character_data and _is_open_data(parts):
            parts += (stop, blanks)
            continue
        followers = (grammar.opens, *closers)
        if (yield from cursor.ahead(*followers)) or (
            not context.strict and cursor.stops_short_of(*followers)
        ):
            return "".join(parts), False
        parts += (stop, blanks)


def _is_open_data(parts: list[str]) -> bool:
    """Whether a CDATA section has begun that does not end with these parts: tags in it are data."""
    return parts[0].lstrip().startswith("<![CDATA[") and not parts[-1].rstrip().endswith("]]>")


def _is_next_parameter(cursor: Cursor, grammar: Parameter, tool: DeclaredTool) -> Step[bool]:
    """Whether a parameter that the tool knows begins here. Others are data that looks alike."""
    options = [key + named for key in properties_of(tool.schema) for named in grammar.named]
    return bool((yield from cursor.ahead(*options)))


def _inner(text: str, grammar: Parameter) -> str:
    if grammar.character_data and (found := _CDATA.fullmatch(text)) is not None:
        return found[1]
    if not grammar.trimmed:
        return text
    before = _LINE_BREAK_BEFORE.match(text)
    text = text[before.end() :] if before else text
    return _LINE_BREAK_AFTER.sub("", text)


def _as_json(text: str, kind: Kind, key: str, tool: DeclaredTool) -> str:
    if kind == "text":
        return json_string(text)
    if kind == "json" and is_json(text):
        return text
    return typed(text, member_schema(tool.schema, key), tool.schema)
