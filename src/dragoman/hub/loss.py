"""Losses: what a translation could not carry over."""

from collections.abc import Iterable, Iterator

import msgspec

from dragoman.hub.errors import LossRefused


class Loss(msgspec.Struct, frozen=True):
    """One loss: its path in the client's JSON (empty for a reply) and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class Losses:
    """The losses of one translation, in order and without repetitions.

    Bounded, because a stream can cause a new loss with every event.
    """

    LIMIT = 1000

    def __init__(self, losses: Iterable[Loss] = ()) -> None:
        self._seen: dict[Loss, None] = dict.fromkeys(losses)

    def add(self, path: str, reason: str) -> None:
        if len(self._seen) < self.LIMIT:
            self._seen[Loss(path, reason)] = None

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def as_tuple(self) -> tuple[Loss, ...]:
        return tuple(self._seen)

    def as_sorted(self) -> tuple[Loss, ...]:
        """The losses in an order that does not depend on how the request was translated."""
        return tuple(sorted(self._seen, key=_build_place))

    def refuse_if_any(self) -> None:
        """Raise `LossRefused` for the first loss, for strict translation; the message counts the others.

        The first in the order of `as_sorted`, so that equal requests get equal errors.
        """
        if not self._seen:
            return
        first, *others = self.as_sorted()
        more = f" (and {len(others)} more)" if others else ""
        raise LossRefused(
            f"{first.reason}{more}", path=first.path, hint="turn strict off to translate without it"
        )


def _build_place(loss: Loss) -> tuple[int, str, str]:
    """Sorts losses: short paths first."""
    return len(loss.path), loss.path, loss.reason
