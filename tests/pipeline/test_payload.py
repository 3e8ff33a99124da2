"""Edits of a payload change the values at their paths, and nothing else."""

from copy import deepcopy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.loss import Losses
from dragoman.pipeline.payload import PayloadRule, edit_payload

Document = dict[str, object]

NAMES = st.text("abc", min_size=1, max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(NAMES | st.sampled_from(["0", "1", "-1"]), min_size=1, max_size=3).map(".".join)
MISSING = object()


def edit(document: Document, *rules: PayloadRule, losses: Losses | None = None) -> Document:
    body = edit_payload(msgspec.json.encode(document), rules, Losses() if losses is None else losses)
    return msgspec.json.decode(body, type=Document)


def read(value: object, path: str) -> object:
    """The value at a path, read independently of the editor."""
    for segment in path.split("."):
        try:
            value = value[int(segment)] if isinstance(value, list) else value[segment]  # type: ignore[index]  # any JSON
        except (KeyError, IndexError, TypeError, ValueError):
            return MISSING
    return value


@given(DOCUMENTS, PATHS, VALUES)
def test_a_value_that_is_set_is_there(document: Document, path: str, value: object) -> None:
    losses = Losses()
    edited = edit(document, PayloadRule(set={path: value}), losses=losses)
    if losses:
        assert msgspec.json.encode(read(edited, path)) == msgspec.json.encode(value)
    else:
        # Nothing to change, or the path leads through a text, a number or an item that does not exist.
        assert edited == document
        assert read(document, path) in (value, MISSING)


@given(DOCUMENTS, st.lists(NAMES, min_size=1, max_size=1), VALUES)
def test_a_member_can_always_be_set_and_removed(document: Document, names: list[str], value: object) -> None:
    path = names[0]
    assert read(edit(document, PayloadRule(set={path: value})), path) == value
    others = {name: each for name, each in document.items() if name != path}
    assert edit(document, PayloadRule(remove=(path,))) == others


@given(DOCUMENTS, PATHS)
def test_a_removal_leaves_everything_else(document: Document, path: str) -> None:
    found = read(document, path)
    edited = edit(document, PayloadRule(remove=(path,)))
    if found is MISSING:
        assert edited == document
        return
    expected = deepcopy(document)
    parent, _, last = path.rpartition(".")
    holder = read(expected, parent) if parent else expected
    if isinstance(holder, list):
        del holder[int(last)]
    else:
        assert isinstance(holder, dict)
        del holder[last]
    assert edited == expected


@given(DOCUMENTS, PATHS, VALUES)
def test_a_default_never_replaces_a_value(document: Document, path: str, value: object) -> None:
    edited = edit(document, PayloadRule(default={path: value}))
    found = read(document, path)
    assert edited == document if found is not MISSING else read(edited, path) in (value, MISSING)


@given(DOCUMENTS, PATHS)
def test_without_a_change_the_bytes_stay(document: Document, path: str) -> None:
    body = msgspec.json.format(msgspec.json.encode(document))
    losses = Losses()
    result = edit_payload(body, [PayloadRule(remove=(path,), when_present="zz")], losses)
    assert result is body
    assert not losses


def test_every_item_of_a_list_can_be_meant() -> None:
    document: Document = {"tools": [{"strict": True, "name": "a"}, {"name": "b"}], "n": [1, 2, 3]}
    edited = edit(document, PayloadRule(remove=("tools.*.strict", "n.*"), default={"tools.*.kind": "x"}))
    assert edited == {"tools": [{"name": "a", "kind": "x"}, {"name": "b", "kind": "x"}], "n": []}


def test_later_edits_see_earlier_ones_and_do_not_change_the_rule() -> None:
    first = PayloadRule(set={"thinking": {"type": "enabled"}})
    second = PayloadRule(set={"thinking.budget": 5}, remove=("tools",), when_present="thinking.type")
    assert edit({"tools": []}, first, second) == {"thinking": {"type": "enabled", "budget": 5}}
    assert first.set == {"thinking": {"type": "enabled"}}


@pytest.mark.parametrize(
    ("rule", "loss"),
    [
        (PayloadRule(set={"a": True}), "a: set by a payload rule"),
        (PayloadRule(default={"b": 1}), "b: added by a payload rule"),
        (PayloadRule(remove=("a",)), "a: removed by a payload rule"),
    ],
)
def test_every_change_is_a_loss(rule: PayloadRule, loss: str) -> None:
    losses = Losses()
    edit({"a": 1}, rule, losses=losses)
    assert [str(each) for each in losses] == [loss]
