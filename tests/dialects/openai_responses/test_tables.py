"""The tables of this dialect are complete: every kind of call, block and hosted item has its entry."""

from typing import get_args

from dragoman.dialects.openai_responses import hosted, stream_blocks
from dragoman.dialects.openai_responses.names import CALL_OF_ITEM, CALL_OF_KIND, CALL_OF_OUTPUT
from dragoman.dialects.openai_responses.reasoning import PART_TYPE
from dragoman.hub.blocks import CallKind


def test_every_kind_of_call_has_its_items() -> None:
    assert CALL_OF_KIND.keys() == set(get_args(CallKind))
    assert len(CALL_OF_KIND) == len(CALL_OF_ITEM) == len(CALL_OF_OUTPUT)


def test_every_hosted_item_that_is_read_has_a_common_name_and_events() -> None:
    assert hosted._READERS.keys() == hosted.COMMON_NAMES.keys()
    # What a program or a shell does is an item of its own, without events in between.
    with_steps = hosted.COMMON_NAMES.keys() - hosted.CALLS_WITH_OUTPUT - hosted.OUTPUTS
    assert with_steps <= hosted.STEPS.keys() == hosted.PREFIXES.keys()
    assert hosted.COMMON_NAMES.keys() >= hosted.CALLS_WITH_OUTPUT | hosted.OUTPUTS


def test_every_form_of_reasoning_has_its_events() -> None:
    assert stream_blocks._REASONING_EVENTS.keys() == PART_TYPE.keys()
