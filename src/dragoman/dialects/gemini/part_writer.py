"""Writes blocks other than text, thoughts, calls and results as parts.

A block that came from Gemini is written unchanged; of other blocks only what Gemini supports.
"""

import base64

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.gemini.part_reader import WHOLE
from dragoman.hub.content import AnyBlock, HostedCall, HostedResult, Media, Opaque
from dragoman.hub.loss import Losses

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


def write_part(block: AnyBlock, *, native: bool, losses: Losses) -> Json | None:
    """The part for a block, or None with the loss recorded."""
    match block:
        case Media():
            return write_media(block, native=native, losses=losses)
        case HostedCall() | HostedResult():
            whole = block.extras.get(WHOLE)
            if native and isinstance(whole, dict):
                return whole
            part = _write_code(block) if isinstance(block, HostedCall) else _write_code_result(block)
            if part is None:
                losses.add(block.at, f"Gemini has no words for a {block.tool} run by another vendor")
            return part
        case Opaque():
            if native:
                return block.value
            if block.text:
                return {"text": block.text}
            losses.add(block.at, f"a {block.kind} block cannot be told in Gemini's dialect")
            return None
        case _:
            losses.add(block.at, f"a {type(block).__name__} block cannot stand here in Gemini's dialect")
            return None


def write_media(media: Media, *, native: bool, losses: Losses) -> Json | None:
    if media.file_id and not native:
        losses.add(media.at, "a file stored at another vendor cannot be told to Gemini")
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


def _write_code(call: HostedCall) -> Json | None:
    """The part of a code execution. Gemini's replies have no part for other hosted calls."""
    if call.tool != "code_execution":
        return None
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeDecodeError):
        arguments = None
    code = arguments.get("code") if isinstance(arguments, dict) else None
    return {
        "executableCode": {"language": "PYTHON", "code": code if isinstance(code, str) else call.arguments}
    }


def _write_code_result(result: HostedResult) -> Json | None:
    if result.tool != "code_execution":
        return None
    outcome = "OUTCOME_FAILED" if result.is_error else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": result.text}}
