"""The contents of a request as turns, with ids where the client sent none and seals where it echoed them.

A call without an id gets one made of its name and its number among calls of that name; a response without
an id answers the first call of its name that is still open. Both depend on the history alone, which only
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
    native_seal,
    seal_of,
)
from dragoman.dialects.gemini.spelling import Spelling
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
#: The role that is written when a turn's form names no other.
ROLE_WORDS: dict[Role, str] = {
    "user": "user",
    "assistant": "model",
    "tool": "user",
    "system": "user",
    "developer": "user",
}

#: How much thought envelopes may bring back into one request: they are small and hold much.
CARRIED_LIMIT = 64 * 1024 * 1024
#: How many parts of a turn are looked at for what an envelope belongs to.
LOOK_BACK = 1_000

_SIGNATURE_ONLY = frozenset({"thought", "thoughtSignature"})


class HistoryReader:
    """Reads the turns of one request, in order."""

    def __init__(self, spelling: Spelling, losses: Losses) -> None:
        self._spelling = spelling
        self._losses = losses
        self._parts = PartReader(spelling, self._hosted_id)
        self._hosted = 0
        self._made: dict[str, int] = {}
        self._open: dict[str, OrderedDict[str, None]] = {}
        self._room = CARRIED_LIMIT

    def system(self, body: Fields) -> Turn | None:
        """`systemInstruction`: a content, or just a text."""
        value = body.rest().get("systemInstruction")
        if value is None:
            return None
        if isinstance(value, str):
            text = body.text("systemInstruction")
            block = Text(text=text, at="systemInstruction")
            return Turn(role="system", blocks=(block,), at=block.at, form=f"{forms.TOP} {forms.TEXT_ONLY}")
        content = self._spelling.canonical(body.object("systemInstruction"))
        words = [forms.TOP]
        role = content.maybe_text("role")
        if role is not None:
            words.append(forms.ROLE + role)
        blocks = self._read_parts(content, words)
        return Turn(
            role="system", blocks=blocks, at="systemInstruction", form=" ".join(words), extras=content.rest()
        )

    def turn(self, body: Fields, item: object, index: int) -> Turn:
        """One of `contents`; `index` is negative if there is no list around it."""
        if isinstance(item, str):
            at = body.at("contents") if index < 0 else body.at("contents", index)
            return Turn(role="user", blocks=(Text(text=item, at=at),), at=at, form=forms.TEXT_ONLY)
        content = self._spelling.canonical(body.child(item, "contents", index))
        if not content.has("parts", "role"):
            role: Role = "assistant" if content.has("functionCall") else "user"
            blocks: list[AnyBlock] = []
            self._read_part(content, blocks)
            return Turn(role=role, blocks=tuple(blocks), at=content.path, form=forms.BARE_PART)
        words: list[str] = []
        role = self._read_role(content, words)
        read = self._read_parts(content, words)
        return Turn(role=role, blocks=read, at=content.path, form=" ".join(words), extras=content.rest())

    def _read_role(self, content: Fields, words: list[str]) -> Role:
        said = content.maybe_text("role")
        if said is None:
            words.append(forms.NO_ROLE)
            return "user"
        role = ROLES.get(said)
        if role is None:
            raise content.error("expected one of user, model, function", "role")
        if said != ROLE_WORDS[role]:
            words.append(forms.ROLE + said)
        return role

    def _read_parts(self, content: Fields, words: list[str]) -> tuple[AnyBlock, ...]:
        parts = content.rest().get("parts")
        blocks: list[AnyBlock] = []
        if parts is None:
            words.append(forms.NO_PARTS)
        elif isinstance(parts, str):
            words.append(forms.TEXT_PART)
            blocks.append(Text(text=content.text("parts"), at=content.at("parts")))
        elif isinstance(parts, dict):
            words.append(forms.ONE_PART)
            self._read_part(self._spelling.canonical(content.object("parts")), blocks)
        else:
            for index, part in enumerate(content.items("parts")):
                if isinstance(part, str):
                    blocks.append(Text(text=part, at=content.at("parts", index), form=forms.STRING))
                else:
                    self._read_part(self._spelling.canonical(content.child(part, "parts", index)), blocks)
        return tuple(blocks)

    def _read_part(self, part: Fields, blocks: list[AnyBlock]) -> None:
        """Append the part's blocks to those of its turn. Its names are canonical."""
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
            self._unwrap(signature, part.path, blocks, own_text=text if thought else "")
            if thought or not text:
                return
            signature = ""
        seal = native_seal(signature)
        words = [forms.SIGNATURE + signature] if signature in SENTINELS else []
        words += [BARE] if bare else []
        if thought and not text:
            words.append(forms.THOUGHT)
        form, at, extras = " ".join(words), part.path, part.rest()
        if thought or (seal is not None and not text):
            parts = (text,) if text else ()
            blocks.append(Reasoning(parts=parts, seal=seal, form=form, at=at, extras=extras))
        else:
            blocks.append(Text(text=text, seal=seal, form=form, at=at, extras=extras))

    def _read_call(self, part: Fields, blocks: list[AnyBlock]) -> None:
        call = self._spelling.canonical(part.object("functionCall"))
        name = call.text("name")
        given = call.maybe_text("id")
        arguments = call.maybe_object("args")
        words = [] if given else [NO_ID]
        if arguments is None:
            words.append(NO_ARGUMENTS)
        call_id = given or self._made_id(name)
        self._open.setdefault(name, OrderedDict())[call_id] = None
        signature = part.text_or("thoughtSignature", "")
        seal: Seal | None
        if is_envelope(signature):
            seal = self._unwrap(signature, part.path, blocks)
            words.append(forms.UNWRAPPED)
        else:
            seal = native_seal(signature)
            words += [forms.SIGNATURE + signature] if signature in SENTINELS else []
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
                form=" ".join(words),
                at=part.path,
                extras=extras,
            )
        )

    def _read_result(self, part: Fields) -> AnyBlock:
        values = part.rest()["functionResponse"]
        response = self._spelling.canonical(part.child(values, "functionResponse"))
        given = response.maybe_text("id")
        if given == "":
            response.rest()["id"] = given
        name = response.rest().get("name")
        call_id = self._answered(given, name if isinstance(name, str) else "")
        return read_result(part, self._spelling, self._parts, call_id, has_id=bool(given))

    def _made_id(self, name: str) -> str:
        number = self._made.get(name, 0)
        self._made[name] = number + 1
        return "call_" + digest(name, str(number))

    def _hosted_id(self) -> str:
        self._hosted += 1
        return "hosted_" + digest(str(self._hosted))

    def _answered(self, given: str | None, name: str) -> str:
        """The id of the call that a response answers."""
        waiting = self._open.get(name)
        if given:
            if waiting:
                waiting.pop(given, None)
            return given
        return waiting.popitem(last=False)[0] if waiting else self._made_id(name)

    def _unwrap(self, signature: str, at: str, blocks: list[AnyBlock], own_text: str = "") -> Seal | None:
        """Put back what an envelope carried; gives the seal that belongs on the call it rode on."""
        items = decode_envelope(signature) if self._room > 0 else None
        if items is None:
            self._losses.add(at, "a signature of this gateway arrived damaged and was dropped")
            return None
        self._room -= sum(len(part) for item in items for part in item.parts)
        call_seal: Seal | None = None
        thoughts: list[Reasoning] = []
        for item in items:
            if item.kind == "call":
                call_seal = item.seal
            elif item.kind == "text":
                _seal_last_text(blocks, item.seal)
            else:
                parts = item.parts or ((own_text,) if own_text else ())
                thoughts.append(Reasoning(parts=parts, seal=seal_of(item), redacted=item.redacted, at=at))
        _put_thoughts(blocks, thoughts)
        return call_seal


def _since_last_call(blocks: list[AnyBlock]) -> int:
    """Where in the turn begins what followed its last call, as far back as it makes sense to look."""
    for index in reversed(range(max(0, len(blocks) - LOOK_BACK), len(blocks))):
        if isinstance(blocks[index], ToolCall):
            return index + 1
    return max(0, len(blocks) - LOOK_BACK)


def _seal_last_text(blocks: list[AnyBlock], seal: Seal) -> None:
    for index in reversed(range(_since_last_call(blocks), len(blocks))):
        block = blocks[index]
        if isinstance(block, Text):
            blocks[index] = replace(block, seal=seal)
            return


def _put_thoughts(blocks: list[AnyBlock], thoughts: list[Reasoning]) -> None:
    """Put thoughts where the turn last made a call: they followed it, and came before what it then said.

    Clients that echo thoughts have sent the text already; then only the seal is new.
    """
    start = _since_last_call(blocks)
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
