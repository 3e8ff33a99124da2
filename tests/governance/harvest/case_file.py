"""The file format of harvest cases: one file per family, with what a model wrote and the expected blocks.

    # What the family's format looks like.
    family: hermes

    == one: a call after a sentence
    I'll look.
    <tool_call>{"name": "list_files", "arguments": {"path": "src"}}</tool_call>
    --
    text "I'll look."
    call list_files {"path": "src"}
    stop tool_calls

The first word of a title states the kind of the case: `one` call, `many` calls, `none` though it looks alike,
or a `thought`. Brackets behind the title may set the `cause` with which the reply ends, another `family`, or
`tools=none`. The model's text is everything up to the line `--`, without its last line break; a `⏎` is not
part of it and shows blanks at the end of a line.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.events import ReplyFinished
from dragoman.hub.fold import Reply

FOLDER = Path(__file__).resolve().parent / "cases"
HEADING = re.compile(r"== (one|many|none|thought): ([^\[\]]+?)(?: \[([^\]]*)\])?")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    kind: str
    title: str
    family: str
    cause: str
    with_tools: bool
    text: str
    expected: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.txt")) for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[Case]:
    head, *sections = re.split(r"(?m)^(?=== )", path.read_text(encoding="utf-8"))
    family = re.search(r"(?m)^family: (\w+)$", head)
    assert family is not None, f"{path.name}: names no family"
    for section in sections:
        heading, _, rest = section.partition("\n")
        found = HEADING.fullmatch(heading)
        assert found is not None, f"{path.name}: {heading}"
        text, separator, outcome = f"\n{rest}".partition("\n--\n")
        assert separator, f"{path.name}: {heading} has no --"
        settings = dict(word.split("=") for word in (found[3] or "").split())
        yield Case(
            file=path.stem,
            kind=found[1],
            title=found[2],
            family=settings.get("family", family[1]),
            cause=settings.get("cause", "end"),
            with_tools=settings.get("tools") != "none",
            text=text.removeprefix("\n").replace("⏎", ""),
            expected=tuple(outcome.split("\n\n")[0].strip().splitlines()),
        )


def describe(reply: Reply) -> tuple[str, ...]:
    """A reply in the notation of a case."""
    lines: list[str] = []
    for block in reply.blocks:
        if isinstance(block, Text):
            lines.append("text " + _quoted(block.text))
        elif isinstance(block, Reasoning):
            lines.append("think " + _quoted(block.text))
        elif isinstance(block, ToolCall):
            lines.append(f"call {block.name} {block.arguments}")
    assert isinstance(reply.ending, ReplyFinished)
    return (*lines, f"stop {reply.ending.cause}")


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
