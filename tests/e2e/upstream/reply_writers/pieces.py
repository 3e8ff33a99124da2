"""What the reply writers share: the reply to be written, made-up ids, and texts cut into pieces."""

import hashlib
from typing import Any

import msgspec

from tests.e2e.upstream.script import Call
from tests.e2e.upstream.vault import Vault

Json = dict[str, Any]
OUTPUT_TOKENS = 20
REASONING_TOKENS = 7


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose calls use the names and arguments of the request's tools."""

    #: Counts the replies of one upstream, so that ids and seals never repeat.
    number: int
    text: str
    reasoning: str
    calls: tuple[Call, ...]
    stop: str
    request: Json
    vault: Vault
    input_tokens: int = 100

    def identity(self, prefix: str, position: int = 0, length: int = 24) -> str:
        """An opaque id as vendors make them."""
        return prefix + hashlib.sha256(f"{prefix} {self.number} {position}".encode()).hexdigest()[:length]


def cut(text: str) -> list[str]:
    """A text in up to three pieces, so that clients have something to put together."""
    third = max(1, len(text) // 3)
    pieces = [text[:third], text[third : 2 * third], text[2 * third :]]
    return [piece for piece in pieces if piece]


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
