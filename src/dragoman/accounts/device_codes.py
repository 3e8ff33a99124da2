"""Device codes of RFC 8628: an agent asks for a code, and a person approves it on a page of the gateway.

Pure: the caller passes the date. Codes are in memory, for a few minutes, as hashes. They are lost at a
restart.
"""

import hashlib
import secrets
from collections import Counter
from typing import Literal

import msgspec

#: Seconds until a code expires, and between two polls of an agent.
LIFETIME = 600
INTERVAL = 2
#: Codes that wait at one time.
MAX_CODES = 1000
#: Per address and minute: new codes, and wrong attempts on the page.
MAX_STARTS = 20
MAX_ATTEMPTS = 10
#: Different addresses in one minute. Further ones are refused.
MAX_ADDRESSES = 10_000
#: RFC 8628 recommends letters without vowels: they form no words, and none is taken for another.
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_HALF = 4

PollResult = Literal["authorization_pending", "slow_down", "access_denied", "expired_token"]


class NewCode(msgspec.Struct, frozen=True):
    """What the agent receives. `user_code` is for the person."""

    device_code: str
    user_code: str


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A person has approved a code: the id and the name of the key that was entered.

    `secret` is the key itself if it is in the configuration: the gateway stores nothing about such a key.
    """

    key: str = ""
    name: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        return f"Approval({self.name!r})"


class _WaitingCode(msgspec.Struct):
    user_digest: bytes
    expires: float
    polled: float = 0.0
    approval: Approval | None = None
    is_denied: bool = False


class RateGate:
    """Counts events per address and minute. The counts are lost at a restart."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def admits(self, address: str, now: float) -> bool:
        """Whether the address has events left in this minute."""
        minute = int(now // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        return self._counts[address] < self._limit and (
            address in self._counts or len(self._counts) < MAX_ADDRESSES
        )

    def count(self, address: str) -> None:
        self._counts[address] += 1


class DeviceCodes:
    """The codes that wait for approval. Call order: `start`, `approve` or `deny`, `poll` until it ends."""

    def __init__(self) -> None:
        self._codes: dict[bytes, _WaitingCode] = {}
        self.starts = RateGate(MAX_STARTS)
        self.attempts = RateGate(MAX_ATTEMPTS)

    def start(self, address: str, now: float) -> NewCode | None:
        """A new code; None if the address asks too often, or if too many codes wait."""
        self._remove_expired(now)
        if len(self._codes) >= MAX_CODES or not self.starts.admits(address, now):
            return None
        self.starts.count(address)
        device_code = secrets.token_urlsafe(32)
        halves = ("".join(secrets.choice(_LETTERS) for _ in range(_HALF)) for _ in range(2))
        user_code = "-".join(halves)
        self._codes[_hash(device_code)] = _WaitingCode(_hash(normalize(user_code)), now + LIFETIME)
        return NewCode(device_code, user_code)

    def is_waiting(self, user_code: str, now: float) -> bool:
        return self._find(user_code, now) is not None

    def approve(self, user_code: str, approval: Approval, now: float) -> bool:
        """Approve a code. False if there is no such code that waits for approval."""
        waiting = self._find(user_code, now)
        if waiting is not None:
            waiting.approval = approval
        return waiting is not None

    def deny(self, user_code: str, now: float) -> bool:
        waiting = self._find(user_code, now)
        if waiting is not None:
            waiting.is_denied = True
        return waiting is not None

    def poll(self, device_code: str, now: float) -> Approval | PollResult:
        """What a polling agent gets: the approval, or a code of RFC 8628 such as `authorization_pending`.

        The approval and `access_denied` also delete the code.
        """
        digest = _hash(device_code)
        waiting = self._codes.get(digest)
        if waiting is None or now >= waiting.expires:
            return "expired_token"
        if waiting.is_denied or waiting.approval is not None:
            del self._codes[digest]
            return waiting.approval or "access_denied"
        # Half an interval: networks delay some polls more than others.
        is_early = now - waiting.polled < INTERVAL / 2
        waiting.polled = now
        return "slow_down" if is_early else "authorization_pending"

    def _find(self, user_code: str, now: float) -> _WaitingCode | None:
        digest = _hash(normalize(user_code))
        return next(
            (
                each
                for each in self._codes.values()
                if each.user_digest == digest
                and now < each.expires
                and each.approval is None
                and not each.is_denied
            ),
            None,
        )

    def _remove_expired(self, now: float) -> None:
        for digest in [digest for digest, each in self._codes.items() if now >= each.expires]:
            del self._codes[digest]


def normalize(user_code: str) -> str:
    """The code as people may type it, without hyphens and spaces and in capital letters."""
    return "".join(letter for letter in user_code[:100].upper() if letter in _LETTERS)


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
