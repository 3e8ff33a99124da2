"""Seals: signatures that a vendor requires back unchanged, and the envelope that takes them through clients.

A seal returns only to its issuer. A client of another dialect gets it in an envelope, inside a field that the
client sends back. The envelope also holds the text that the seal belongs to, because some clients send the
field back without the text.
"""

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Literal

import msgspec

PREFIX = "dgm1."
#: How every envelope begins that `write_envelope` writes: the prefix, and zlib's header in base64. With this
#: length a search in a large body is several times faster than for the prefix alone.
ENVELOPE_START = f"{PREFIX}eJ"

#: Forms of `Reasoning` blocks without text that carry the seal of another block, for clients that have no
#: field for it there: of the call whose id follows the prefix, or of the text before.
CALL_CARRIER = "carrier:call:"
TEXT_CARRIER = "carrier:text"

#: Larger envelopes are not ours; a hostile one must not decompress without bound.
MAX_CONTENT = 8 * 1024 * 1024


class Seal(msgspec.Struct, frozen=True):
    """A vendor's signature. `issuer`: the dialect or provider that made it; `model`: its model, if known."""

    issuer: str
    model: str
    value: str


class SealedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One seal inside an envelope, and what it belongs to.

    `reasoning`: the reasoning in `parts`. `call`: the tool call with the id `call_id`. `text`: the text
    before it.
    """

    kind: Literal["reasoning", "call", "text"]
    seal: Seal
    parts: tuple[str, ...] = ()
    redacted: bool = False
    call_id: str = ""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[SealedItem, ...])


def write_envelope(items: Sequence[SealedItem]) -> str:
    """The items as one string of URL-safe characters and dots; `read_envelope` reads it."""
    packed = zlib.compress(_encoder.encode(items), 6)
    return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def is_envelope(value: str) -> bool:
    return value.startswith(PREFIX)


def read_envelope(value: str) -> tuple[SealedItem, ...] | None:
    """The items of an envelope; None for any other string, and for a damaged envelope."""
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
