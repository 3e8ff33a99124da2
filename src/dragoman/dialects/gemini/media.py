"""Reads and writes media: `inlineData` with the bytes, `fileData` with an address."""

import base64
from collections.abc import Callable

from dragoman.dialects.gemini.names import NameConverter
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Extras, Media, MediaKind
from dragoman.hub.loss import Losses
from dragoman.wire.fields import Fields

KINDS_OF_MEDIA: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}

#: Addresses that only Google can open.
VENDOR_FILES = ("files/", "gs://", "https://generativelanguage.googleapis.com/")

#: Media types by the first characters of the data in base64.
MEDIA_TYPES = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi": "application/pdf",
}
MEDIA_TYPES_OF_NAMES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
    ".mp4": "video/mp4",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
}
DEFAULT_MEDIA_TYPES = {
    "image": "image/png",
    "document": "application/pdf",
    "audio": "audio/wav",
    "video": "video/mp4",
}


def find_media_kind(media_type: str) -> MediaKind:
    return KINDS_OF_MEDIA.get(media_type.partition("/")[0].lower(), "document")


def read_inline(part: Fields, converter: NameConverter) -> Media:
    blob = converter.convert(part.object("inlineData"))
    media_type = blob.text_or("mimeType", "")
    return Media(
        kind=find_media_kind(media_type),
        media_type=media_type,
        data=blob.text("data"),
        title=blob.text_or("displayName", ""),
        at=part.path,
        extras=_collect_extras(part, "inlineData", blob),
    )


def read_file(part: Fields, converter: NameConverter) -> Media:
    file = converter.convert(part.object("fileData"))
    media_type = file.text_or("mimeType", "")
    uri = file.text("fileUri")
    private = uri.startswith(VENDOR_FILES)
    return Media(
        kind=find_media_kind(media_type),
        media_type=media_type,
        url="" if private else uri,
        file_id=uri if private else "",
        title=file.text_or("displayName", ""),
        at=part.path,
        extras=_collect_extras(part, "fileData", file),
    )


MEDIA_READERS: dict[str, Callable[[Fields, NameConverter], Media]] = {
    "inlineData": read_inline,
    "fileData": read_file,
}


def _collect_extras(part: Fields, name: str, inner: Fields) -> Extras:
    """The remaining fields of a part; those of its inner object stay below the name of that object."""
    extras = part.rest()
    if inner.rest():
        extras[name] = inner.rest()
    return extras


def write_media(media: Media, *, native: bool, losses: Losses) -> Json | None:
    """A part with data or with the address of a file; None, with a loss, if Gemini cannot read the file."""
    if media.file_id and not native:
        losses.add(media.at, "a file stored at another vendor cannot be sent to Gemini")
        return None
    if media.file_id or media.url:
        name, inner = "fileData", _write_file(media, native=native)
    else:
        data = media.data or base64.b64encode(media.text.encode()).decode()
        name, inner = "inlineData", {"data": data}
        media_type = media.media_type or _find_media_type(media, native=native)
        if media_type:
            inner["mimeType"] = media_type
    if media.title:
        inner["displayName"] = media.title
    extras = dict(media.extras) if native else {}
    beside = extras.pop(name, None)
    if isinstance(beside, dict):
        inner.update(beside)
    return {name: inner, **extras}


def _write_file(media: Media, *, native: bool) -> Json:
    file: Json = {"fileUri": media.file_id or media.url}
    media_type = media.media_type
    if not media_type and not native:
        media_type = MEDIA_TYPES_OF_NAMES.get("." + media.url.rpartition(".")[2].lower(), "")
    if media_type:
        file["mimeType"] = media_type
    return file


def _find_media_type(media: Media, *, native: bool) -> str:
    if native:
        return ""
    if media.text:
        return "text/plain"
    for beginning, media_type in MEDIA_TYPES.items():
        if media.data.startswith(beginning):
            return media_type
    return DEFAULT_MEDIA_TYPES[media.kind]
