"""Reads and writes the parts of a message's content, with their cache marks."""

from collections.abc import Sequence

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.media import MEDIA_READERS, write_media
from dragoman.dialects.openai_chat.spelling import add_inner
from dragoman.hub.content import (
    AnyBlock,
    Block,
    CacheMark,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolReference,
)
from dragoman.wire.fields import Fields, encode

#: OpenAI's cache mark, and Anthropic's, which OpenRouter and LiteLLM accept on Chat parts.
BREAKPOINT = "prompt_cache_breakpoint"
CACHE_CONTROL = "cache_control"

#: OpenAI's lifetimes of a cached prompt, by the names of other dialects.
BREAKPOINT_TTL = {"5m": "30m", "1h": "12h"}

#: The form of thoughts and refusals that are parts of the content.
AS_PART = "part"


def read_content(message: Fields, content: list[object]) -> list[AnyBlock]:
    return [read_part(message.child(part, "content", index)) for index, part in enumerate(content)]


def read_part(part: Fields) -> AnyBlock:
    """Read one part. A part of unknown type is kept unchanged."""
    kind = part.text("type")
    at = part.path
    cache = read_cache(part)
    if kind == "text":
        return Text(text=part.text("text"), at=at, cache=cache, extras=part.rest())
    if kind == "refusal":
        return Refusal(text=part.text("refusal"), at=at, form=AS_PART, cache=cache, extras=part.rest())
    if kind == "thinking":
        thought = _read_thinking(part)
        if thought is not None:
            return thought
    reader = MEDIA_READERS.get(kind)
    if reader is None:
        value: Json = {"type": kind, **part.rest()}
        return Opaque(kind=kind, value=value, at=at, cache=cache)
    media, inner = reader(part)
    extras = add_inner(part.rest(), kind, inner)
    return msgspec.structs.replace(media, cache=cache, extras=extras)


def _read_thinking(part: Fields) -> Reasoning | None:
    """Read a thought of Mistral; None if it has content other than text."""
    inner = part.rest().get("thinking")
    if isinstance(inner, str):
        inner = [{"type": "text", "text": inner}]
    if not isinstance(inner, list):
        return None
    texts = [piece.get("text") if isinstance(piece, dict) else None for piece in inner]
    parts = tuple(text for text in texts if isinstance(text, str))
    if inner != [{"type": "text", "text": text} for text in parts]:
        return None
    form = AS_PART if isinstance(part.raw("thinking"), list) else f"{AS_PART}-text"
    return Reasoning(parts=parts, raw=True, form=form, at=part.path, extras=part.rest())


def read_cache(part: Fields) -> CacheMark | None:
    """Take the cache mark of a part. Only Anthropic's mark has a type, so the writer can distinguish them."""
    for name in (BREAKPOINT, CACHE_CONTROL):
        value = part.rest().get(name)
        if isinstance(value, dict) and ("type" in value) == (name == CACHE_CONTROL):
            mark = part.object(name)
            ttl = mark.text("ttl") if mark.rest().get("ttl") else ""
            return CacheMark(ttl=ttl, extras=mark.rest())
    return None


def write_cache(block: Block, *, own: bool) -> Json:
    """The field of a part's cache mark; empty without a mark."""
    mark = block.cache
    if mark is None:
        return {}
    if not own:
        ttl = BREAKPOINT_TTL.get(mark.ttl)
        return {BREAKPOINT: {"mode": "explicit", **({"ttl": ttl} if ttl else {})}}
    written: Json = {"ttl": mark.ttl} if mark.ttl else {}
    return {CACHE_CONTROL if "type" in mark.extras else BREAKPOINT: {**written, **mark.extras}}


def write_part(block: AnyBlock, *, own: bool, marks: bool) -> Json | None:
    """Write the part of a block; None if this dialect has no such part. `marks`: write cache marks."""
    mark = write_cache(block, own=own) if marks else {}
    extras = block.extras if own else {}
    match block:
        case Text():
            return {"type": "text", "text": block.text, **mark, **extras}
        case Refusal():
            return {"type": "refusal", "refusal": block.text, **mark, **extras}
        case Media():
            part = write_media(block, own=own)
            return None if part is None else {**part, **mark}
        case Opaque() if own:
            return {**block.value, **mark}
        case Reasoning() if own and block.form.startswith(AS_PART):
            texts = [{"type": "text", "text": text} for text in block.parts]
            thinking = texts if block.form == AS_PART else block.text
            return {"type": "thinking", "thinking": thinking, **extras}
        case _:
            return None


def find_text(block: AnyBlock) -> str | None:
    """The text of a block where only text is possible; None if it has no text."""
    match block:
        case Text() | Refusal() | HostedResult():
            return block.text
        case Media() if block.text:
            return f"{block.title}\n\n{block.text}" if block.title else block.text
        case ToolReference():
            return block.name
        case Opaque():
            return block.text or encode(block.value).decode()
        case _:
            return None


def is_plain(blocks: Sequence[AnyBlock]) -> bool:
    """Whether all blocks are text without cache marks."""
    return all(type(block) is Text and block.cache is None for block in blocks)
