"""Reads the contents of a request as turns. Calls get ids if they have none, blocks get back their seals.

The id of a call comes from its name and its number among calls of that name. A response without an id
answers the first call of its name that has no response yet. Both depend on the history alone, which only
grows, so the ids of earlier turns never change.
"""

from collections import OrderedDict

from msgspec.structs import replace

from dragoman.dialects.gemini import forms
from dragoman.dialects.gemini.calls import NO_ARGUMENTS, NO_ID
from dragoman.dialects.gemini.part_reader import PartReader
from dragoman.dialects.gemini.results import read_result
from dragoman.dialects.gemini.signature import (
    BARE,
    SENTINELS,
    decode_envelope,
    is_envelope,
    read_seal,
    read_signature,
)
from dragoman.dialects.gemini.spelling import NameConverter
from dragoman.hub.content import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Role, Turn
from dragoman.hub.seal import Seal
from dragoman.wire.fields import Fields, encode

ROLES: dict[str, Role] = {
    "": "user",
    "user": "user",
    "model": "assistant",
    "assistant": "assistant",
    "function": "tool",
    "tool": "tool",
    "system": "system",
}
#: The role that is written unless the form of a turn names another.
ROLE_NAMES: dict[Role, str] = {
    "user": "user",
    "assistant": "model",
    "tool": "user",
    "system": "user",
    "developer": "user",
}

#: How many characters of thoughts envelopes may add to one request: a small envelope can hold a long text.
ENVELOPE_LIMIT = 64 * 1024 * 1024
#: How many blocks of a turn are searched for the block that an envelope belongs to.
SEARCH_LIMIT = 1_000

_SIGNATURE_ONLY = frozenset({"thought", "thoughtSignature"})


