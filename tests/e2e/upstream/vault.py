"""The seals that the pretended vendors have issued; each takes back only what it issued itself, unchanged."""

import base64
import hashlib

import msgspec


class Issued(msgspec.Struct, frozen=True):
    dialect: str
    kind: str
    text: str


class Vault:
    def __init__(self) -> None:
        self._issued: dict[str, Issued] = {}

    def seal(self, dialect: str, kind: str, text: str, number: int) -> str:
        """A new opaque value that stands for `text`; it is never the same twice."""
        digest = hashlib.sha256(f"{dialect} {kind} {number} {text}".encode()).digest()
        value = base64.b64encode(digest * 3).decode()
        self._issued[value] = Issued(dialect, kind, text)
        return value

    def find(self, dialect: str, value: object) -> Issued | None:
        """What a value stands for, if this vendor issued it."""
        issued = self._issued.get(value) if isinstance(value, str) else None
        return issued if issued and issued.dialect == dialect else None
