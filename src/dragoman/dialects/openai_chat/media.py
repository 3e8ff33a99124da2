"""Reads and writes images, audio and files as parts. Data URLs are split into media type and data."""

import re
from collections.abc import Callable

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.names import split_inner
from dragoman.hub.blocks import Media, MediaKind
from dragoman.wire.fields import Fields

DATA_URL = re.compile(r"data:([\w.+-]{1,127}/[\w.+-]{1,127});base64,", re.ASCII)

#: Audio formats whose media type has another name.
MEDIA_TYPE_OF_FORMAT = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}
FORMAT_OF_MEDIA_TYPE = {
    "audio/mpeg": "mp3",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/pcm": "pcm16",
}

#: Forms of media parts.
BARE_URL = "bare-url"
BARE_DATA = "bare-data"

#: Servers reject inline files without a name.
FILE_NAMES = {"application/pdf": "document.pdf"}


def split_data_url(url: str) -> tuple[str, str] | None:
    """The media type and the base64 data of a data URL; None for any other URL."""
    found = DATA_URL.match(url)
    return (found[1], url[found.end() :]) if found else None


def build_data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def find_url(media: Media) -> str:
    """The URL of an image: its own, or a data URL with its data."""
    return media.url or build_data_url(media.media_type or "image/png", media.data)


def read_url(kind: MediaKind, url: str, *, at: str = "", detail: str = "", form: str = "") -> Media:
    """Read media from a URL, which may be a data URL."""
    found = split_data_url(url)
    if found is None:
        return Media(kind=kind, url=url, detail=detail, at=at, form=form)
    return Media(kind=kind, media_type=found[0], data=found[1], detail=detail, at=at, form=form)


def read_reply_image(value: object) -> Media | None:
    """Read an image of a reply's `images`, which OpenRouter sends."""
    image = value.get("image_url") if isinstance(value, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    return read_url("image", url) if isinstance(url, str) and url else None


def read_linked(part: Fields, name: str, kind: MediaKind) -> tuple[Media, Json]:
    """Read a part with a URL: `image_url`, or `video_url` of some servers."""
    if isinstance(part.rest().get(name), str):
        return read_url(kind, part.text(name), at=part.path, form=BARE_URL), {}
    inner = part.object(name)
    url, detail = inner.text("url"), inner.rest().get("detail")
    if isinstance(detail, str) and detail:
        inner.raw("detail")
        return read_url(kind, url, at=part.path, detail=detail), inner.rest()
    return read_url(kind, url, at=part.path), inner.rest()


def read_image(part: Fields) -> tuple[Media, Json]:
    return read_linked(part, "image_url", "image")


def read_video(part: Fields) -> tuple[Media, Json]:
    return read_linked(part, "video_url", "video")


def read_audio(part: Fields) -> tuple[Media, Json]:
    inner = part.object("input_audio")
    data, audio_format = inner.text("data"), inner.text("format")
    media_type = MEDIA_TYPE_OF_FORMAT.get(audio_format, f"audio/{audio_format}")
    media = Media(kind="audio", media_type=media_type, data=data, at=part.path, form=audio_format)
    return media, inner.rest()


def read_file(part: Fields) -> tuple[Media, Json]:
    inner = part.object("file")
    title = inner.text("filename") if inner.rest().get("filename") else ""
    file_id = inner.maybe_text("file_id")
    if file_id is not None:
        return Media(kind="document", file_id=file_id, title=title, at=part.path), inner.rest()
    data = inner.text("file_data")
    found = split_data_url(data)
    if found is None:
        return Media(kind="document", data=data, title=title, at=part.path, form=BARE_DATA), inner.rest()
    return Media(kind="document", media_type=found[0], data=found[1], title=title, at=part.path), inner.rest()


#: For each type of part the function that reads it into a block and the unknown fields of its inner object.
MEDIA_READERS: dict[str, Callable[[Fields], tuple[Media, Json]]] = {
    "image_url": read_image,
    "video_url": read_video,
    "input_audio": read_audio,
    "file": read_file,
}
TYPE_OF_KIND: dict[MediaKind, str] = {
    "image": "image_url",
    "video": "video_url",
    "audio": "input_audio",
    "document": "file",
}


def write_media(media: Media, *, same_dialect: bool) -> Json | None:
    """Write the part of a block; None if this dialect has no such part."""
    if media.text:
        return {"type": "text", "text": f"{media.title}\n\n{media.text}" if media.title else media.text}
    name = TYPE_OF_KIND[media.kind]
    inner = MEDIA_WRITERS[name](media, same_dialect)
    if inner is None or (name == "video_url" and not same_dialect):
        return None
    if not same_dialect:
        return {"type": name, name: inner}
    outer, further = split_inner(media.extras, name)
    return {"type": name, name: {**inner, **further} if isinstance(inner, dict) else inner, **outer}


def _write_linked(media: Media, same_dialect: bool) -> Json | str | None:
    if not media.url and not media.data:
        return None
    if same_dialect and media.form == BARE_URL:
        return find_url(media)
    linked: Json = {"url": find_url(media)}
    if media.detail:
        linked["detail"] = media.detail
    return linked


def _write_audio(media: Media, same_dialect: bool) -> Json | None:
    if not media.data:
        return None
    media_type = media.media_type.partition(";")[0]
    named = FORMAT_OF_MEDIA_TYPE.get(media_type) or media_type.rpartition("/")[2]
    return {"data": media.data, "format": media.form if same_dialect and media.form else named}


def _write_file(media: Media, same_dialect: bool) -> Json | None:
    written: Json = {"filename": media.title} if media.title else {}
    if media.file_id:
        written["file_id"] = media.file_id
    elif media.data and same_dialect and media.form == BARE_DATA:
        written["file_data"] = media.data
    elif media.data:
        media_type = media.media_type or "application/pdf"
        written["file_data"] = build_data_url(media_type, media.data)
        if not same_dialect:
            written.setdefault("filename", FILE_NAMES.get(media_type, "file"))
    else:
        return None
    return written


MEDIA_WRITERS: dict[str, Callable[[Media, bool], Json | str | None]] = {
    "image_url": _write_linked,
    "video_url": _write_linked,
    "input_audio": _write_audio,
    "file": _write_file,
}
