"""Reads the contents of a request as messages. Calls get ids if they have none, blocks get back their seals.

The id of a call comes from its name and its number among calls of that name. A response without an id
answers the first call of its name that has no response yet. Both depend on the history alone, which only
grows, so the ids of earlier messages never change.

Clients wrap the text of a `functionResponse` in different ways: `{"output": …}`, `{"result": …}` and
`{"error": …}` are documented; AI SDK repeats the tool's name beside `content`. Any other response becomes its
JSON text. Requests and streams hold the same complete parts, so the stream reader uses `PartReader` too.
"""

from collections import OrderedDict
from collections.abc import Callable

from dragoman.dialects.gemini.hosted import HOSTED_READERS, HostedReader
from dragoman.dialects.gemini.media import MEDIA_READERS
from dragoman.dialects.gemini.names import (
    BARE_PART,
    EMPTY_PARTS,
    NO_ARGUMENTS,
    NO_ID,
    NO_PARTS,
    NO_ROLE,
    ONE_PART,
    ROLE,
    SIGNATURE,
    STRING,
    TEXT_ONLY,
    TEXT_PART,
    THOUGHT,
    TOP,
    UNWRAPPED,
    NameConverter,
)
from dragoman.dialects.gemini.reasoning import (
    BARE,
    SENTINELS,
    decode_envelope,
    insert_thoughts,
    is_base64,
    is_envelope,
    read_seal,
    read_signature,
    seal_last_text,
)
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import AnyBlock, Opaque, Reasoning, ReplyBlock, Text, ToolCall, ToolResult
from dragoman.hub.ids import digest
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Role
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
#: The role that is written unless the form of a message names another.
ROLE_NAMES: dict[Role, str] = {
    "user": "user",
    "assistant": "model",
    "tool": "user",
    "system": "user",
    "developer": "user",
}

#: How many characters of thoughts envelopes may add to one request: a small envelope can hold a long text.
ENVELOPE_LIMIT = 64 * 1024 * 1024

_SIGNATURE_ONLY = frozenset({"thought", "thoughtSignature"})

#: Fields of complete parts: media, and calls and results of Gemini's tools.
_COMPLETE = (*MEDIA_READERS, *HOSTED_READERS)

#: A part holds exactly one of these fields.
_DATA = ("text", "functionCall", "functionResponse", *_COMPLETE)

OUTPUT = "output"
ERROR = "error"
CONTENT = "content"
WRAPPINGS = frozenset({OUTPUT, "result", ERROR})

#: Flags of a result's `form` beside the wrappings: the whole response as JSON, or no response.
WHOLE_RESPONSE = "json"
NO_RESPONSE = "none"
#: Added to the name of a wrapping whose value was no text.
AS_JSON = "-json"

#: Values of `error` that mean no error.
_NO_ERROR = (None, False, "", 0)


class HistoryReader:
    """Reads the messages of one request: `read_system` first, then `read_message` for each content."""

    def __init__(self, converter: NameConverter, losses: Losses) -> None:
        self._converter = converter
        self._losses = losses
        self._parts = PartReader(converter, self._make_hosted_id)
        self._hosted = 0
        self._made: dict[str, int] = {}
        self._open: dict[str, OrderedDict[str, None]] = {}
        self._envelope_budget = ENVELOPE_LIMIT

    def read_system(self, body: Fields) -> Message | None:
        """Read `systemInstruction`, which is a content or a text."""
        value = body.rest().get("systemInstruction")
        if value is None:
            return None
        if isinstance(value, str):
            text = body.text("systemInstruction")
            block = Text(text=text, at="systemInstruction")
            return Message(role="system", blocks=(block,), at=block.at, form=f"{TOP} {TEXT_ONLY}")
        content = self._converter.convert(body.object("systemInstruction"))
        flags = [TOP]
        role = content.maybe_text("role")
        if role is not None:
            flags.append(ROLE + role)
        blocks = self._read_parts(content, flags)
        return Message(
            role="system", blocks=blocks, at="systemInstruction", form=" ".join(flags), extras=content.rest()
        )

    def read_message(self, body: Fields, item: object, index: int) -> Message:
        """Read one item of `contents`; `index` is negative if `contents` is not a list."""
        if isinstance(item, str):
            at = body.at("contents") if index < 0 else body.at("contents", index)
            return Message(role="user", blocks=(Text(text=item, at=at),), at=at, form=TEXT_ONLY)
        content = self._converter.convert(body.child(item, "contents", index))
        if not content.has("parts", "role"):
            role: Role = "assistant" if content.has("functionCall") else "user"
            blocks: list[AnyBlock] = []
            self._read_part(content, blocks)
            return Message(role=role, blocks=tuple(blocks), at=content.path, form=BARE_PART)
        flags: list[str] = []
        role = self._read_role(content, flags)
        read = self._read_parts(content, flags)
        return Message(role=role, blocks=read, at=content.path, form=" ".join(flags), extras=content.rest())

    def _read_role(self, content: Fields, flags: list[str]) -> Role:
        role_name = content.maybe_text("role")
        if role_name is None:
            flags.append(NO_ROLE)
            return "user"
        role = ROLES.get(role_name)
        if role is None:
            raise content.error("expected one of user, model, function", "role")
        if role_name != ROLE_NAMES[role]:
            flags.append(ROLE + role_name)
        return role

    def _read_parts(self, content: Fields, flags: list[str]) -> tuple[AnyBlock, ...]:
        parts = content.rest().get("parts")
        blocks: list[AnyBlock] = []
        if parts is None:
            flags.append(NO_PARTS)
        elif parts == []:
            content.raw("parts")
            flags.append(EMPTY_PARTS)
        elif isinstance(parts, str):
            flags.append(TEXT_PART)
            blocks.append(Text(text=content.text("parts"), at=content.at("parts")))
        elif isinstance(parts, dict):
            flags.append(ONE_PART)
            self._read_part(self._converter.convert(content.object("parts")), blocks)
        else:
            for index, part in enumerate(content.items("parts")):
                if isinstance(part, str):
                    blocks.append(Text(text=part, at=content.at("parts", index), form=STRING))
                else:
                    self._read_part(self._converter.convert(content.child(part, "parts", index)), blocks)
        return tuple(blocks)

    def _read_part(self, part: Fields, blocks: list[AnyBlock]) -> None:
        """Append the blocks of a part to those of its message. Its names are in camelCase."""
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
        flags = [SIGNATURE + signature] if signature in SENTINELS else []
        flags += [BARE] if bare else []
        if thought and not text:
            flags.append(THOUGHT)
        form, at, extras = " ".join(flags), part.path, part.rest()
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
        flags = [] if given else [NO_ID]
        if arguments is None:
            flags.append(NO_ARGUMENTS)
        call_id = given or self._make_call_id(name)
        self._open.setdefault(name, OrderedDict())[call_id] = None
        signature = part.text_or("thoughtSignature", "")
        seal: Seal | None
        if is_envelope(signature):
            seal = self._read_envelope(signature, part.path, blocks)
            flags.append(UNWRAPPED)
        else:
            seal = read_signature(signature)
            flags += [SIGNATURE + signature] if signature in SENTINELS else []
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
                form=" ".join(flags),
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
                seal_last_text(blocks, item.seal)
            else:
                parts = item.parts or ((own_text,) if own_text else ())
                thoughts.append(Reasoning(parts=parts, seal=read_seal(item), redacted=item.redacted, at=at))
        insert_thoughts(blocks, thoughts)
        return call_seal


