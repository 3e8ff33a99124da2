"""`functionResponse` both ways. The response is an object, and clients wrap their text in different ones.

`{"output": …}`, `{"result": …}` and `{"error": …}` are the documented wrappings; AI SDK says the tool's
name once more beside `content`. Whatever else came is told as the JSON that it is.
"""

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.calls import NO_ID
from dragoman.dialects.gemini.part_reader import PartReader
from dragoman.dialects.gemini.part_writer import write_part
from dragoman.dialects.gemini.spelling import Spelling
from dragoman.hub.content import AnyBlock, Text, ToolResult
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields, encode

OUTPUT = "output"
ERROR = "error"
CONTENT = "content"
WRAPPINGS = frozenset({OUTPUT, "result", ERROR})

#: Words of a result's `form` beside the wrappings: the response as a whole, or none at all.
WHOLE = "json"
NONE = "none"
#: After a wrapping: its value was no text.
AS_JSON = "-json"

#: Errors that say that there is none.
_NO_ERROR = (None, False, "", 0)


def read_result(
    part: Fields, spelling: Spelling, parts: PartReader, call_id: str, *, has_id: bool
) -> ToolResult:
    """The result in a part whose `functionResponse` has lost its id and nothing else."""
    response = part.object("functionResponse")
    name = response.text_or("name", "")
    text, form, is_error = _unwrapped(response, name)
    content: list[AnyBlock] = [] if form == NONE else [Text(text=text, at=response.at("response"))]
    media = response.maybe_list("parts")
    for index, item in enumerate(media or []):
        inner = spelling.canonical(response.child(item, "parts", index))
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


def _unwrapped(fields: Fields, name: str) -> tuple[str, str, bool]:
    """The text of a response, the word for its wrapping, and whether it tells of an error."""
    if not fields.has("response"):
        return "", NONE, False
    response = fields.raw("response")
    if isinstance(response, dict):
        if len(response) == 1:
            ((key, value),) = response.items()
            if key in WRAPPINGS:
                return *_text(value, key), key == ERROR
        if response.keys() == {"name", CONTENT} and response["name"] == name:
            return *_text(response[CONTENT], CONTENT), False
        return encode(response).decode(), WHOLE, response.get(ERROR) not in _NO_ERROR
    return encode(response).decode(), WHOLE, False


def _text(value: object, form: str) -> tuple[str, str]:
    return (value, form) if isinstance(value, str) else (encode(value).decode(), form + AS_JSON)


def write_result(result: ToolResult, name: str, *, native: bool, losses: Losses) -> Json:
    """The part for a result. `name`: of the tool, where the result itself does not say it."""
    words = result.form.split() if native else []
    texts: list[str] = []
    media: list[Json] = []
    for block in result.content:
        if isinstance(block, Text):
            texts.append(block.text)
            continue
        part = write_part(block, native=native, losses=losses)
        if part is None:
            continue
        spoken = part.get("text")
        if isinstance(spoken, str):
            texts.append(spoken)
        else:
            media.append(part)
    response: Json = {"name": result.name if native else result.name or name}
    if NO_ID not in words:
        response["id"] = result.call_id
    if NONE not in words:
        response["response"] = _wrapped("\n".join(texts), result, words)
    if media:
        response["parts"] = media
    extras = dict(result.extras) if native else {}
    left = extras.pop("functionResponse", None)
    if isinstance(left, dict):
        response |= left
    if native and not response["name"]:
        del response["name"]
    return {"functionResponse": response, **extras}


def _wrapped(text: str, result: ToolResult, words: list[str]) -> object:
    form = next((word for word in words if word != NO_ID), "")
    if form == WHOLE:
        return msgspec.json.decode(text)
    key = form.removesuffix(AS_JSON)
    value: object = msgspec.json.decode(text) if form.endswith(AS_JSON) else text
    if key == CONTENT:
        return {"name": result.name, CONTENT: value}
    if key in WRAPPINGS:
        return {key: value}
    return {ERROR if result.is_error else OUTPUT: text}
