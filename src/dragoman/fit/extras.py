"""What the client said beyond our vocabulary, told as losses: another dialect has no words for it.

Nothing is changed here. Writers put extras back only into the dialect they came from.
"""

from collections.abc import Mapping

from dragoman.fit.editing import is_foreign
from dragoman.hub.content import AnyBlock, Text, Tool, ToolDeclarations, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

#: Bookkeeping of the source dialect, and hints on its transport: dropping them takes nothing from the
#: conversation.
BOOKKEEPING = frozenset(
    {
        "id",
        "index",
        "object",
        "status",
        "type",
        "caller",
        "phase",
        "logprobs",
        "eager_input_streaming",
        "execution",
    }
)

#: What holds when nothing is said, so that leaving it out takes nothing away.
USUAL: dict[str, tuple[object, ...]] = {
    "format": ({"type": "text"},),
    "modalities": (["text"],),
    "responseModalities": (["TEXT"],),
    "speed": ("standard",),
    "stream_options": ({"include_obfuscation": True}, {"include_obfuscation": False}),
    "truncation": ("disabled",),
}

#: Objects that were taken apart: what is left of them is told one by one.
OPENED = frozenset({"output_config", "text"})

#: Names that begin so are notes of a reader to its own writer.
NOTE = "@"
#: The one note with something to lose: what a group of tools says of itself.
GROUP = "@namespace"

_REASON = "no other dialect has this field"
_CITED = "citations go back to nobody but who made them"


def extras(request: Request, target: Target, losses: Losses) -> Request:
    if not is_foreign(request, target):
        return request
    tell("", request.extras, losses, frozenset())
    for name in ("tool_choice", "reasoning", "output"):
        part = getattr(request, name)
        if part is not None and part.extras:
            tell(request.path_of(name), part.extras, losses, BOOKKEEPING | {"tools"})
    for tool in request.tools:
        _tell_tool(tool, losses)
    for turn in request.turns:
        if turn.extras:
            tell(turn.at, turn.extras, losses)
        for block in turn.blocks:
            _tell_block(block, losses)
    return request


def _tell_block(block: AnyBlock, losses: Losses) -> None:
    if block.extras:
        tell(block.at, block.extras, losses)
    if type(block) is Text:
        if block.citations:
            losses.add(block.at, _CITED)
    elif isinstance(block, ToolResult):
        for inner in block.content:
            _tell_block(inner, losses)
    elif isinstance(block, ToolDeclarations):
        for tool in block.tools:
            _tell_tool(tool, losses)


def _tell_tool(tool: Tool, losses: Losses) -> None:
    # What the vendors' own tools are set up with matters only if the target has the like of them.
    if tool.extras and tool.kind not in ("hosted", "typed"):
        tell(tool.at, tool.extras, losses)
    group = tool.extras.get(GROUP)
    if isinstance(group, dict) and group.get("description"):
        losses.add(f"{tool.at.rpartition('.')[0]}.description", "no other dialect describes groups of tools")


def tell(
    at: str, extras: Mapping[str, object], losses: Losses, ignored: frozenset[str] = BOOKKEEPING
) -> None:
    for name, value in extras.items():
        # Nothing, no, and none of them are what holds anyway.
        if name in ignored or name.startswith(NOTE) or value in (None, False, "", [], {}):
            continue
        path = f"{at}.{name}" if at else name
        if name in OPENED and isinstance(value, dict):
            tell(path, value, losses, ignored)
        elif value not in USUAL.get(name.rpartition(".")[2], ()):
            losses.add(path, _CITED if name == "annotations" else _REASON)