class PartReader:
    """Reads complete parts. `make_id` makes the id of a call of Gemini's tools that has none."""

    def __init__(self, converter: NameConverter, make_id: Callable[[], str]) -> None:
        self._converter = converter
        self._hosted = HostedReader(make_id)

    def read(self, part: Fields) -> ReplyBlock:
        """The block of a part that is no text, call or response. The names in `part` are in camelCase."""
        values = part.rest()
        whole = {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}
        for name in _COMPLETE:
            if isinstance(values.get(name), dict):
                block = self._read_complete(part, name)
                # Images and code inside a thought are not part of the answer.
                thought = whole.get("thought") is True
                return Opaque(kind="thought", value=whole, at=part.path) if thought else block
        kind = next((name for name, value in values.items() if isinstance(value, dict)), "part")
        return Opaque(kind=kind, value=whole, at=part.path)

    def _read_complete(self, part: Fields, name: str) -> ReplyBlock:
        media = MEDIA_READERS.get(name)
        return media(part, self._converter) if media else HOSTED_READERS[name](self._hosted, part)


def find_extra_data(part: Json, kept: str = "") -> list[str]:
    """The data fields of a part other than the one that is kept."""
    return [name for name in _DATA if name in part and name != kept]


def remove_invalid_fields(part: Json) -> Json | None:
    """A complete part of a reply without the fields that clients reject; None if nothing is left."""
    names = [name for name in _DATA if name in part]
    kept = next((name for name in names if isinstance(part[name], dict)), "")
    if not kept and (names or not any(isinstance(value, dict) for value in part.values())):
        return None
    signature = part.get("thoughtSignature")
    dropped = {*find_extra_data(part, kept)}
    if not isinstance(signature, str) or not is_base64(signature):
        dropped.add("thoughtSignature")
    if type(part.get("thought")) is not bool:
        dropped.add("thought")
    return {name: value for name, value in part.items() if name not in dropped}


def read_result(
    part: Fields, converter: NameConverter, parts: PartReader, call_id: str, *, has_id: bool
) -> ToolResult:
    """Read the result in a `functionResponse`. The caller has taken its id, which is `call_id`."""
    response = part.object("functionResponse")
    name = response.text_or("name", "")
    text, form, is_error = _unwrap_response(response, name)
    content: list[AnyBlock] = [] if form == NO_RESPONSE else [Text(text=text, at=response.at("response"))]
    media = response.maybe_list("parts")
    for index, item in enumerate(media or []):
        inner = converter.convert(response.child(item, "parts", index))
        content.append(parts.read(inner))
    left = response.rest()
    if media == []:
        left["parts"] = []
    extras = part.rest()
    if left:
        extras["functionResponse"] = left
    return ToolResult(
        call_id=call_id,
        name=name,
        content=tuple(content),
        is_error=is_error,
        form=form if has_id else f"{NO_ID} {form}",
        at=part.path,
        extras=extras,
    )


def _unwrap_response(fields: Fields, name: str) -> tuple[str, str, bool]:
    """The text of a response, the flag for its wrapping, and whether it reports an error."""
    if not fields.has("response"):
        return "", NO_RESPONSE, False
    response = fields.raw("response")
    if isinstance(response, dict):
        if len(response) == 1:
            ((key, value),) = response.items()
            if key in WRAPPINGS:
                return *_read_text(value, key), key == ERROR
        if response.keys() == {"name", CONTENT} and response["name"] == name:
            return *_read_text(response[CONTENT], CONTENT), False
        return encode(response).decode(), WHOLE_RESPONSE, response.get(ERROR) not in _NO_ERROR
    return encode(response).decode(), WHOLE_RESPONSE, False


def _read_text(value: object, form: str) -> tuple[str, str]:
    return (value, form) if isinstance(value, str) else (encode(value).decode(), form + AS_JSON)
