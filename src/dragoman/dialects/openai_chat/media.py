"""Images, recordings and files as Chat parts, both ways. Data URLs are taken apart and put together again."""

from dragoman.dialects.base import Json
from dragoman.hub.content import Media, MediaKind

DATA = "data:"
BASE64 = ";base64,"

#: Audio formats by their media type, where the subtype is not simply the format's name.
MEDIA_TYPE_OF_FORMAT = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}
FORMAT_OF_MEDIA_TYPE = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/pcm": "pcm16",
}

KIND_OF_MEDIA_TYPE: dict[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}


def split_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 content of a data URL in the usual spelling; None for anything else."""
    if not url.startswith(DATA):
        return None
    head, found, data = url.partition(BASE64)
    media_type = head[len(DATA) :]
    if not found or "," in media_type:
        return None
    return media_type, data


def data_url(media_type: str, data: str) -> str:
    return f"{DATA}{media_type}{BASE64}{data}"


def url_of(media: Media) -> str:
    """The address of an image: its own, or a data URL that holds it."""
    return media.url or data_url(media.media_type or "image/png", media.data)


def read_url(kind: MediaKind, url: str, *, at: str, extras: Json, detail: str = "", form: str = "") -> Media:
    """Media that its part names by an address, which may be the content itself."""
    found = split_data_url(url)
    if found is None:
        return Media(kind=kind, url=url, detail=detail, at=at, extras=extras, form=form)
    media_type, data = found
    return Media(kind=kind, media_type=media_type, data=data, detail=detail, at=at, extras=extras, form=form)


def read_reply_image(value: object) -> Media | None:
    """An image among a reply's `images`, as OpenRouter sends them."""
    image = value.get("image_url") if isinstance(value, dict) else None
    url = image.get("url") if isinstance(image, dict) else None
    return read_url("image", url, at="", extras={}) if isinstance(url, str) and url else None
