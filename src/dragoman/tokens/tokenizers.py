"""The tokenizers of models: which models use each, and the tokens that its chat template adds to the text."""

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

import msgspec

from dragoman.dialects.interfaces import Tokenizer
from dragoman.dialects.registry import dialect_named
from dragoman.hub.blocks import MediaKind

#: The form in which a model sees tools: their JSON, or types made of their schemas.
ToolsForm = Literal["json", "types"]


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that models with one tokenizer add for each part of a request, besides its text."""

    request: int
    message: int
    #: A system message; some models count it like any other.
    system: int
    call: int
    result: int
    #: Once if there are tools; the second number if a call is forced.
    tools: tuple[int, int]
    tool: int
    tools_as: ToolsForm = "json"
    #: One image, one page of a document, one minute of audio or video.
    media: dict[MediaKind, int]


#: Exact numbers are published by the vendors (7 tokens per request, 346 for tools less the 20 of an empty
#: one) or measured with public tokenizers; the others are rounded.
OVERHEADS: dict[Tokenizer, Overhead] = {
    "gpt": Overhead(
        request=3,
        message=4,
        system=4,
        call=8,
        result=6,
        tools=(12, 12),
        tool=2,
        tools_as="types",
        media={"image": 765, "document": 1_500, "audio": 600, "video": 15_000},
    ),
    "open": Overhead(
        request=3,
        message=5,
        system=5,
        call=12,
        result=10,
        tools=(150, 150),
        tool=12,
        media={"image": 1_000, "document": 1_500, "audio": 750, "video": 15_000},
    ),
    "gemini": Overhead(
        request=0,
        message=1,
        system=0,
        call=6,
        result=6,
        tools=(0, 0),
        tool=3,
        media={"image": 1_100, "document": 560, "audio": 1_920, "video": 15_480},
    ),
    "claude-3": Overhead(
        request=3,
        message=4,
        system=0,
        call=20,
        result=14,
        tools=(326, 293),
        tool=0,
        media={"image": 1_550, "document": 2_200, "audio": 1_500, "video": 15_000},
    ),
    "claude": Overhead(
        request=2,
        message=4,
        system=0,
        call=24,
        result=16,
        tools=(260, 380),
        tool=0,
        media={"image": 1_550, "document": 2_800, "audio": 1_500, "video": 15_000},
    ),
}

#: Patterns of model names; the first that matches decides.
MODELS: tuple[tuple[str, Tokenizer], ...] = (
    ("*claude-3*", "claude-3"),
    ("*claude-*-4", "claude-3"),
    ("*claude-*-4-20*", "claude-3"),
    ("*claude-*-4[-.][0-6]", "claude-3"),
    ("*claude-*-4[-.][0-6][-@:]*", "claude-3"),
    ("*claude*", "claude"),
    ("*gemini*", "gemini"),
    ("*gemma*", "gemini"),
    ("*gpt-*", "gpt"),
    ("o[1-9]*", "gpt"),
    ("*codex*", "gpt"),
)


@lru_cache(maxsize=256)
def find_tokenizer(model: str, dialect: str) -> Tokenizer:
    """The tokenizer of a model: by its name, or else the usual one of models behind the dialect."""
    name = model.lower()
    for pattern, tokenizer in MODELS:
        if fnmatchcase(name, pattern):
            return tokenizer
    return dialect_named(dialect).counting.tokenizer