class HistoryReader:
    """Reads the turns of one request in order: `read_system` first, then `read_turn` for each content."""

    def __init__(self, converter: NameConverter, losses: Losses) -> None:
        self._converter = converter
        self._losses = losses
        self._parts = PartReader(converter, self._make_hosted_id)
        self._hosted = 0
        self._made: dict[str, int] = {}
        self._open: dict[str, OrderedDict[str, None]] = {}
        self._envelope_budget = ENVELOPE_LIMIT

    def read_system(self, body: Fields) -> Turn | None:
        """Read `systemInstruction`, which is a content or a text."""
        value = body.rest().get("systemInstruction")
        if value is None:
            return None
        if isinstance(value, str):
            text = body.text("systemInstruction")
            block = Text(text=text, at="systemInstruction")
            return Turn(role="system", blocks=(block,), at=block.at, form=f"{forms.TOP} {forms.TEXT_ONLY}")
        content = self._converter.convert(body.object("systemInstruction"))
        notes = [forms.TOP]
        role = content.maybe_text("role")
        if role is not None:
            notes.append(forms.ROLE + role)
        blocks = self._read_parts(content, notes)
        return Turn(
            role="system", blocks=blocks, at="systemInstruction", form=" ".join(notes), extras=content.rest()
        )

    def read_turn(self, body: Fields, item: object, index: int) -> Turn:
        """Read one item of `contents`; `index` is negative if `contents` is not a list."""
        if isinstance(item, str):
            at = body.at("contents") if index < 0 else body.at("contents", index)
            return Turn(role="user", blocks=(Text(text=item, at=at),), at=at, form=forms.TEXT_ONLY)
        content = self._converter.convert(body.child(item, "contents", index))
        if not content.has("parts", "role"):
            role: Role = "assistant" if content.has("functionCall") else "user"
            blocks: list[AnyBlock] = []
            self._read_part(content, blocks)
            return Turn(role=role, blocks=tuple(blocks), at=content.path, form=forms.BARE_PART)
        notes: list[str] = []
        role = self._read_role(content, notes)
        read = self._read_parts(content, notes)
        return Turn(role=role, blocks=read, at=content.path, form=" ".join(notes), extras=content.rest())

    def _read_role(self, content: Fields, notes: list[str]) -> Role:
        role_name = content.maybe_text("role")
        if role_name is None:
            notes.append(forms.NO_ROLE)
            return "user"
        role = ROLES.get(role_name)
        if role is None:
            raise content.error("expected one of user, model, function", "role")
        if role_name != ROLE_NAMES[role]:
            notes.append(forms.ROLE + role_name)
        return role

    def _read_parts(self, content: Fields, notes: list[str]) -> tuple[AnyBlock, ...]:
        parts = content.rest().get("parts")
        blocks: list[AnyBlock] = []
        if parts is None:
            notes.append(forms.NO_PARTS)
        elif isinstance(parts, str):
            notes.append(forms.TEXT_PART)
            blocks.append(Text(text=content.text("parts"), at=content.at("parts")))
        elif isinstance(parts, dict):
            notes.append(forms.ONE_PART)
            self._read_part(self._converter.convert(content.object("parts")), blocks)
        else:
            for index, part in enumerate(content.items("parts")):
                if isinstance(part, str):
                    blocks.append(Text(text=part, at=content.at("parts", index), form=forms.STRING))
                else:
                    self._read_part(self._converter.convert(content.child(part, "parts", index)), blocks)
        return tuple(blocks)

    def _read_part(self, part: Fields, blocks: list[AnyBlock]) -> None:
        """Append the blocks of a part to those of its turn. Its names are in camelCase."""
        values = part.rest()
        if values.get("functionCall") is not None:
            self._read_call(part, blocks)
        elif values.get("functionResponse") is not None:
            blocks.append(self._read_result(part))
        elif values.get("text") is not None or (values and values.keys() <= _SIGNATURE_ONLY):
            self._read_text(part, blocks)
        else:
            blocks.append(self._parts.read(part))

    def _read_text(self, part: Fields, blocks: list[AnyBlock]) -> None:
        bare = not part.has("text")
        text = part.text_or("text", "")
        thought = part.rest().get("thought") is True
        if thought:
            del part.rest()["thought"]
        signature = part.text_or("thoughtSignature", "")
        if is_envelope(signature):
            self._read_envelope(signature, part.path, blocks, own_text=text if thought else "")
            if thought or not text:
                return
            signature = ""
        seal = read_signature(signature)
        notes = [forms.SIGNATURE + signature] if signature in SENTINELS else []
        notes += [BARE] if bare else []
        if thought and not text:
            notes.append(forms.THOUGHT)
        form, at, extras = " ".join(notes), part.path, part.rest()
        if thought or (seal is not None and not text):
            parts = (text,) if text else ()
            blocks.append(Reasoning(parts=parts, seal=seal, form=form, at=at, extras=extras))
        else:
            blocks.append(Text(text=text, seal=seal, form=form, at=at, extras=extras))

    def _read_call(self, part: Fields, blocks: list[AnyBlock]) -> None:
        call = self._converter.convert(part.object("functionCall"))
        name = call.text("name")
        given = call.maybe_text("id")
        arguments = call.maybe_object("args")
        notes = [] if given else [NO_ID]
        if arguments is None:
            notes.append(NO_ARGUMENTS)
        call_id = given or self._make_call_id(name)
        self._open.setdefault(name, OrderedDict())[call_id] = None
        signature = part.text_or("thoughtSignature", "")
        seal: Seal | None
        if is_envelope(signature):
            seal = self._read_envelope(signature, part.path, blocks)
            notes.append(forms.UNWRAPPED)
        else:
            seal = read_signature(signature)
            notes += [forms.SIGNATURE + signature] if signature in SENTINELS else []
        extras = part.rest()
        if given == "":
            call.rest()["id"] = given
        if call.rest():
            extras["functionCall"] = call.rest()
        blocks.append(
            ToolCall(
                id=call_id,
                name=name,
                arguments="{}" if arguments is None else encode(arguments.rest()).decode(),
                seal=seal,
                form=" ".join(notes),
                at=part.path,
                extras=extras,
            )
        )

    def _read_result(self, part: Fields) -> AnyBlock:
        values = part.rest()["functionResponse"]
        response = self._converter.convert(part.child(values, "functionResponse"))
        given = response.maybe_text("id")
        if given == "":
            response.rest()["id"] = given
        name = response.rest().get("name")
        call_id = self._find_call_id(given, name if isinstance(name, str) else "")
        return read_result(part, self._converter, self._parts, call_id, has_id=bool(given))

    def _make_call_id(self, name: str) -> str:
        number = self._made.get(name, 0)
        self._made[name] = number + 1
        return "call_" + digest(name, str(number))

    def _make_hosted_id(self) -> str:
        self._hosted += 1
        return "hosted_" + digest(str(self._hosted))

    def _find_call_id(self, given: str | None, name: str) -> str:
        """The id of the call that a response belongs to."""
        waiting = self._open.get(name)
        if given:
            if waiting:
                waiting.pop(given, None)
            return given
        return waiting.popitem(last=False)[0] if waiting else self._make_call_id(name)

    def _read_envelope(
        self, signature: str, at: str, blocks: list[AnyBlock], own_text: str = ""
    ) -> Seal | None:
        """Add the content of an envelope to the blocks. Returns the seal of the call that held it."""
        items = decode_envelope(signature) if self._envelope_budget > 0 else None
        if items is None:
            self._losses.add(at, "a signature of this gateway arrived damaged and was dropped")
            return None
        self._envelope_budget -= sum(len(part) for item in items for part in item.parts)
        call_seal: Seal | None = None
        thoughts: list[Reasoning] = []
        for item in items:
            if item.kind == "call":
                call_seal = item.seal
            elif item.kind == "text":
                _seal_last_text(blocks, item.seal)
            else:
                parts = item.parts or ((own_text,) if own_text else ())
                thoughts.append(Reasoning(parts=parts, seal=read_seal(item), redacted=item.redacted, at=at))
        _insert_thoughts(blocks, thoughts)
        return call_seal


def _find_end_of_last_call(blocks: list[AnyBlock]) -> int:
    """The index after the last call of the turn, within the search limit."""
    for index in reversed(range(max(0, len(blocks) - SEARCH_LIMIT), len(blocks))):
        if isinstance(blocks[index], ToolCall):
            return index + 1
    return max(0, len(blocks) - SEARCH_LIMIT)


def _seal_last_text(blocks: list[AnyBlock], seal: Seal) -> None:
    for index in reversed(range(_find_end_of_last_call(blocks), len(blocks))):
        block = blocks[index]
        if isinstance(block, Text):
            blocks[index] = replace(block, seal=seal)
            return


def _insert_thoughts(blocks: list[AnyBlock], thoughts: list[Reasoning]) -> None:
    """Insert thoughts after the last call of the turn: the model had them after it and before its next text.

    Some clients send the text of thoughts back. Then only the seal is added.
    """
    start = _find_end_of_last_call(blocks)
    echoed = {
        block.text: index
        for index, block in enumerate(blocks[start:], start)
        if isinstance(block, Reasoning) and block.seal is None
    }
    missing: list[Reasoning] = []
    for thought in thoughts:
        index = echoed.pop(thought.text, -1) if thought.parts else -1
        if index < 0:
            missing.append(thought)
        else:
            blocks[index] = replace(thought, at=blocks[index].at)
    blocks[start:start] = missing
