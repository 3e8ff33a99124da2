"""Reads and writes content parts that are images, files or audio."""

import re

from dragoman.dialects.openai_responses.names import take_text
from dragoman.hub.blocks import CacheMark, Extras, Media, MediaKind
from dragoman.wire.fields import Fields

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)

#: OpenAI requires a name for a file. These are for files that have none.
FILE_NAMES = {"application/pdf": "document.pdf", "text/plain": "document.txt"}


def read_cache(fields: Fields) -> CacheMark | None:
    """Take the `prompt_cache_breakpoint` of a part."""
    mark = fields.maybe_object("prompt_cache_breakpoint")
    return None if mark is None else CacheMark(extras=mark.rest())


def read_image(fields: Fields) -> Media:
    return _read_media(fields, "image", "image_url", "image_url")


def read_file(fields: Fields) -> Media:
    return _read_media(fields, "document", "file_data", "file_url", title=take_text(fields, "filename"))


def _read_media(fields: Fields, kind: MediaKind, data_field: str, url_field: str, title: str = "") -> Media:
    """Media by data, address or id: the first that is set. The others stay in the extras."""
    data, url, file_id, media_type = "", "", "", ""
    inline = fields.maybe_text(data_field)
    if inline:
        found = DATA_URL.match(inline)
        if found and found.end() < len(inline):
            media_type, data = found[1], inline[found.end() :]
        elif data_field == url_field:
            url = inline
        else:
            data = inline
    else:
        url = fields.maybe_text(url_field) or ""
        file_id = "" if url else fields.maybe_text("file_id") or ""
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
        cache=read_cache(fields),
        at=fields.path,
        extras=fields.rest(),
    )


def read_audio(fields: Fields) -> Media:
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


def write_media(block: Media, *, same_dialect: bool) -> Extras | None:
    """Write a content part; None if the API has none for this kind of media."""
    if block.text:
        return {"type": "input_text", "text": f"{block.title}\n{block.text}" if block.title else block.text}
    match block.kind:
        case "image":
            return _write_image(block)
        case "document":
            return _write_file(block, same_dialect=same_dialect)
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


def _write_file(block: Media, *, same_dialect: bool) -> Extras:
    part: Extras = {"type": "input_file"}
    if block.title:
        part["filename"] = block.title
    if block.file_id:
        part["file_id"] = block.file_id
    elif block.url:
        part["file_url"] = block.url
    else:
        part["file_data"] = _build_data_url(block) if block.media_type else block.data
        if block.media_type and not same_dialect:
            part.setdefault("filename", FILE_NAMES.get(block.media_type, "document"))
    if block.detail:
        part["detail"] = block.detail
    return part


def _build_data_url(block: Media, default: str = "") -> str:
    return f"data:{block.media_type or default};base64,{block.data}"
