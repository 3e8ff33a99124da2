"""Opaque proofs that a vendor wants back unchanged, and the envelope that takes them through foreign clients.

A seal returns only to its issuer. A client of another dialect gets it wrapped in a field that the
client echoes; the envelope also holds the text that the seal belongs to, because some clients
echo the field and forget the text.
"""

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Literal

import msgspec

PREFIX = "dgm1."

#: Forms of `Reasoning` blocks without text that bring the seal of something else to a client which has no
#: place for it there: of the call whose id follows, or of the text before.
CALL_CARRIER = "carrier:call:"
TEXT_CARRIER = "carrier:text"

#: No honest envelope is larger; a hostile one must not inflate without bound.
MAX_CONTENT = 8 * 1024 * 1024


class Seal(msgspec.Struct, frozen=True):
    """`issuer`: the dialect (or provider) that minted it; `model`: for which model, if known."""

    issuer: str
    model: str
    value: str


class SealedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sealed thing inside an envelope.

    `reasoning`: the text (parts) it sealed rides along. `call`: the seal sits on the tool call named by
    `call_id`. `text`: the seal sits on the text that came just before.
    """

    kind: Literal["reasoning", "call", "text"]
    seal: Seal
    parts: tuple[str, ...] = ()
    redacted: bool = False
    call_id: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[SealedItem, ...])


def write_envelope(items: Sequence[SealedItem]) -> str:
    """One text, of URL-safe characters and dots only, that `read_envelope` turns back into the items."""
    packed = zlib.compress(_encoder.encode(items), 6)
    return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def is_envelope(value: str) -> bool:
    return value.startswith(PREFIX)


def read_envelope(value: str) -> tuple[SealedItem, ...] | None:
    """The items of an envelope, or None for anything that is not a whole envelope of ours."""
    if not value.startswith(PREFIX):
        return None
    text = value[len(PREFIX) :]
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        inflater = zlib.decompressobj()
        content = inflater.decompress(packed, MAX_CONTENT)
        if inflater.unconsumed_tail or not inflater.eof:
            return None
        return _decoder.decode(content)
    except (ValueError, binascii.Error, zlib.error, msgspec.DecodeError):
        return None
