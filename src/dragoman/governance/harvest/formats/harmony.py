"""Harmony, the format of gpt-oss: a reply is messages with headers, and the header says what a message is.

A header is complete only at `<|message|>`; nothing can be told before. The first message's own beginning is
usually part of the prompt and missing. The tokens that end a message are often not delivered.
"""

import re

from dragoman.governance.harvest.cursor import Call, Cursor, Step
from dragoman.governance.harvest.format import (
    Begins,
    Calls,
    Context,
    Format,
    Layout,
    Opener,
    Outcome,
    Place,
    Reader,
    Reading,
    Section,
)
from dragoman.governance.harvest.json_text import Bounds, raw_value, unwrapped
from dragoman.governance.harvest.schemas import may_be_all
from dragoman.governance.tool_names import DeclaredTool

START = "<|start|>"
CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
TOOLS = "functions."
BOUNDS = Bounds(ENDS, (START, CHANNEL))
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_HEADER_LIMIT = 400

#: What a message without a recipient is, by its channel.
_BY_CHANNEL: dict[str, Outcome] = {
    "analysis": Begins(Section(closers=ENDS)),
    "commentary": Layout(ENDS),
    "final": Layout(ENDS),
}


def _reader(begun: str) -> Reader:
    """Reads a message of whose header this much has been read."""

    def read(cursor: Cursor, context: Context) -> Reading:
        stops = (MESSAGE, START, *ENDS) if begun != CHANNEL else (MESSAGE, START, CHANNEL, *ENDS)
        rest, stop = yield from cursor.until(*stops, limit=_HEADER_LIMIT)
        header = begun + rest
        if stop in (START, CHANNEL):
            cursor.back(stop)
        if stop != MESSAGE or (begun == START and not rest.startswith("assistant")):
            return None
        recipient = _RECIPIENT.search(header)
        if recipient is None:
            channel = _CHANNEL.search(header)
            return _BY_CHANNEL.get(channel[1]) if channel else None
        name = recipient[1].removeprefix(TOOLS)
        if name == recipient[1] or not context.knows(name):
            return None
        call = yield from _read_call(cursor, context.tools[name])
        return None if call is None else Calls((call,))

    return read


def _read_call(cursor: Cursor, tool: DeclaredTool) -> Step[Call | None]:
    name = tool.name
    yield from cursor.blanks()
    may_end = may_be_all((), tool.schema)
    if (yield from cursor.literal(*ENDS)) or (may_end and (yield from cursor.closing(*ENDS))):
        return Call(name=name, arguments="{}")
    if (yield from cursor.peek()) != "{":
        return None
    raw = yield from raw_value(cursor, BOUNDS)
    if raw is None:
        return None
    yield from cursor.blanks()
    ended = (yield from cursor.closing(*ENDS)) or (yield from cursor.ahead(START, CHANNEL))
    return Call(name=name, arguments=unwrapped(raw)) if ended else None


FORMATS = (
    Format(
        name="gpt_oss",
        models="gpt-oss",
        openers=(
            Opener(marker=START, read=_reader(START), safety="A", frames=True),
            Opener(marker=CHANNEL, read=_reader(CHANNEL), safety="A", frames=True),
            Opener(marker="to=" + TOOLS, read=_reader("to=" + TOOLS), safety="A", place=Place.FIRST),
        ),
    ),
)
