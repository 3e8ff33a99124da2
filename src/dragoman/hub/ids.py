"""Ids that look random and are not: the same seed gives the same ids, so output is reproducible.

A gateway seeds with something unique; the library seeds with the request itself, which grows with every
turn, so that ids stay unique in a conversation even where an upstream sends none.
"""

import hashlib
import re

_LEGAL = re.compile(r"[A-Za-z0-9_-]+")


def digest(*parts: str | bytes, length: int = 24) -> str:
    """A short hexadecimal fingerprint of the parts."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
        hasher.update(b"\0")
    return hasher.hexdigest()[:length]


class IdSource:
    """A source of ids for one reply."""

    def __init__(self, seed: str | bytes = "") -> None:
        self._seed = seed
        self._made = 0

    def branch(self, name: str) -> "IdSource":
        """An independent source: what one side makes does not depend on how much the other has made."""
        return IdSource(digest(self._seed, name))

    def make(self, prefix: str) -> str:
        """The next id, such as `make("call_")`."""
        self._made += 1
        return prefix + digest(self._seed, str(self._made))

    def adopt(self, prefix: str, foreign: str) -> str:
        """A legal id with this prefix for something with another system's id; a new one if it has none."""
        if not foreign:
            return self.make(prefix)
        if foreign.startswith(prefix) and _LEGAL.fullmatch(foreign):
            return foreign
        tail = foreign.rpartition("-")[2].rpartition("_")[2]
        if len(tail) >= 8 and _LEGAL.fullmatch(tail):
            return prefix + tail
        # A short one may well come again in another reply.
        return prefix + digest(self._seed, foreign)
