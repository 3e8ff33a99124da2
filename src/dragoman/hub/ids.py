"""Ids derived from a seed: the same seed gives the same ids, so output is reproducible.

The gateway uses the request id as the seed. The library uses the request itself: it grows with every message,
so ids stay unique within a conversation also where an upstream sends none.
"""

import hashlib
import re

_LEGAL = re.compile(r"[A-Za-z0-9_-]+")


def digest(*parts: str | bytes, length: int = 24) -> str:
    """A short hexadecimal hash of the parts."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in parts:
        hasher.update(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part)
        hasher.update(b"\0")
    return hasher.hexdigest()[:length]


class IdSource:
    """Makes the ids of one reply."""

    def __init__(self, seed: str | bytes = "") -> None:
        self._seed = seed
        self._made = 0

    def branch(self, name: str) -> "IdSource":
        """An independent source: its ids do not depend on how many ids this one made."""
        return IdSource(digest(self._seed, name))

    def make(self, prefix: str) -> str:
        """The next id, such as `make("call_")`."""
        self._made += 1
        return prefix + digest(self._seed, str(self._made))

    def adopt(self, prefix: str, foreign: str) -> str:
        """A legal id with this prefix for a foreign id; a new id if the foreign one is empty."""
        if not foreign:
            return self.make(prefix)
        if foreign.startswith(prefix) and _LEGAL.fullmatch(foreign):
            return foreign
        tail = foreign.rpartition("-")[2].rpartition("_")[2]
        if len(tail) >= 8 and _LEGAL.fullmatch(tail):
            return prefix + tail
        # A short id is likely to come again in another reply, so it is hashed with the seed.
        return prefix + digest(self._seed, foreign)
