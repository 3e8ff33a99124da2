"""Running governance on replies: the events that leave, and the interventions that are reported."""

from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st

from dragoman.governance.hold import HoldStage
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import read_governance
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import ToolCall
from dragoman.hub.events import ReplyEvent
from tests.dialects.strategies import json_objects
from tests.fit.reply.running import call_block, calls_in, reply_of, through

SHELL = DeclaredTool(
    "shell",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
)
ANY = DeclaredTool("any", {"type": "object", "properties": {}})


class RecordedInterventions(list[Intervention]):
    """A `Report` that keeps the interventions."""

    def __call__(self, intervention: Intervention) -> None:
        self.append(intervention)

    @property
    def kinds(self) -> list[str]:
        return [intervention.kind for intervention in self]


def gate(
    reported: RecordedInterventions | None = None,
    *,
    mode: str = "hold",
    tools: Sequence[DeclaredTool] = (SHELL, ANY),
    **settings: object,
) -> HoldStage:
    governance = read_governance({"tools": mode, **settings})
    return HoldStage(governance, tools, report=RecordedInterventions() if reported is None else reported)


def a_call(*pieces: str, tool: str = "any", index: int = 0, call_id: str = "") -> list[ReplyEvent]:
    return call_block(index, ToolCall(id=call_id or f"call_{index}", name=tool), *pieces)


def arguments_after(stage: HoldStage, *pieces: str, tool: str = "any") -> str:
    (call,) = calls_in(through([stage], reply_of(a_call(*pieces, tool=tool), cause="tool_calls")))
    return call.arguments


def fed(stage: HoldStage, events: Sequence[ReplyEvent]) -> list[list[ReplyEvent]]:
    """What each event makes the stage give."""
    return [stage.feed(event) for event in events]


@st.composite
def broken_arguments(draw: st.DrawFn) -> list[str]:
    """The pieces of a JSON object with a few characters added or left out, as models do."""
    text = msgspec.json.encode(draw(json_objects)).decode()
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from(["", "'", '"', ",", "}", "{", "_", " x", "\n", "null", '"b":1']))
        text = text[:at] + new + text[at + (not new) :]
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
