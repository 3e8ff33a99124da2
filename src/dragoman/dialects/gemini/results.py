"""Reads and writes `functionResponse`, an object in which clients wrap their text in different ways.

`{"output": …}`, `{"result": …}` and `{"error": …}` are the documented wrappings; AI SDK repeats the tool's
name beside `content`. Any other response becomes its JSON text.
"""

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.calls import NO_ID
from dragoman.dialects.gemini.part_reader import PartReader
from dragoman.dialects.gemini.part_writer import write_part
from dragoman.dialects.gemini.spelling import NameConverter
from dragoman.hub.content import AnyBlock, Text, ToolResult
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields, encode

OUTPUT = "output"
ERROR = "error"
CONTENT = "content"
WRAPPINGS = frozenset({OUTPUT, "result", ERROR})

#: Notes of a result's `form` beside the wrappings: the whole response as JSON, or no response.
WHOLE = "json"
NONE = "none"
#: Added to the name of a wrapping whose value was no text.
AS_JSON = "-json"

#: Values of `error` that mean no error.
_NO_ERROR = (None, False, "", 0)


def read_result(
    part: Fields, converter: NameConverter, parts: PartReader, call_id: str, *, has_id: bool
) -> ToolResult:
    """Read a part whose `functionResponse` has already lost its id."""
    response = part.object("functionResponse")
    name = response.text_or("name", "")
    text, form, is_error = _unwrap_response(response, name)
    content: list[AnyBlock] = [] if form == NONE else [Text(text=text, at=response.at("response"))]
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
    """The text of a response, the note for its wrapping, and whether it reports an error."""
    if not fields.has("response"):
        return "", NONE, False
    response = fields.raw("response")
    if isinstance(response, dict):
        if len(response) == 1:
            ((key, value),) = response.items()
            if key in WRAPPINGS:
                return *_read_text(value, key), key == ERROR
        if response.keys() == {"name", CONTENT} and response["name"] == name:
            return *_read_text(response[CONTENT], CONTENT), False
        return encode(response).decode(), WHOLE, response.get(ERROR) not in _NO_ERROR
    return encode(response).decode(), WHOLE, False


def _read_text(value: object, form: str) -> tuple[str, str]:
    return (value, form) if isinstance(value, str) else (encode(value).decode(), form + AS_JSON)


def write_result(result: ToolResult, name: str, *, native: bool, losses: Losses) -> Json:
    """Write the part of a result. `name`: the tool's name if the result has none."""
    notes = result.form.split() if native else []
    texts: list[str] = []
    media: list[Json] = []
    for block in result.content:
        if isinstance(block, Text):
            texts.append(block.text)
            continue
        part = write_part(block, native=native, losses=losses)
        if part is None:
            continue
        text = part.get("text")
        if isinstance(text, str):
            texts.append(text)
        else:
            media.append(part)
    response: Json = {"name": result.name if native else result.name or name}
    if NO_ID not in notes:
        response["id"] = result.call_id
    if NONE not in notes:
        response["response"] = _wrap_response("\n".join(texts), result, notes)
    if media:
        response["parts"] = media
    extras = dict(result.extras) if native else {}
    left = extras.pop("functionResponse", None)
    if isinstance(left, dict):
        response |= left
    if native and not response["name"]:
        del response["name"]
    return {"functionResponse": response, **extras}


def _wrap_response(text: str, result: ToolResult, notes: list[str]) -> object:
    form = next((note for note in notes if note != NO_ID), "")
    if form == WHOLE:
        return msgspec.json.decode(text)
    key = form.removesuffix(AS_JSON)
    value: object = msgspec.json.decode(text) if form.endswith(AS_JSON) else text
    if key == CONTENT:
        return {"name": result.name, CONTENT: value}
    if key in WRAPPINGS:
        return {key: value}
    return {ERROR if result.is_error else OUTPUT: text}
