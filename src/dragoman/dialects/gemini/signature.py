"""What a `thoughtSignature` says: Gemini's own proof, an envelope of ours, or a documented excuse.

The field must be base64, so an envelope goes in as the base64 of its text. Gemini CLI brings back only the
signatures of function calls, which is why an envelope also holds the thoughts that came before the call.
"""

import base64
import binascii
import re
from collections.abc import Sequence

from dragoman.hub.seal import PREFIX, Seal, SealedItem, read_envelope, write_envelope

ISSUER = "gemini"

#: Sent for calls that Gemini did not make; it then asks for no proof.
SENTINEL = "skip_thought_signature_validator"

_EXCUSES = (SENTINEL, "context_engineering_is_the_way_to_go")
#: Clients whose field holds bytes encode the sentinel once more.
SENTINELS = frozenset(_EXCUSES) | {base64.b64encode(text.encode()).decode() for text in _EXCUSES}

#: The `form` of a part that is a signature and nothing else, not even an empty text.
BARE = "bare"

#: How the base64 of every envelope begins.
_WRAPPED_PREFIX = base64.b64encode(PREFIX.encode()).decode()[:6]

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

#: Marks thoughts that came without a proof: they travel only because the client would forget the text.
UNSEALED = Seal("", "", "")


def stands_alone(seal: Seal) -> bool:
    """Whether a seal can be written as it is. Others go into an envelope, damaged ones of Gemini's too."""
    return seal.issuer == ISSUER and is_base64(seal.value)


def is_base64(value: str) -> bool:
    """In either alphabet, padded."""
    return bool(_BASE64.fullmatch(value)) and len(value) % 4 == 0


def encode_envelope(items: Sequence[SealedItem]) -> str:
    return base64.b64encode(write_envelope(items).encode()).decode()


def is_envelope(value: str) -> bool:
    return value.startswith((PREFIX, _WRAPPED_PREFIX))


def decode_envelope(value: str) -> tuple[SealedItem, ...] | None:
    """The items of an envelope of ours; None if it arrived damaged."""
    if value.startswith(_WRAPPED_PREFIX):
        text = value.rstrip("=")
        try:
            value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        except (ValueError, binascii.Error):
            return None
    return read_envelope(value)


def native_seal(value: str, issuer: str = ISSUER, model: str = "") -> Seal | None:
    """The seal that a signature is; a sentinel is none."""
    return None if not value or value in SENTINELS else Seal(issuer, model, value)


def seal_of(carried: SealedItem) -> Seal | None:
    return carried.seal if carried.seal.value else None
