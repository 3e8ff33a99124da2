"""Reads and writes content parts: text, refusals, images, files and audio.

The `form` of a block keeps the type of its part only if it is not the usual one for the role.
"""

import re
from collections.abc import Callable

from dragoman.dialects.openai_responses.citations import read_citation, write_citation
from dragoman.dialects.openai_responses.vocabulary import take_text
from dragoman.hub.content import AnyBlock, CacheMark, Extras, Media, MediaKind, Opaque, Refusal, Text
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)

USUAL_TEXT = {"assistant": "output_text"}

#: The name of a file without one, because OpenAI requires a name.
FILE_NAMES = {"application/pdf": "document.pdf", "text/plain": "document.txt"}


def read_content(fields: Fields, name: str, role: str) -> tuple[tuple[AnyBlock, ...], str]:
    """The blocks of a content, which is a text or a list of parts, and its form."""
    value = fields.raw(name)
    if isinstance(value, str):
        return (Text(text=value, at=fields.at(name)),), "string"
    if not isinstance(value, list):
        raise fields.error("expected a string or an array", name)
    blocks = [read_part(fields.child(part, name, index), role) for index, part in enumerate(value)]
    return tuple(blocks), ""


def read_part(fields: Fields, role: str) -> AnyBlock:
    part_type = fields.text("type")
    reader = READERS.get(part_type)
    if reader is not None:
        return reader(fields, part_type, role)
    at = fields.path
    value = {"type": part_type, **fields.rest()}
    text = value.get("text")
    return Opaque(kind=part_type, value=value, text=text if isinstance(text, str) else "", form="part", at=at)


def _read_cache(fields: Fields) -> CacheMark | None:
    mark = fields.maybe_object("prompt_cache_breakpoint")
    return None if mark is None else CacheMark(extras=mark.rest())


def _read_text(fields: Fields, part_type: str, role: str) -> Text:
    text = fields.text("text")
    annotations = fields.maybe_objects("annotations")
    extras = fields.rest()
    if annotations == []:
        extras["annotations"] = []
    return Text(
        text=text,
        citations=tuple(read_citation(annotation.rest()) for annotation in annotations or ()),
        cache=_read_cache(fields),
        form="" if part_type == USUAL_TEXT.get(role, "input_text") else part_type,
        at=fields.path,
        extras=extras,
    )


def _read_refusal(fields: Fields, part_type: str, role: str) -> Refusal:
    return Refusal(text=fields.text("refusal"), at=fields.path, extras=fields.rest())


def _read_image(fields: Fields, part_type: str, role: str) -> Media:
    return _read_media(fields, "image", "image_url", "image_url")


def _read_file(fields: Fields, part_type: str, role: str) -> Media:
    return _read_media(fields, "document", "file_data", "file_url", title=take_text(fields, "filename"))


def _read_media(fields: Fields, kind: MediaKind, data_field: str, url_field: str, title: str = "") -> Media:
    """Read media from data, URL or file id: the first that is present. The others stay in the extras."""
    data, url, file_id, media_type = "", "", "", ""
    inline = fields.maybe_text(data_field)
    found = DATA_URL.match(inline) if inline else None
    if inline and found and found.end() < len(inline):
        media_type, data = found[1], inline[found.end() :]
    elif inline and data_field == url_field:
        url = inline
    elif inline:
        data = inline
    if not inline:
        url = fields.maybe_text(url_field) or ""
    if not inline and not url:
        file_id = fields.maybe_text("file_id") or ""
    if not (data or url or file_id):
        raise fields.error(f"expected {data_field} or file_id to be set")
    return Media(
        kind=kind,
        media_type=media_type,
        data=data,
        url=url,
        file_id=file_id,
        title=title,
        detail=take_text(fields, "detail"),
        cache=_read_cache(fields),
        at=fields.path,
        extras=fields.rest(),
    )


def _read_audio(fields: Fields, part_type: str, role: str) -> Media:
    audio = fields.object("input_audio")
    block = Media(
        kind="audio",
        data=audio.text("data"),
        media_type="audio/" + audio.text("format"),
        at=fields.path,
        extras=fields.rest(),
    )
    if audio.rest():
        block.extras["input_audio"] = audio.rest()
    return block


READERS: dict[str, Callable[[Fields, str, str], AnyBlock]] = {
    "input_text": _read_text,
    "output_text": _read_text,
    "text": _read_text,
    "refusal": _read_refusal,
    "input_image": _read_image,
    "input_file": _read_file,
    "input_audio": _read_audio,
}


def write_part(block: AnyBlock, role: str, losses: Losses, *, own: bool) -> Extras | None:
    """Write a block as a content part; None, with a loss, if there is no such part."""
    part: Extras | None = None
    match block:
        case Text():
            part = _write_text(block, role, own=own)
        case Refusal():
            if role == "assistant":
                part = {"type": "refusal", "refusal": block.text}
            else:
                part = {"type": "input_text", "text": block.text}
        case Media():
            part = _write_media(block, own=own)
        case Opaque() if own and block.form == "part":
            return dict(block.value)
    if part is None:
        losses.add(block.at, "OpenAI Responses has no content part for this")
        return None
    if own:
        if block.cache is not None:
            part["prompt_cache_breakpoint"] = dict(block.cache.extras)
        part = _merge_extras(part, block.extras)
    return part


def _merge_extras(part: Extras, extras: Extras) -> Extras:
    for name, value in extras.items():
        known = part.get(name)
        part[name] = {**value, **known} if isinstance(known, dict) and isinstance(value, dict) else value
    return part


def _write_text(block: Text, role: str, *, own: bool) -> Extras:
    part: Extras = {
        "type": (own and block.form) or USUAL_TEXT.get(role, "input_text"),
        "text": block.text,
    }
    if own and block.citations:
        part["annotations"] = [
            write_citation(citation, len(block.text), own=True) for citation in block.citations
        ]
    return part


def _write_media(block: Media, *, own: bool) -> Extras | None:
    if block.text:
        return {"type": "input_text", "text": f"{block.title}\n{block.text}" if block.title else block.text}
    match block.kind:
        case "image":
            return _write_image(block)
        case "document":
            return _write_file(block, own=own)
        case "audio" if block.data:
            audio_format = block.media_type.removeprefix("audio/")
            return {"type": "input_audio", "input_audio": {"data": block.data, "format": audio_format}}
    return None


def _write_image(block: Media) -> Extras:
    part: Extras = {"type": "input_image"}
    if block.file_id:
        part["file_id"] = block.file_id
    else:
        part["image_url"] = block.url or _build_data_url(block, "image/png")
    if block.detail:
        part["detail"] = block.detail
    return part


def _write_file(block: Media, *, own: bool) -> Extras:
    part: Extras = {"type": "input_file"}
    if block.title:
        part["filename"] = block.title
    if block.file_id:
        part["file_id"] = block.file_id
    elif block.url:
        part["file_url"] = block.url
    else:
        part["file_data"] = _build_data_url(block) if block.media_type else block.data
        if block.media_type and not own:
            part.setdefault("filename", FILE_NAMES.get(block.media_type, "document"))
    if block.detail:
        part["detail"] = block.detail
    return part


def _build_data_url(block: Media, default: str = "") -> str:
    return f"data:{block.media_type or default};base64,{block.data}"
