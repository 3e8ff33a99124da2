"""Reads and writes `thoughtSignature`: Gemini's own signature, an envelope of this gateway, or a sentinel.

The field must be base64, so an envelope is written as the base64 of its text. Gemini CLI sends back only the
signatures of function calls, so an envelope also holds the thoughts before the call. `insert_thoughts` and
`seal_last_text` put the content of an envelope back into the message.
"""

import base64
import binascii
import re
from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.dialects.gemini.names import NAME
from dragoman.hub.blocks import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.seal import PREFIX, Seal, SealedItem, read_envelope, write_envelope

#: Sent for calls that Gemini did not make; Gemini then requires no signature.
SENTINEL = "skip_thought_signature_validator"

_SENTINEL_TEXTS = (SENTINEL, "context_engineering_is_the_way_to_go")
#: Clients whose field has the type bytes encode the sentinel once more.
SENTINELS = frozenset(_SENTINEL_TEXTS) | {
    base64.b64encode(text.encode()).decode() for text in _SENTINEL_TEXTS
}

#: The `form` of a part that has a signature and no text, not even an empty one.
BARE = "bare"
#: Among the extras of a block's end, a private one for our own writer: the signature came in such a part
#: after it.
BARE_EXTRA = "@bare"

#: The start of every envelope in base64.
_WRAPPED_PREFIX = base64.b64encode(PREFIX.encode()).decode()[:6]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

#: Marks thoughts without a signature: the envelope holds them because the client does not keep the text.
UNSEALED = Seal("", "", "")
#: How many blocks of a message are searched for the block that an envelope belongs to.
SEARCH_LIMIT = 1_000


def is_native(seal: Seal) -> bool:
    """Whether a seal can be written without an envelope: it is Gemini's and valid base64."""
    return seal.issuer == NAME and is_base64(seal.value)


def is_base64(value: str) -> bool:
    """Whether a value is padded base64, in the standard alphabet or in that for URLs."""
    return bool(_BASE64.fullmatch(value)) and len(value) % 4 == 0


def encode_envelope(items: Sequence[SealedItem]) -> str:
    return base64.b64encode(write_envelope(items).encode()).decode()


def is_envelope(value: str) -> bool:
    return value.startswith((PREFIX, _WRAPPED_PREFIX))


def decode_envelope(value: str) -> tuple[SealedItem, ...] | None:
    """The items of an envelope; None if it is damaged."""
    if value.startswith(_WRAPPED_PREFIX):
        text = value.rstrip("=")
        try:
            value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        except (ValueError, binascii.Error):
            return None
    return read_envelope(value)


def read_signature(value: str, issuer: str = NAME, model: str = "") -> Seal | None:
    """The seal of a signature; None for a sentinel."""
    return None if not value or value in SENTINELS else Seal(issuer, model, value)


def read_seal(carried: SealedItem) -> Seal | None:
    return carried.seal if carried.seal.value else None


def _find_end_of_last_call(blocks: list[AnyBlock]) -> int:
    """The index after the last tool call among the last `SEARCH_LIMIT` blocks, or where those begin."""
    for index in reversed(range(max(0, len(blocks) - SEARCH_LIMIT), len(blocks))):
        if isinstance(blocks[index], ToolCall):
            return index + 1
    return max(0, len(blocks) - SEARCH_LIMIT)


def seal_last_text(blocks: list[AnyBlock], seal: Seal) -> None:
    """Put a seal on the last text after the last call of the message."""
    for index in reversed(range(_find_end_of_last_call(blocks), len(blocks))):
        block = blocks[index]
        if isinstance(block, Text):
            blocks[index] = replace(block, seal=seal)
            return


def insert_thoughts(blocks: list[AnyBlock], thoughts: list[Reasoning]) -> None:
    """Insert thoughts after the last call of the message: the model had them after it and before its next
    text.

    Some clients send the text of thoughts back. Then only the seal is added.
    """
    start = _find_end_of_last_call(blocks)
    echoed = {
        block.text: index
        for index, block in enumerate(blocks[start:], start)
        if isinstance(block, Reasoning) and block.seal is None
    }
    missing: list[Reasoning] = []
    for thought in thoughts:
        index = echoed.pop(thought.text, -1) if thought.parts else -1
        if index < 0:
            missing.append(thought)
        else:
            blocks[index] = replace(thought, at=blocks[index].at)
    blocks[start:start] = missing
