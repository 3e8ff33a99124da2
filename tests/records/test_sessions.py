"""The session of a conversation whose requests do not name it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents import ClientIdentity
from dragoman.dialects.forwarding import split_members
from dragoman.records import sessions
from dragoman.records.sessions import find_session

TEXT = st.text(alphabet='ab{},[]"\\', max_size=12)
BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        "content": TEXT | st.lists(BLOCK, max_size=4),
    }
)
VALUE = st.none() | TEXT | MESSAGE | st.lists(MESSAGE, max_size=2)


def find(body: dict[str, Any], indent: int = 0) -> str:
    encoded = msgspec.json.encode(body)
    encoded = msgspec.json.format(encoded, indent=indent) if indent else encoded
    return find_session(ClientIdentity(), split_members(encoded), "caller")


@given(st.lists(MESSAGE | VALUE, max_size=6), st.integers(0, 2), st.integers(1, 200))
def test_the_items_of_a_list_are_read_one_by_one(items: list[object], indent: int, beginning: int) -> None:
    array = msgspec.json.format(msgspec.json.encode(items), indent=indent - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "MAX_BEGINNING", beginning)
        assert list(sessions._read_items(array)) == items


@given(st.lists(MESSAGE, max_size=3), st.lists(MESSAGE, max_size=4), st.integers(0, 2))
def test_the_requests_of_a_conversation_have_the_same_session(
    before: list[dict[str, Any]], after: list[object], indent: int
) -> None:
    block = {"type": "text", "text": "the task"}
    first = {"role": "user", "content": [block]}
    marked = {"role": "user", "content": [{**block, "cache_control": {"type": "ephemeral"}}]}
    before = [{**each, "role": "system"} for each in before]
    named = find({"messages": [*before, marked]}, indent)
    assert named == find({"model": "m", "messages": [*before, first, *after]})
    assert named != find({"messages": [*before, {"role": "user", "content": "another task"}, *after]})
