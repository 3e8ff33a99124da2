"""A body that continues a known one has the parts that cutting all of it gives."""

import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.forwarding import split_members
from dragoman.dialects.interfaces import HistoryFields
from dragoman.pipeline.split_body import KnownBody, know_body, split_body

FIELDS = HistoryFields(conversation="messages", independent=frozenset({"system"}))
#: Members and items, also such that look like others or have an escaped name.
MEMBERS = (
    b'"model":"m"',
    b'"system":"be brief"',
    b'"messages":[1]',
    b'"note":"\\"messages\\":[1,"',
    b'"\\u006dodel":"n"',
    b'"model": "m"',
    '"né":"日本"'.encode(),
)
ITEMS = (b'{"role":"user"}', b'"],["', b"1", b"[]", b'{ "a" : 1 }', b" 2", b'"\\u00e9"', b'"x","y"')
DAMAGE = (b"", b"]", b",", b" ", b"{", b'"', b"\\", b"\x0b", b'"system":"other",')


def know(body: bytes, count: int) -> KnownBody | None:
    members = split_members(body)
    split = split_body(members, FIELDS) if members else None
    if members is None or split is None or len(split.items) < count or count < 1:
        return None
    return know_body(body, members, split, FIELDS, count, ())


def check_recognised(known: KnownBody, body: bytes) -> bool:
    """Whether the body is recognised. Then its parts must be those of the whole body."""
    found = known.recognise(body)
    if found is None:
        return False
    members = split_members(body)
    assert members is not None
    assert {n: bytes(raw) for n, raw in found.members.items()} == {n: bytes(r) for n, r in members.items()}
    assert list(found.members) == list(members)
    whole = split_body(members, FIELDS)
    assert whole is not None
    assert found.split.items == whole.items
    assert found.split.names == whole.names
    assert (found.split.values, found.split.lengths) == (whole.values, whole.lengths)
    assert not found.is_same or {name: bytes(raw) for name, raw in known.members.items() if raw} == {
        name: bytes(raw) for name, raw in members.items() if name != FIELDS.conversation
    }
    assert {name: bytes(raw) for name, raw in found.split.members.items()} == {
        name: bytes(raw) for name, raw in whole.members.items()
    }
    return True


def build(before: list[bytes], items: list[bytes], after: list[bytes]) -> bytes:
    return b"{" + b",".join([*before, b'"messages":[' + b",".join(items) + b"]", *after]) + b"}"


MEMBER_LISTS = st.lists(st.sampled_from(MEMBERS), max_size=3)
ITEM_LISTS = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=4)


@given(
    MEMBER_LISTS, ITEM_LISTS, MEMBER_LISTS, st.integers(1, 4), ITEM_LISTS, st.randoms(use_true_random=False)
)
def test_a_body_is_recognised_only_with_the_parts_of_the_whole_body(
    before: list[bytes],
    items: list[bytes],
    after: list[bytes],
    count: int,
    more: list[bytes],
    chooser: random.Random,
) -> None:
    known = know(build(before, items, after), count)
    if known is None:
        return
    following = build(before, [*items, *more], after)
    check_recognised(known, following)
    at = chooser.randrange(len(following))
    check_recognised(known, following[:at] + chooser.choice(DAMAGE) + following[at:])
    check_recognised(known, following[:at] + following[at + chooser.randrange(4) :])
    check_recognised(known, build(after, [*items, *more], before))
    check_recognised(known, build(before, [*items, *more], [*after, chooser.choice(MEMBERS)]))


def test_a_growing_body_stays_known() -> None:
    items: list[Any] = [{"role": "user", "content": "begin"}]
    tail = [b'"system":"s"', b'"model":"m"']
    known = know(build([], [msgspec.json.encode(item) for item in items], tail), 1)
    assert known is not None
    size = known.size
    for number in range(100):
        items += [{"role": "assistant", "content": f"{number}"}, {"role": "user", "content": ["next"]}]
        body = build([], [msgspec.json.encode(item) for item in items], tail)
        assert check_recognised(known, body)
        found = known.recognise(body)
        assert found is not None
        # The last message may change with the next request.
        known = known.extend(found.split.items[:-1])
        assert known.split.items == found.split.items[:-1]
        assert known.size == size


def test_a_body_with_other_members_behind_the_conversation_is_recognised() -> None:
    items = [b'{"role":"user","content":"begin"}', b'{"role":"assistant"}']
    known = know(build([b'"model":"m"'], items, [b'"system":"first"', b'"tools":[]']), 1)
    assert known is not None
    for after in ([b'"system":"second"', b'"tools":[]'], [b'"tools":[1]'], []):
        body = build([b'"model":"m"'], [*items, b'{"role":"user"}'], after)
        assert check_recognised(known, body)
        found = known.recognise(body)
        assert found is not None
        assert not found.is_same
    repeated = build([b'"model":"m"'], [*items, b"{}"], [b'"messages":[{}]'])
    assert known.recognise(repeated) is None
    other = build([b'"model":"other"'], [*items, b"{}"], [b'"system":"first"', b'"tools":[]'])
    assert known.recognise(other) is None


def test_a_body_with_white_space_or_a_repeated_member_is_not_known() -> None:
    assert know(b'{"messages":[1,2]}', 1) is not None
    for body in (b'{"messages": [1,2]}', b'{"messages":[1, 2]}', b'{"messages":[1],"messages":[1,2]}'):
        assert know(body, 1) is None
