"""Calls and reasoning that a model wrote as plain text, and in whose way."""

import re

from dragoman.governance.harvest import HarvestStage, families
from dragoman.governance.records import DeclaredTool, Intervention
from dragoman.hub.content import Text, ToolCall
from dragoman.hub.events import BlockClosed, BlockOpened, ReplyEvent, ReplyFinished, ReplyStarted
from dragoman.hub.ids import Ids

#: Families whose way others share: the name that most people know goes first.
_KNOWN = ("hermes", "qwen3_coder", "glm", "mistral", "llama3", "llama4", "kimi_k2", "deepseek_v31", "gpt_oss")
_TAGS = re.compile(r"\s*(?:<think>|<thought>|\[THINK\]|<seed:think>|◁think▷)")


def family_of(text: str, tool: dict[str, object]) -> str:
    """The family in whose way a call stands in the text, the best known first; empty if there is none."""
    schema = tool["input_schema"]
    declared = DeclaredTool(str(tool["name"]), schema if isinstance(schema, dict) else None)
    names = dict.fromkeys((*_KNOWN, *families()))
    return next((name for name in names if _finds(name, text, declared)), "")


def reasons_in_text(text: str) -> bool:
    return _TAGS.match(text) is not None or "</think>" in text


def _finds(family: str, text: str, tool: DeclaredTool) -> bool:
    stage = HarvestStage([tool], family=family, ids=Ids(family), report=_ignored)
    said: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text=text)),
        BlockClosed(0),
        ReplyFinished(cause="end"),
    ]
    events = [made for event in said for made in stage.feed(event)]
    return any(isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) for event in events)


def _ignored(intervention: Intervention) -> None:
    """Only the outcome matters here."""
