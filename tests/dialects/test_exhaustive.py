"""Every table of handlers by the kind of block or event has a handler for each kind of its union."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import get_args

import pytest

from dragoman import dialects
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.blocks import AnyBlock, ReplyBlock
from dragoman.hub.events import EVENT_KINDS

ANY_BLOCKS = frozenset(get_args(AnyBlock))
REPLY_BLOCKS = frozenset(get_args(ReplyBlock))


def _list_tables() -> Iterator[tuple[str, frozenset[type]]]:
    """The tables of functions whose keys are kinds of block or event: their names and keys."""
    for found in pkgutil.walk_packages(dialects.__path__, f"{dialects.__name__}."):
        for name, value in vars(importlib.import_module(found.name)).items():
            if not isinstance(value, dict) or not value or not all(map(callable, value.values())):
                continue
            kinds = frozenset(key for key in value if isinstance(key, type))
            if kinds & (ANY_BLOCKS | EVENT_KINDS):
                yield f"{found.name}.{name}", kinds


TABLES = dict(_list_tables())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_handler_for_every_kind_of_its_union(name: str) -> None:
    assert TABLES[name] in (EVENT_KINDS, ANY_BLOCKS, REPLY_BLOCKS)


def test_the_tables_of_events_are_found() -> None:
    owners = {name.split(".")[2] for name, kinds in TABLES.items() if kinds == EVENT_KINDS}
    assert owners == set(DIALECTS)


def test_the_blocks_of_a_reply_are_blocks() -> None:
    assert REPLY_BLOCKS < ANY_BLOCKS
