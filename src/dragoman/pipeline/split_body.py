"""A request's body, cut into members and items without decoding them.

An agent sends the same body again with a few more messages. A body that begins with the same bytes up to the
end of a remembered item has the same members and items so far, because JSON is read from left to right. So
only the bytes behind them are cut, and of these only the new items if the rest is the same too (`KnownBody`).
"""

from itertools import takewhile
from typing import Self

import msgspec

from dragoman.dialects.forwarding import Members, split_members
from dragoman.dialects.interfaces import HistoryFields
from dragoman.hub.request import Message
from dragoman.wire.fields import encode

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SplitBody(msgspec.Struct, frozen=True):
    """A request's body, not decoded: the members but the conversation, and the conversation's items."""

    members: Members
    items: tuple[bytes, ...]
    #: The names and values of the members that the translation of the history depends on.
    names: tuple[str, ...]
    values: tuple[bytes, ...]
    #: The names and lengths of these.
    lengths: tuple[tuple[str, int], ...]


def split_body(members: Members, fields: HistoryFields) -> SplitBody | None:
    """Cut the conversation of a body into items. None if it has none."""
    items = _cut_items(members[fields.conversation]) if fields.conversation in members else None
    if items is None:
        return None
    rest = {name: raw for name, raw in members.items() if name != fields.conversation}
    names = tuple(name for name in rest if name not in fields.independent)
    values = tuple([bytes(rest[name]) for name in names])
    lengths = tuple(zip(names, map(len, values), strict=True))
    return SplitBody(rest, items, names, values, lengths)


def _cut_items(array: bytes | msgspec.Raw) -> tuple[bytes, ...] | None:
    """The items of a JSON array; None if it is none."""
    try:
        return tuple(map(bytes, _decode_items(array)))
    except (ValueError, RecursionError):
        return None


def _measure_items(items: tuple[bytes, ...]) -> int:
    """The length of an array of these items without white space between them."""
    return sum(map(len, items)) + len(items) + 1


def _measure_members(members: Members) -> int:
    """The length of an object with these members without white space between them.

    Without members, that of its beginning.
    """
    return 1 + sum(len(encode(name)) + len(memoryview(raw)) + 2 for name, raw in members.items())


class NextBody(msgspec.Struct, frozen=True):
    """A body that was recognised: all its members and its parts."""

    members: Members
    split: SplitBody
    #: All members but the conversation are those of the known body.
    is_same: bool
    #: Everything behind the known items, or what is between them and the known ending.
    new: bytes


class UnreadText(msgspec.Struct, frozen=True):
    """The most that items which were not read can add to the text of a prompt."""

    #: Characters, and objects: each message, call and result is one.
    length: int = 0
    objects: int = 0
    is_ascii: bool = True
    #: No length bounds its tokens.
    has_media: bool = False

    def __add__(self, other: "UnreadText") -> "UnreadText":
        return UnreadText(
            self.length + other.length,
            self.objects + other.objects,
            self.is_ascii and other.is_ascii,
            self.has_media or other.has_media,
        )


class KnownBody(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the next body of a conversation begins and ends with."""

    #: The bytes before the first item, and those behind the conversation.
    head: bytes
    ending: bytes
    fields: HistoryFields
    #: All members in their order; that of the conversation is empty.
    members: Members
    #: The parts; of the items the remembered ones.
    split: SplitBody
    #: The system prompts outside the conversation.
    system: tuple[Message, ...]
    #: The bytes in memory that no other part of the history holds.
    size: int
    #: Words that are neither in these bytes nor in the known items (`BodySearch`).
    absent: frozenset[bytes] = frozenset()
    #: Words that are not in these bytes.
    front_absent: frozenset[bytes] = frozenset()
    #: The known items that were not read.
    unread: UnreadText = UnreadText()

    def recognise(self, body: bytes) -> NextBody | None:
        """The parts of a next body; None if it is none, or has no new items or white space around them."""
        # One comparison of joined items takes a quarter of the time of one for each item.
        items = b",".join((*self.split.items, b""))
        start = len(self.head)
        first = start + len(items)
        if not body.startswith(self.head) or not body.startswith(items, start):
            return None
        is_same = body.endswith(self.ending)
        new = body[first : len(body) - len(self.ending)] if is_same else body[first:]
        found = self._cut_same(new) if is_same else self._cut_changed(new)
        if found is None:
            return None
        members, split, length = found
        if not split.items or length != _measure_items(split.items):
            return None
        array = msgspec.Raw(memoryview(body)[start - 1 : first + length - 1])
        return NextBody(
            {**members, self.fields.conversation: array},
            msgspec.structs.replace(split, items=self.split.items + split.items),
            is_same,
            new,
        )

    def _cut_same(self, new: bytes) -> tuple[Members, SplitBody, int] | None:
        """The members of a body that ends like this one, its parts and the length of its conversation.

        Of the items only the new ones.
        """
        array = b"[" + new
        items = _cut_items(array)
        if items is None:
            return None
        return self.members, msgspec.structs.replace(self.split, items=items), len(array)

    def _cut_changed(self, new: bytes) -> tuple[Members, SplitBody, int] | None:
        """The same for a body that ends in another way: Claude Code changes a line of its system prompt."""
        rest = self.head + new
        members = split_members(rest)
        # A repeated member could be the conversation.
        if members is None or _measure_members(members) != len(rest):
            return None
        split = split_body(members, self.fields)
        if split is None:
            return None
        return members, split, len(memoryview(members[self.fields.conversation]))

    def add_items(self, items: tuple[bytes, ...], unread: UnreadText) -> Self:
        """The same. Those of the items that were not known are in memory only here."""
        split = msgspec.structs.replace(self.split, items=self.split.items + items)
        size = self.size + sum(map(len, items))
        return msgspec.structs.replace(self, split=split, size=size, unread=self.unread + unread)

    def extend(self, items: tuple[bytes, ...]) -> Self:
        """What to know of a recognised body. `items`: its first ones, which are remembered."""
        split = msgspec.structs.replace(self.split, items=items)
        return msgspec.structs.replace(self, split=split, unread=UnreadText())


def know_body(
    body: bytes,
    members: Members,
    split: SplitBody,
    fields: HistoryFields,
    count: int,
    system: tuple[Message, ...],
) -> KnownBody | None:
    """What to know of a body with these members; None if it has white space or repeats a member.

    `count`: the number of items that are remembered.
    """
    array = bytes(members[fields.conversation])
    # Nothing is shorter than its encoding, so bodies of this size are their own encoding.
    if _measure_members(members) != len(body) or len(array) != _measure_items(split.items):
        return None
    before = takewhile(lambda member: member[0] != fields.conversation, members.items())
    start = _measure_members(dict(before)) + len(encode(fields.conversation)) + 1
    known = dict(zip(split.names, split.values, strict=True))
    copied = {name: msgspec.Raw(known.get(name) or bytes(raw)) for name, raw in split.members.items()}
    own = sum(len(bytes(raw)) for name, raw in copied.items() if name not in known)
    return KnownBody(
        head=(head := body[: start + 1]),
        ending=(ending := body[start + len(array) :]),
        fields=fields,
        members={name: copied.get(name, msgspec.Raw(b"")) for name in members},
        split=msgspec.structs.replace(split, members=copied, items=split.items[:count]),
        system=system,
        size=len(head) + len(ending) + own,
    )
