"""Reads input items as turns, one turn for each item.

The unknown fields of an item stay in the extras of its block, or of its turn for a message.
"""

from collections.abc import Callable, Sequence

import msgspec

from dragoman.dialects.openai_responses.calls import read_call, read_output
from dragoman.dialects.openai_responses.hosted import read_hosted
from dragoman.dialects.openai_responses.parts import read_content
from dragoman.dialects.openai_responses.reasoning import read_reasoning
from dragoman.dialects.openai_responses.tools import read_required_tools
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

#: Forms of a message: the content is a text; the item has no type.
STRING = "string"
UNTYPED = "untyped"
#: The form of an item of tools without a role.
NO_ROLE = "no-role"

#: The role of items that have none: the model's, unless they are instructions or results.
ROLE_OF_ITEM: dict[str, Role] = {
    "configuration_update": "developer",
    "compaction_trigger": "user",
    "item_reference": "user",
    "computer_call_output": "tool",
    "mcp_approval_response": "tool",
    "tool_search_output": "tool",
}


class ItemReader:
    """Reads the items of one request: `read` for each item in order, then `finish` once."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._turns: list[Turn] = []
        #: Seals of calls and texts, each with the number of turns before it.
        self._carried: list[tuple[int, SealedItem]] = []

    def read(self, fields: Fields) -> None:
        item_type = fields.rest().get("type")
        if item_type is None and fields.has("role"):
            item_type = "message"
        if not isinstance(item_type, str):
            fields.text("type")
        reader = READERS.get(str(item_type), ItemReader._read_other)
        reader(self, fields, str(item_type))

    def finish(self) -> tuple[Turn, ...]:
        """All turns, with the seals added to their calls and texts."""
        places = {
            block.id: (number, position)
            for number, turn in enumerate(self._turns)
            for position, block in enumerate(turn.blocks)
            if isinstance(block, ToolCall)
        }
        for number, carried in self._carried:
            place = places.get(carried.call_id) if carried.kind == "call" else self._find_last_text(number)
            if place is not None:
                self._add_seal(place, carried)
        return tuple(self._turns)

    def _find_last_text(self, before: int) -> tuple[int, int] | None:
        """The position of the model's last text before this turn."""
        for number in range(before - 1, -1, -1):
            turn = self._turns[number]
            if turn.role != "assistant":
                return None
            for position in range(len(turn.blocks) - 1, -1, -1):
                if isinstance(turn.blocks[position], Text):
                    return number, position
        return None

    def _add_seal(self, place: tuple[int, int], carried: SealedItem) -> None:
        number, position = place
        turn = self._turns[number]
        block = turn.blocks[position]
        if isinstance(block, ToolCall | Text):
            blocks = list(turn.blocks)
            blocks[position] = msgspec.structs.replace(block, seal=carried.seal)
            self._turns[number] = msgspec.structs.replace(turn, blocks=tuple(blocks))

    def _add(self, role: Role, blocks: Sequence[AnyBlock], at: str) -> None:
        self._turns.append(Turn(role=role, blocks=tuple(blocks), at=at))

    def _read_message(self, fields: Fields, item_type: str) -> None:
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

    def _read_call(self, fields: Fields, item_type: str) -> None:
        if not is_for_client(item_type, fields.rest()):
            self._read_other(fields, item_type)
            return
        fields.raw("type")
        at = fields.path
        self._add("assistant", [read_call(fields, CALL_OF_ITEM[item_type])], at)

    def _read_output(self, fields: Fields, item_type: str) -> None:
        if not is_for_client(item_type, fields.rest()):
            self._read_other(fields, item_type)
            return
        fields.raw("type")
        at = fields.path
        self._add("tool", [read_output(fields, CALL_OF_OUTPUT[item_type])], at)

    def _read_reasoning(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        at = fields.path
        thoughts, carried = read_reasoning(fields, self._losses)
        self._carried += [(len(self._turns), item) for item in carried]
        if thoughts:
            self._add("assistant", thoughts, at)

    def _read_additional_tools(self, fields: Fields, item_type: str) -> None:
        fields.raw("type")
        form = "" if fields.has("role") else NO_ROLE
        if fields.rest().get("role") == "developer":
            fields.raw("role")
        at = fields.path
        tools = read_required_tools(fields)
        self._add("developer", [ToolDeclarations(tools=tools, form=form, at=at, extras=fields.rest())], at)

    def _read_other(self, fields: Fields, item_type: str) -> None:
        at = fields.path
        self._add(ROLE_OF_ITEM.get(item_type, "assistant"), read_hosted(fields.rest(), at), at)


READERS: dict[str, Callable[[ItemReader, Fields, str], None]] = {
    "message": ItemReader._read_message,
    "reasoning": ItemReader._read_reasoning,
    "additional_tools": ItemReader._read_additional_tools,
    **dict.fromkeys(CALL_OF_ITEM, ItemReader._read_call),
    **dict.fromkeys(CALL_OF_OUTPUT, ItemReader._read_output),
}
