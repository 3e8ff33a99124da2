"""Input items as turns of the hub: one turn for each item, in their order.

What an item says beyond the hub's words stays in the extras of its block, or of its turn for a message.
"""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.dialects.openai_responses.calls import read_call, read_output
from dragoman.dialects.openai_responses.hosted import read_hosted
from dragoman.dialects.openai_responses.parts import read_content
from dragoman.dialects.openai_responses.reasoning import read_reasoning
from dragoman.dialects.openai_responses.tools import required_tools
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_ITEM, CALL_OF_OUTPUT, is_for_client
from dragoman.hub.content import AnyBlock, Text, ToolCall, ToolDeclarations
from dragoman.hub.loss import Losses
from dragoman.hub.request import Role, Turn
from dragoman.hub.seal import SealedItem
from dragoman.wire.fields import Fields

ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}

#: Forms of a message: content as a text, and an item that leaves out its type.
STRING = "string"
UNTYPED = "untyped"
#: The form of an item of tools that does not say whose it is.
NO_ROLE = "no-role"

#: Who said the items that have no role: the model, unless they are instructions or answers to it.
ROLE_OF_ITEM: dict[str, Role] = {
    "configuration_update": "developer",
    "compaction_trigger": "user",
    "item_reference": "user",
    "computer_call_output": "tool",
    "mcp_approval_response": "tool",
    "tool_search_output": "tool",
}


class ItemReader:
    """Reads items one by one; `turns()` also puts seals where they belong."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[Turn] = []
        #: Seals of calls and texts, and how many turns there were when they came.
        self._carried: list[tuple[int, SealedItem]] = []

    def read(self, fields: Fields) -> None:
        item_type = fields.rest().get("type")
        if item_type is None and fields.has("role"):
            item_type = "message"
        if not isinstance(item_type, str):
            fields.text("type")
        reader = READERS.get(str(item_type), ItemReader._other)
        reader(self, fields, str(item_type))

    def turns(self) -> tuple[Turn, ...]:
        places = {
            block.id: (number, position)
            for number, turn in enumerate(self._turns)
            for position, block in enumerate(turn.blocks)
            if isinstance(block, ToolCall)
        }
        for number, carried in self._carried:
            place = places.get(carried.call_id) if carried.kind == "call" else self._last_text(number)
            if place is not None:
                self._seal(place, carried)
        return tuple(self._turns)

    def _last_text(self, before: int) -> tuple[int, int] | None:
        """The model's last text before this turn."""
        for number in range(before - 1, -1, -1):
            turn = self._turns[number]
            if turn.role != "assistant":
                return None
            for position in range(len(turn.blocks) - 1, -1, -1):
                if isinstance(turn.blocks[position], Text):
                    return number, position
        return None

    def _seal(self, place: tuple[int, int], carried: SealedItem) -> None:
        number, position = place
        turn = self._turns[number]
        block = turn.blocks[position]
        if isinstance(block, ToolCall | Text):
            blocks = list(turn.blocks)
            blocks[position] = msgspec.structs.replace(block, seal=carried.seal)
            self._turns[number] = msgspec.structs.replace(turn, blocks=tuple(blocks))

    def _add(self, role: Role, blocks: Sequence[AnyBlock], at: str) -> None:
        self._turns.append(Turn(role=role, blocks=tuple(blocks), at=at))

    def _message(self, fields: Fields, item_type: str) -> None:
        forms = [] if fields.maybe_text("type") else [UNTYPED]
        role = ROLES.get(fields.text("role"))
        if role is None:
            raise fields.error("expected user, assistant, system or developer", "role")
        blocks, form = read_content(fields, "content", role)
        if form:
            forms.append(form)
        self._turns.append(
            Turn(role=role, blocks=blocks, at=fields.path, form=" ".join(forms), extras=fields.rest())
        )

    def _call(self, fields: Fields, item_type: str) -> None:
        if not is_for_client(item_type, fields.rest()):
            self._other(fields, item_type)
            return
        fields.raw("type")
        at = fields.path
        self._add("assistant", [read_call(fields, CALL_OF_ITEM[item_type])], at)

    def _output(self, fields: Fields, item_type: str) -> None:
        if not is_for_client(item_type, fields.rest()):
            self._other(fields, item_type)
            return
        fields.raw("type")
        at = fields.path
        self._add("tool", [read_output(fields, CALL_OF_OUTPUT[item_type])], at)

    def _reasoning(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        at = fields.path
        thoughts, carried = read_reasoning(fields, self._losses)
        self._carried += [(len(self._turns), item) for item in carried]
        if thoughts:
            self._add("assistant", thoughts, at)

    def _additional_tools(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        form = "" if fields.has("role") else NO_ROLE
        if fields.rest().get("role") == "developer":
            fields.raw("role")
        at = fields.path
        tools = required_tools(fields)
        self._add("developer", [ToolDeclarations(tools=tools, form=form, at=at, extras=fields.rest())], at)

    def _other(self, fields: Fields, item_type: str) -> None:
        at = fields.path
        self._add(ROLE_OF_ITEM.get(item_type, "assistant"), read_hosted(fields.rest(), at), at)


READERS: dict[str, Callable[[ItemReader, Fields, str], None]] = {
    "message": ItemReader._message,
    "reasoning": ItemReader._reasoning,
    "additional_tools": ItemReader._additional_tools,
    **dict.fromkeys(CALL_OF_ITEM, ItemReader._call),
    **dict.fromkeys(CALL_OF_OUTPUT, ItemReader._output),
}
