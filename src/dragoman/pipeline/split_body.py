"""A request's body, cut into members and items without decoding them.

An agent sends the same body again with a few more messages. A body that begins with the same bytes up to the
end of a remembered item, and ends with the same bytes behind the conversation, has the same members and the
same items before its new ones, because JSON is read from left to right. So of such a body only the bytes
between are cut (`KnownBody`).
"""

from typing import Self

import msgspec

from dragoman.dialects.forwarding import Members
from dragoman.dialects.interfaces import HistoryFields
from dragoman.hub.request import Message
from dragoman.wire.fields import encode

#: Pieces of a known body that are joined: each is compared by a call of its own.
MOST_PIECES = 32

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
    try:
        items = _decode_items(members[fields.conversation])
    except (KeyError, ValueError, RecursionError):
        return None
    rest = {name: raw for name, raw in members.items() if name != fields.conversation}
    names = tuple(name for name in rest if name not in fields.independent)
    values = tuple([bytes(rest[name]) for name in names])
    lengths = tuple(zip(names, map(len, values), strict=True))
    return SplitBody(rest, tuple(map(bytes, items)), names, values, lengths)


class NextBody(msgspec.Struct, frozen=True):
    """A body that was recognised: all its members and its parts."""

    members: Members
    split: SplitBody


class KnownBody(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the next body of a conversation begins and ends with."""

    #: The bytes up to the end of the last remembered item, in pieces, and their number.
    pieces: tuple[bytes, ...]
    length: int
    #: The bytes behind the conversation.
    ending: bytes
    #: The name of the member with the conversation, and where its array starts.
    conversation: str
    start: int
    #: All members in their order; that of the conversation is empty.
    members: Members
    #: The parts; of the items the remembered ones.
    split: SplitBody
    #: The system prompts outside the conversation.
    system: tuple[Message, ...]
    #: The bytes in memory that no other part of the history holds.
    size: int

    def recognise(self, body: bytes) -> NextBody | None:
        """The parts of a next body; None if it is none, or has no new items or white space around them."""
        position = 0
        for piece in self.pieces:
            if not body.startswith(piece, position):
                return None
            position += len(piece)
        end = len(body) - len(self.ending)
        new = body[position:end]
        if not new.startswith(b",") or not body.endswith(self.ending):
            return None
        try:
            items = tuple(map(bytes, _decode_items(b"[" + new[1:])))
        except (ValueError, RecursionError):
            return None
        if len(new) != sum(map(len, items)) + len(items) + 1:
            return None
        split = msgspec.structs.replace(self.split, items=self.split.items + items)
        array = msgspec.Raw(memoryview(body)[self.start : end])
        return NextBody({**self.members, self.conversation: array}, split)

    def extend(self, body: bytes, items: tuple[bytes, ...]) -> Self:
        """What to know of a recognised body. `items`: its first ones, which are remembered."""
        new = items[len(self.split.items) :]
        length = self.length + sum(map(len, new)) + len(new)
        piece = body[self.length : length]
        pieces = (*self.pieces, piece)
        return msgspec.structs.replace(
            self,
            pieces=pieces if len(pieces) <= MOST_PIECES else (b"".join(pieces),),
            length=length,
            split=msgspec.structs.replace(self.split, items=items),
            size=self.size + len(piece),
        )


def know_body(
    body: bytes,
    members: Members,
    split: SplitBody,
    conversation: str,
    count: int,
    system: tuple[Message, ...],
) -> KnownBody | None:
    """What to know of a body with these members; None if it has white space or repeats a member.

    `count`: the number of items that are remembered.
    """
    size, start = 1, 0
    for name, raw in members.items():
        size += len(encode(name)) + 1
        start = size if name == conversation else start
        size += len(bytes(raw)) + 1
    array = bytes(members[conversation])
    # Nothing is shorter than its encoding, so bodies of this size are their own encoding.
    if size != len(body) or len(array) != sum(map(len, split.items)) + len(split.items) + 1:
        return None
    length = start + sum(map(len, split.items[:count])) + count
    ending = body[start + len(array) :]
    known = dict(zip(split.names, split.values, strict=True))
    copied = {name: msgspec.Raw(known.get(name) or bytes(raw)) for name, raw in split.members.items()}
    own = sum(len(bytes(raw)) for name, raw in copied.items() if name not in known)
    return KnownBody(
        pieces=(body[:length],),
        length=length,
        ending=ending,
        conversation=conversation,
        start=start,
        members={name: copied.get(name, msgspec.Raw(b"")) for name in members},
        split=msgspec.structs.replace(split, members=copied, items=split.items[:count]),
        system=system,
        size=length + len(ending) + own,
    )
