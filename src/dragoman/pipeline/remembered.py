"""`RememberedHistories`: translated history, within a bound of bytes, separate for each caller.

The key of a conversation contains its owner, so a request never finds what another caller sent. It also
contains the target, and all members of the body that the translation of the history depends on. A request is
compared byte by byte with what is remembered, never by a hash.
"""

from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from dragoman.pipeline.history import ReadHistory, TranslatedHistory

#: Smaller requests are translated in less time than it takes to find them.
MIN_BODY = 8 * 1024

#: Places that are remembered at once.
MAX_PLACES = 1_000


class HistoryKey(msgspec.Struct, frozen=True, cache_hash=True):
    """Finds a conversation with a target. The large members are compared after they were found."""

    #: Whose conversation it is.
    owner: Hashable
    #: The client's dialect.
    dialect: str
    #: Provider, dialect, model, and the governance that changes requests; empty if the conversation is not
    #: translated. None: any target.
    target: Hashable
    #: The members of the body that the history's translation depends on: names and lengths.
    members: tuple[tuple[str, int], ...]
    first_item: bytes


class _Entry(msgspec.Struct, frozen=True, eq=False):
    """A remembered conversation, and what finds it."""

    history: ReadHistory
    size: int
    marks: tuple[Hashable, ...]
    #: Its key for any target, and that for any conversation.
    any_target: HistoryKey
    any_conversation: HistoryKey


class _SharedTools(msgspec.Struct, eq=False):
    """The tools of several conversations of a caller, which are in memory once."""

    size: int
    users: int = 0


class RememberedHistories:
    """All remembered conversations. The longest unused ones are forgotten first.

    Belongs to the event loop, except the methods that only find: a large request is read in a thread.
    """

    def __init__(self, limit: int, *, checks: bool = False) -> None:
        self.limit = limit
        #: Translate each continued request as a whole too, and compare.
        self.checks = checks
        self.bytes = 0
        self._entries: OrderedDict[HistoryKey, _Entry] = OrderedDict()
        #: The last key of each conversation that rules ask about, by the conversation's key for any target.
        self._latest: dict[Hashable, HistoryKey] = {}
        #: The keys of the conversations whose body is known, by what finds it.
        self._marks: dict[Hashable, HistoryKey] = {}
        #: The last key of the conversations with the same target and front, by what finds the front.
        self._fronts: dict[Hashable, HistoryKey] = {}
        #: Where the conversation began in the last body of a caller with the same first bytes.
        self._places: dict[Hashable, int] = {}
        #: The tools in memory, by the identity of their fitted form.
        self._tools: dict[int, _SharedTools] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: HistoryKey) -> ReadHistory | None:
        entry = self._entries.get(key)
        return entry.history if entry else None

    def find_latest(self, key: HistoryKey) -> ReadHistory | None:
        """What is remembered for rules of a conversation with its last target. The key is for any target."""
        latest = self._latest.get(key)
        return self.find(latest) if latest else None

    def find_marked(self, mark: Hashable) -> ReadHistory | None:
        """The history of the last conversation with this mark (`keep`) whose body is known."""
        key = self._marks.get(mark)
        return self.find(key) if key else None

    def find_front(self, key: HistoryKey) -> ReadHistory | None:
        """The last conversation of the same caller and target whose members have the lengths of these.

        It was translated, or at least read.
        """
        last = self._fronts.get(_remove_item(key))
        return self.find(last) if last else None

    def find_place(self, body: bytes, beginning: bytes, first: Hashable) -> int:
        """Where the conversation begins in a body: behind the last `beginning` in it; -1 if there is none.

        `first`: the caller and the first bytes of the body. Bodies with the same often agree up to the
        conversation, so that the search through the whole body is left out. May run in a thread.
        """
        known = self._places.get(first)
        if known is not None and body.startswith(beginning, known):
            return known
        if len(self._places) >= MAX_PLACES:
            self._places.clear()
        # `rfind` takes a quarter of the time if nothing is found.
        self._places[first] = place = body.rfind(beginning)
        return place

    def keep(self, key: HistoryKey, history: ReadHistory, marks: tuple[Hashable, ...] = ()) -> None:
        """Remember the latest state of a conversation, and forget others if there are too many bytes.

        `marks` find the history by `find_marked`, if its body is known.
        """
        size = history.size + len(key.first_item)
        entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(history, size, marks, _replace_target(key), _remove_item(key))
        else:
            self._forget(key)
            entry = _Entry(history, size, marks, entry.any_target, entry.any_conversation)
        self.bytes += size
        self._entries[key] = entry
        self._add_tools(history)
        if history.body is not None:
            self._marks.update(dict.fromkeys(marks, key))
        if history.end.kept is not None:
            self._latest[entry.any_target] = key
        if isinstance(history, TranslatedHistory) or history.end.kept is not None:
            self._fronts[entry.any_conversation] = key
        if size > self.limit:
            self._forget(key)
        self._forget_surplus()

    def _add_tools(self, history: ReadHistory) -> None:
        """Count the tools of a conversation, unless another one has the same."""
        if isinstance(history, TranslatedHistory):
            name = id(history.front.fitted)
            tools = self._tools.get(name)
            if tools is None:
                tools = self._tools[name] = _SharedTools(history.front.tools_size)
                self.bytes += tools.size
            tools.users += 1

    def _remove_tools(self, history: ReadHistory) -> None:
        if isinstance(history, TranslatedHistory):
            name = id(history.front.fitted)
            tools = self._tools[name]
            tools.users -= 1
            if tools.users == 0:
                self.bytes -= tools.size
                del self._tools[name]

    def resize(self, limit: int, *, checks: bool) -> None:
        """Apply a new configuration."""
        self.limit, self.checks = limit, checks
        self._places.clear()
        self._forget_surplus()

    def _forget_surplus(self) -> None:
        while self.bytes > self.limit:
            self._forget(next(iter(self._entries)))

    def _forget(self, key: HistoryKey) -> None:
        entry = self._entries.pop(key)
        self.bytes -= entry.size
        self._remove_tools(entry.history)
        for index, name in (
            (self._latest, entry.any_target),
            *((self._marks, mark) for mark in entry.marks),
            (self._fronts, entry.any_conversation),
        ):
            if index.get(name) == key:
                del index[name]


def _replace_target(key: HistoryKey) -> HistoryKey:
    """The key for any target."""
    return msgspec.structs.replace(key, target=None)


def _remove_item(key: HistoryKey) -> HistoryKey:
    """The key for any conversation."""
    return msgspec.structs.replace(key, first_item=b"")


class OwnHistories(msgspec.Struct, frozen=True):
    """The remembered conversations of one caller, for one request."""

    remembered: RememberedHistories
    owner: Hashable
