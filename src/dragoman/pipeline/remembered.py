"""`RememberedHistories`: translated history, within a bound of bytes, separate for each caller.

The key of a conversation contains its owner, so a request never finds what another caller sent. It also
contains the target, and all members of the body that the translation of the history depends on. A request is
compared byte by byte with what is remembered, never by a hash.
"""

from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from dragoman.pipeline.history import SplitBody, TranslatedHistory

#: Smaller requests are translated in less time than it takes to find them.
MIN_BODY = 8 * 1024


class HistoryKey(msgspec.Struct, frozen=True):
    """Finds a conversation with a target. The large members are compared after they were found."""

    #: Whose conversation it is.
    owner: Hashable
    #: Client dialect, provider and model, and the settings of the URL.
    target: Hashable
    #: The members of the body that the history's translation depends on: names and lengths.
    members: tuple[tuple[str, int], ...]
    first_item: bytes


def build_key(owner: Hashable, target: Hashable, split: SplitBody) -> HistoryKey:
    """The key of a request's conversation."""
    members = tuple(zip(split.names, map(len, split.values), strict=True))
    return HistoryKey(owner, target, members, split.items[0])


class RememberedHistories:
    """All remembered conversations. The longest unused ones are forgotten first.

    Belongs to the event loop, except `find`: a large request is translated in a thread.
    """

    def __init__(self, limit: int, *, checks: bool = False) -> None:
        self.limit = limit
        #: Translate each continued request as a whole too, and compare.
        self.checks = checks
        self.bytes = 0
        self._entries: OrderedDict[HistoryKey, tuple[TranslatedHistory, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: HistoryKey) -> TranslatedHistory | None:
        entry = self._entries.get(key)
        return entry[0] if entry else None

    def keep(self, key: HistoryKey, history: TranslatedHistory) -> None:
        """Remember the latest state of a conversation, and forget others if there are too many bytes."""
        size = history.size + len(key.first_item)
        _, known = self._entries.pop(key, (None, 0))
        self.bytes -= known
        if size > self.limit:
            return
        self._entries[key] = history, size
        self.bytes += size
        self._forget_surplus()

    def resize(self, limit: int, *, checks: bool) -> None:
        """Apply a new configuration."""
        self.limit, self.checks = limit, checks
        self._forget_surplus()

    def _forget_surplus(self) -> None:
        while self.bytes > self.limit:
            _, (_, forgotten) = self._entries.popitem(last=False)
            self.bytes -= forgotten


class OwnHistories(msgspec.Struct, frozen=True):
    """The remembered conversations of one caller, for one request."""

    remembered: RememberedHistories
    owner: Hashable
