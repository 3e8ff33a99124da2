"""Reads and writes `thoughtSignature`: Gemini's own signature, an envelope of this gateway, or a sentinel.

The field must be base64, so an envelope is written as the base64 of its text. Gemini CLI sends back only the
signatures of function calls, so an envelope also holds the thoughts before the call.
"""

import base64
import binascii
import re
from collections.abc import Sequence

from dragoman.hub.seal import PREFIX, Seal, SealedItem, read_envelope, write_envelope

ISSUER = "gemini"

#: Sent for calls that Gemini did not make; Gemini then requires no signature.
SENTINEL = "skip_thought_signature_validator"

_SENTINEL_TEXTS = (SENTINEL, "context_engineering_is_the_way_to_go")
#: Clients whose field has the type bytes encode the sentinel once more.
SENTINELS = frozenset(_SENTINEL_TEXTS) | {
    base64.b64encode(text.encode()).decode() for text in _SENTINEL_TEXTS
}

#: The `form` of a part that has a signature and no text, not even an empty one.
BARE = "bare"

#: The start of every envelope in base64.
_WRAPPED_PREFIX = base64.b64encode(PREFIX.encode()).decode()[:6]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

#: Marks thoughts without a signature: the envelope holds them because the client does not keep the text.
UNSEALED = Seal("", "", "")


def is_native(seal: Seal) -> bool:
    """Whether a seal can be written without an envelope: it is Gemini's and valid base64."""
    return seal.issuer == ISSUER and is_base64(seal.value)


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


def read_signature(value: str, issuer: str = ISSUER, model: str = "") -> Seal | None:
    """The seal of a signature; None for a sentinel."""
    return None if not value or value in SENTINELS else Seal(issuer, model, value)


def read_seal(carried: SealedItem) -> Seal | None:
    return carried.seal if carried.seal.value else None
