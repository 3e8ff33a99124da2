"""Short ways to write hub values, so that a test shows what matters in it."""

from typing import Any

from dragoman.fit import fit
from dragoman.hub.blocks import AnyBlock, Reasoning, Text, Tool, ToolCall, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, Role
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
OTHERS = {dialect: tuple(other for other in DIALECTS if other != dialect) for dialect in DIALECTS}
PAIRS = [(source, target) for source in DIALECTS for target in DIALECTS]
FOREIGN = [(source, target) for source, target in PAIRS if source != target]


def target_for(dialect: str, source: str = "elsewhere", **facts: Any) -> TargetFacts:
    """The facts that a client of `source` meets at a target of `dialect`."""
    return build_target_facts(Profile(dialect=dialect, **facts), source)


def build_message(role: Role, *blocks: AnyBlock | str, at: str = "") -> Message:
    return Message(role=role, at=at, blocks=tuple(Text(text=b) if isinstance(b, str) else b for b in blocks))


def call(call_id: str, name: str = "Read", arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments, at=f"call {call_id}")


def result(call_id: str, *content: AnyBlock | str, is_error: bool = False) -> ToolResult:
    blocks = tuple(Text(text=b) if isinstance(b, str) else b for b in content)
    return ToolResult(call_id=call_id, content=blocks, is_error=is_error, at=f"result {call_id}")


def thought(text: str, issuer: str = "", model: str = "") -> Reasoning:
    return Reasoning(
        parts=(text,), seal=Seal(issuer, model, "proof") if issuer else None, at=f"thought {text}"
    )


def request(*messages: Message, dialect: str = "elsewhere", **fields: Any) -> Request:
    return Request(dialect=dialect, model="m", messages=messages, **fields)


def function(name: str, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": {}}
    return Tool(**{"name": name, "description": "It.", "schema": schema, "at": f"tool {name}", **fields})


def fitted(asked: Request, dialect: str, **facts: Any) -> tuple[Request, list[str]]:
    """The fitted request and the losses, as texts."""
    losses = Losses()
    after = fit(asked, target_for(dialect, asked.dialect, **facts), losses)
    return after, [str(loss) for loss in losses]


def shape(messages: tuple[Message, ...]) -> list[list[str]]:
    """Each message as its role and the content of its blocks."""
    return [[each.role, *map(_describe_block, each.blocks)] for each in messages]


def _describe_block(block: AnyBlock) -> str:
    match block:
        case Text():
            return block.text
        case ToolCall():
            return f"call {block.id}"
        case ToolResult():
            return f"result {block.call_id}: {' '.join(map(_describe_block, block.content))}".rstrip(": ")
        case Reasoning():
            return f"thought {block.text}"
        case _:
            return type(block).__name__
