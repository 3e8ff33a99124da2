"""Turns of the hub as input items.

A turn's texts and media become one message; everything else in it becomes an item of its own, in order.
"""

from dragoman.dialects.openai_responses.calls import spell_call, spell_output
from dragoman.dialects.openai_responses.hosted import FOLLOWS, spell_hosted
from dragoman.dialects.openai_responses.items import NO_ROLE, STRING, UNTYPED
from dragoman.dialects.openai_responses.parts import spell_part
from dragoman.dialects.openai_responses.reasoning import UNSEALED, spell_reasoning
from dragoman.dialects.openai_responses.tools import spell_tools
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
    """Writes the items of one request. `own`: the request came in this dialect."""

    def __init__(self, target: Target, losses: Losses, *, own: bool) -> None:
        self._target = target
        self._losses = losses
        self._own = own
        self.items: list[Extras] = []

    def write(self, turn: Turn) -> None:
        role = self._role(turn)
        content: list[AnyBlock] = []
        for block in turn.blocks:
            if self._is_content(block):
                content.append(block)
                continue
            self._message(turn, role, content)
            content = []
            item = self._item(block)
            if item is not None:
                self.items.append(item)
        if content or (self._own and not turn.blocks):
            self._message(turn, role, content, always=True)

    def _role(self, turn: Turn) -> str:
        if self._own:
            return turn.role
        if turn.role in ("system", "developer"):
            return "developer" if self._target.developer_role else "system"
        return "user" if turn.role == "tool" else turn.role

    def _is_content(self, block: AnyBlock) -> bool:
        if isinstance(block, Media):
            # A picture that the model made is an item, and only this dialect can give it back as one.
            return not (self._own and spell_hosted(block) is not None)
        return isinstance(block, Text | Refusal) or (isinstance(block, Opaque) and block.form == "part")

    def _message(self, turn: Turn, role: str, content: list[AnyBlock], *, always: bool = False) -> None:
        if not content and not always:
            return
        forms = turn.form.split() if self._own else []
        only = content[0] if len(content) == 1 else None
        spelled: object
        if STRING in forms and isinstance(only, Text):
            spelled = only.text
        else:
            parts = (spell_part(block, role, self._losses, own=self._own) for block in content)
            spelled = [part for part in parts if part is not None]
            if not spelled and content:
                return
        item: Extras = {} if UNTYPED in forms else {"type": "message"}
        item |= {"role": role, "content": spelled}
        self.items.append({**item, **turn.extras} if self._own else item)

    def _item(self, block: AnyBlock) -> Extras | None:
        match block:
            case ToolCall():
                return spell_call(block, self._losses, own=self._own)
            case ToolResult():
                return spell_output(block, self._losses, own=self._own)
            case Reasoning():
                return self._reasoning(block)
            case ToolDeclarations():
                return self._additional_tools(block)
            case HostedCall() | HostedResult() | Opaque() | Media() if self._own:
                if isinstance(block, HostedResult) and block.form == FOLLOWS:
                    return None
                item = spell_hosted(block)
                if item is not None:
                    return item
            case ToolReference() | Text() | Refusal():
                pass
        self._losses.add(block.at, "OpenAI Responses has no input item for this")
        return None

    def _reasoning(self, block: Reasoning) -> Extras | None:
        """Thought goes back only to who sealed it; without a seal only to who said it in this dialect."""
        seal = block.seal
        if seal is None and (not self._own or block.form == UNSEALED):
            self._losses.add(block.at, "reasoning without a seal of OpenAI's is not sent")
            return None
        if seal is not None and seal.issuer != self._target.issuer:
            self._losses.add(block.at, "reasoning that another vendor sealed is not sent")
            return None
        item = spell_reasoning(block, own=self._own)
        if seal is not None:
            item["encrypted_content"] = seal.value
        return {**item, **block.extras} if self._own else item

    def _additional_tools(self, block: ToolDeclarations) -> Extras:
        tools = spell_tools(block.tools, self._losses, own=self._own)
        item: Extras = {"type": "additional_tools", "tools": tools}
        if not self._own or block.form != NO_ROLE:
            item["role"] = "developer"
        return {**item, **block.extras} if self._own else item
