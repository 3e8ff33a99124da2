"""Reads and writes images and documents."""

from collections.abc import Callable

from dragoman.dialects.anthropic.names import object_of, read_cache, take_text, text_of
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import Media, MediaKind
from dragoman.wire.fields import Fields

#: A private extra, for our own writer: the fields of the source that the hub has no place for.
_SOURCE = "@source"

KINDS: dict[str, MediaKind] = {"image": "image", "document": "document"}

#: For each type of source the hub's field and the API's field of its content.
_SOURCES: dict[str, tuple[str, str]] = {
    "base64": ("data", "data"),
    "text": ("text", "data"),
    "url": ("url", "url"),
    "file": ("file_id", "file_id"),
}


def read_media(kind: MediaKind, fields: Fields, at: str) -> Media:
    """An image or a document. A source that the hub has no place for is kept as a private extra."""
    cache = read_cache(fields)
    source = fields.object("source").rest()
    title = take_text(fields.rest(), "title")
    held = _SOURCES.get(text_of(source.get("type")))
    content = take_text(source, held[1]) if held else ""
    media_type = take_text(source, "media_type") if content else ""
    if not held or not content:
        # A document of blocks, or a source of a future type: kept unchanged, with its text if it has one.
        fields.rest()[_SOURCE] = source
        text = _read_block_text(source)
        return Media(
            kind=kind, at=at, cache=cache, title=title, text=text, form="source", extras=fields.rest()
        )
    form = text_of(source.pop("type"))
    if source:
        fields.rest()[_SOURCE] = source
    values: dict[str, str] = {held[0]: content}
    return Media(
        kind=kind,
        at=at,
        form=form,
        cache=cache,
        media_type=media_type,
        title=title,
        extras=fields.rest(),
        **values,
    )


def _read_block_text(source: Json) -> str:
    content = source.get("content")
    if isinstance(content, list):
        return "\n".join(text for part in content if (text := text_of(object_of(part).get("text"))))
    return text_of(content)


def write_media(media: Media, *, same_dialect: bool) -> Json | None:
    """Write a media block; None if Anthropic does not accept this kind of media or this form of it."""
    if same_dialect and media.form == "source":
        return _add_title(media, {"type": media.kind, "source": media.extras.get(_SOURCE)})
    source = next((made for write in _WRITERS if (made := write(media)) is not None), None)
    if media.kind not in KINDS or source is None:
        return None
    if same_dialect:
        source |= object_of(media.extras.get(_SOURCE))
    return _add_title(media, {"type": media.kind, "source": source})


def _add_title(media: Media, written: Json) -> Json:
    if media.title and media.kind == "document":
        written["title"] = media.title
    return written


def _write_data(media: Media) -> Json | None:
    if not media.data:
        return None
    source: Json = {"type": "base64", "data": media.data}
    if media.media_type:
        source["media_type"] = media.media_type
    return source


def _write_url(media: Media) -> Json | None:
    return {"type": "url", "url": media.url} if media.url else None


def _write_file(media: Media) -> Json | None:
    return {"type": "file", "file_id": media.file_id} if media.file_id else None


def _write_text(media: Media) -> Json | None:
    if not media.text or media.kind != "document":
        return None
    return {"type": "text", "media_type": "text/plain", "data": media.text}


_WRITERS: tuple[Callable[[Media], Json | None], ...] = (_write_data, _write_url, _write_file, _write_text)
