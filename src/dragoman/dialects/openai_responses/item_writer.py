"""Writes turns as input items.

The texts and media of a turn become one message. Every other block becomes an item of its own, in order.
"""

from dragoman.dialects.openai_responses.calls import write_call, write_output
from dragoman.dialects.openai_responses.hosted import FOLLOWS, write_hosted
from dragoman.dialects.openai_responses.items import NO_ROLE, STRING, UNTYPED
from dragoman.dialects.openai_responses.parts import write_part
from dragoman.dialects.openai_responses.reasoning import UNSEALED, write_reasoning
from dragoman.dialects.openai_responses.tools import write_tools
from dragoman.hub.content import (
    AnyBlock,
    Extras,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Turn
from dragoman.providers.profile import Target


class ItemWriter:
    """Writes the items of one request. `own`: the request is of this dialect."""

    def __init__(self, target: Target, losses: Losses, *, own: bool) -> None:
        self._target = target
        self._losses = losses
        self._own = own
        self.items: list[Extras] = []

    def write(self, turn: Turn) -> None:
        role = self._choose_role(turn)
        content: list[AnyBlock] = []
        for block in turn.blocks:
            if self._is_content(block):
                content.append(block)
                continue
            self._write_message(turn, role, content)
            content = []
            item = self._write_item(block)
            if item is not None:
                self.items.append(item)
        if content or (self._own and not turn.blocks):
            self._write_message(turn, role, content, always=True)

    def _choose_role(self, turn: Turn) -> str:
        if self._own:
            return turn.role
        if turn.role in ("system", "developer"):
            return "developer" if self._target.developer_role else "system"
        return "user" if turn.role == "tool" else turn.role

    def _is_content(self, block: AnyBlock) -> bool:
        if isinstance(block, Media):
            # An image that the model made is an item, and only this dialect can write it as one.
            return not (self._own and write_hosted(block) is not None)
        return isinstance(block, Text | Refusal) or (isinstance(block, Opaque) and block.form == "part")

    def _write_message(self, turn: Turn, role: str, content: list[AnyBlock], *, always: bool = False) -> None:
        if not content and not always:
            return
        forms = turn.form.split() if self._own else []
        only = content[0] if len(content) == 1 else None
        written: object
        if STRING in forms and isinstance(only, Text):
            written = only.text
        else:
            parts = (write_part(block, role, self._losses, own=self._own) for block in content)
            written = [part for part in parts if part is not None]
            if not written and content:
                return
        item: Extras = {} if UNTYPED in forms else {"type": "message"}
        item |= {"role": role, "content": written}
        self.items.append({**item, **turn.extras} if self._own else item)

    def _write_item(self, block: AnyBlock) -> Extras | None:
        match block:
            case ToolCall():
                return write_call(block, self._losses, own=self._own)
            case ToolResult():
                return write_output(block, self._losses, own=self._own)
            case Reasoning():
                return self._write_reasoning(block)
            case ToolDeclarations():
                return self._write_tools(block)
            case HostedCall() | HostedResult() | Opaque() | Media() if self._own:
                if isinstance(block, HostedResult) and block.form == FOLLOWS:
                    return None
                item = write_hosted(block)
                if item is not None:
                    return item
            case ToolReference() | Text() | Refusal():
                pass
        self._losses.add(block.at, "OpenAI Responses has no input item for this")
        return None

    def _write_reasoning(self, block: Reasoning) -> Extras | None:
        """Write a thought only for the vendor that sealed it; without a seal, only one of this dialect."""
        seal = block.seal
        if seal is None and (not self._own or block.form == UNSEALED):
            self._losses.add(block.at, "reasoning without a seal of OpenAI's is not sent")
            return None
        if seal is not None and seal.issuer != self._target.issuer:
            self._losses.add(block.at, "reasoning that another vendor sealed is not sent")
            return None
        item = write_reasoning(block, own=self._own)
        if seal is not None:
            item["encrypted_content"] = seal.value
        return {**item, **block.extras} if self._own else item

    def _write_tools(self, block: ToolDeclarations) -> Extras:
        tools = write_tools(block.tools, self._losses, own=self._own)
        item: Extras = {"type": "additional_tools", "tools": tools}
        if not self._own or block.form != NO_ROLE:
            item["role"] = "developer"
        return {**item, **block.extras} if self._own else item
