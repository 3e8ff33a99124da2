"""Running the harvest on texts, in any pieces, with the grammar watching."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

from hypothesis import strategies as st

from dragoman.governance.harvest import HarvestStage
from dragoman.governance.interventions import Intervention
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Text
from dragoman.hub.events import (
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
)
from dragoman.hub.fold import Reply, fold
from dragoman.hub.ids import IdSource
from dragoman.hub.reply_grammar import GrammarChecker


def _tool(name: str, required: tuple[str, ...] = (), **properties: object) -> DeclaredTool:
    schema: dict[str, object] = {"type": "object", "properties": properties, "required": list(required)}
    return DeclaredTool(name, schema)


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
TOOLS = (
    _tool("list_files", ("path",), path=STRING, depth=INTEGER),
    _tool("read_file", ("path",), path=STRING, line=INTEGER),
    _tool("write_file", ("path", "content"), path=STRING, content=STRING),
    _tool("get_time"),
    _tool(
        "search",
        ("query",),
        query=STRING,
        tags={"type": "array", "items": STRING},
        filter={"type": "object"},
        exact={"type": "boolean"},
        limit=INTEGER,
        ratio={"type": "number"},
        note={"type": ["string", "null"]},
    ),
)


def stage(
    family: str, tools: Sequence[DeclaredTool] = TOOLS, reports: list[Intervention] | None = None
) -> HarvestStage:
    notes: list[Intervention] = [] if reports is None else reports
    return HarvestStage(tools, family=family, ids=IdSource("seed"), report=notes.append)


def through(harvest: HarvestStage, events: Iterable[ReplyEvent]) -> list[ReplyEvent]:
    """What the stage makes of the events; the grammar must hold."""
    checker = GrammarChecker()
    out: list[ReplyEvent] = []
    for event in events:
        for after in harvest.feed(event):
            checker.check(after)
            out.append(after)
    return out


def reply_of(pieces: Iterable[str], cause: str = "end") -> list[ReplyEvent]:
    """A reply that is one block of text."""
    return [
        ReplyStarted(),
        BlockOpened(0, Text(text="")),
        *(TextDelta(0, piece) for piece in pieces),
        BlockClosed(0),
        ReplyFinished(cause=cast("StopCause", cause)),
    ]


def harvested(
    family: str, pieces: Iterable[str], cause: str = "end", tools: Sequence[DeclaredTool] = TOOLS
) -> Reply:
    return fold(through(stage(family, tools), reply_of(pieces, cause)))


def cut(text: str, *places: int) -> list[str]:
    return [text[a:b] for a, b in pairwise((0, *sorted(places), len(text)))]


def cuts_of(text: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.integers(0, len(text)), max_size=8).map(lambda places: cut(text, *places))
