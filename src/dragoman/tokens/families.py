"""What is known about each family of models beside its tokenizer: what it adds to the words of a request."""

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from dragoman.hub.content import MediaKind
from dragoman.tokens.costs import Family


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that no text of the request accounts for."""

    request: int
    turn: int
    #: A system message is a turn of its own for some.
    system: int
    call: int
    result: int
    #: Once, if there are tools; the second number if a call is forced.
    tools: tuple[int, int]
    tool: int
    #: How tools are shown to the model.
    tools_as: Literal["json", "types"] = "json"
    #: One picture, one minute of sound or film, or one page, whichever the kind is counted in.
    media: dict[MediaKind, int]


#: Single figures are the vendors' own (a frame of 7 tokens, 346 for tools less the 20 of an empty one) or
#: were measured where their tokenizers are public; the rest is rounded.
OVERHEADS: dict[Family, Overhead] = {
    "gpt": Overhead(
        request=3,
        turn=4,
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
        turn=5,
        system=5,
        call=12,
        result=10,
        tools=(150, 150),
        tool=12,
        media={"image": 1_000, "document": 1_500, "audio": 750, "video": 15_000},
    ),
    "gemini": Overhead(
        request=0,
        turn=1,
        system=0,
        call=6,
        result=6,
        tools=(0, 0),
        tool=3,
        media={"image": 1_100, "document": 560, "audio": 1_920, "video": 15_480},
    ),
    "claude-3": Overhead(
        request=3,
        turn=4,
        system=0,
        call=20,
        result=14,
        tools=(326, 293),
        tool=0,
        media={"image": 1_550, "document": 2_200, "audio": 1_500, "video": 15_000},
    ),
    "claude": Overhead(
        request=2,
        turn=4,
        system=0,
        call=24,
        result=16,
        tools=(260, 380),
        tool=0,
        media={"image": 1_550, "document": 2_800, "audio": 1_500, "video": 15_000},
    ),
}

#: Model names by family; the first that fits is taken.
MODELS: tuple[tuple[str, Family], ...] = (
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

#: What a dialect's servers usually run.
OF_DIALECT: dict[str, Family] = {
    "anthropic": "claude",
    "gemini": "gemini",
    "openai_responses": "gpt",
    "openai_chat": "open",
}


def family_of(model: str, dialect: str) -> Family:
    """The family of a model, by its name or else by the API it is reached by."""
    name = model.lower()
    for pattern, family in MODELS:
        if fnmatchcase(name, pattern):
            return family
    return OF_DIALECT[dialect]
