"""The unions of the hub are closed, and every table over them is complete."""

from typing import get_args

from dragoman.hub.blocks import AnyBlock, Block, ReplyBlock, Tool
from dragoman.hub.builder import _DELTA_OF_BLOCK
from dragoman.hub.events import DELTAS, EVENT_KINDS, Event
from dragoman.hub.reply_grammar import BLOCK_DELTAS, REPLY_MOVES, ReplyPhase
from dragoman.hub.tally import TALLY_EVENTS


def test_every_event_class_is_in_the_union() -> None:
    assert set(Event.__subclasses__()) == EVENT_KINDS


def test_every_block_class_is_in_the_union() -> None:
    # A tool is declared, not part of a message; it shares the fields of blocks.
    assert {*Block.__subclasses__()} - {Tool} == set(get_args(AnyBlock))
    assert set(get_args(ReplyBlock)) < set(get_args(AnyBlock))


def test_the_grammar_has_a_rule_for_every_event() -> None:
    assert REPLY_MOVES.keys() == set(ReplyPhase)
    assert {kind for moves in REPLY_MOVES.values() for kind in moves} == EVENT_KINDS


def test_the_grammar_has_a_rule_for_every_block_of_a_reply() -> None:
    assert BLOCK_DELTAS.keys() == set(get_args(ReplyBlock))
    assert {kind for accepted in BLOCK_DELTAS.values() for kind in accepted} == DELTAS


def test_a_block_accepts_text_in_at_most_one_kind_of_delta() -> None:
    assert {kind: accepted & set(_DELTA_OF_BLOCK.values()) for kind, accepted in BLOCK_DELTAS.items()} == {
        kind: {_DELTA_OF_BLOCK[kind]} if kind in _DELTA_OF_BLOCK else set() for kind in BLOCK_DELTAS
    }


def test_a_tally_counts_no_deltas() -> None:
    assert TALLY_EVENTS < EVENT_KINDS
    assert TALLY_EVENTS.isdisjoint(DELTAS)
