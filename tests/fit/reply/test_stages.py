"""All stages together, as a client and an upstream call for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit import ClientTraits, Restoration, build_reply_stages, build_restoration
from dragoman.fit.arguments import ArgumentsStage
from dragoman.fit.ids import IdsStage
from dragoman.fit.names import NamesStage
from dragoman.fit.seals import SealsStage
from dragoman.fit.stops import StopsStage
from dragoman.hub.blocks import Tool
from dragoman.hub.events import ReplyEvent
from dragoman.hub.fold import fold
from dragoman.hub.request import Request
from tests.dialects.strategies import replies
from tests.fit.building import DIALECTS, build_message, function, request, target_for
from tests.fit.reply.running import ANTHROPIC, recut, through
from tests.fit.strategies import requests

traits = st.builds(ClientTraits, seals_on_calls=st.booleans(), object_arguments=st.booleans())


def test_the_order_of_the_stages() -> None:
    asked = request(
        build_message("user", "Hi"),
        tools=(function("a.b"), Tool(name="patch", kind="custom")),
        stop=tuple("abcdef"),
        dialect="anthropic",
    )
    stages = build_reply_stages(
        build_restoration(asked, target_for("openai_chat", "anthropic")), client=ANTHROPIC
    )
    assert list(map(type, stages)) == [IdsStage, NamesStage, StopsStage, SealsStage, ArgumentsStage]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_home_there_is_nothing_to_undo_and_only_arguments_are_watched(dialect: str) -> None:
    tools = (function("Read"), Tool(name="patch", kind="custom"), Tool(name="shell", kind="shell"))
    asked = request(build_message("user", "Hi"), tools=tools, stop=("a",), dialect=dialect)
    found = build_restoration(asked, target_for(dialect, dialect))
    assert found == Restoration(foreign=False)
    assert list(map(type, build_reply_stages(found, client=ANTHROPIC))) == [ArgumentsStage]


def test_a_restoration_is_the_same_each_time() -> None:
    asked = request(
        build_message("user", "Hi"), tools=(function("a.b"), function("a:b")), dialect="anthropic"
    )
    target = target_for("openai_chat", "anthropic")
    assert build_restoration(asked, target) == build_restoration(asked, target)


@settings(max_examples=100)
@given(requests(), replies(), traits, st.sampled_from(DIALECTS), st.data())
def test_whatever_was_asked_and_answered_the_grammar_holds_and_pieces_do_not_matter(
    asked: Request, events: list[ReplyEvent], client: ClientTraits, upstream: str, data: st.DataObject
) -> None:
    found = build_restoration(asked, target_for(upstream, asked.dialect))
    out = through(build_reply_stages(found, client=client), events)
    again = through(build_reply_stages(found, client=client), data.draw(recut(events)))
    assert fold(again) == fold(out)


@settings(max_examples=60)
@given(requests(), replies(), traits, st.sampled_from(DIALECTS))
def test_what_a_stage_states_it_passes_it_gives_back_as_it_is(
    asked: Request, events: list[ReplyEvent], client: ClientTraits, upstream: str
) -> None:
    found = build_restoration(asked, target_for(upstream, asked.dialect))
    for stage in build_reply_stages(found, client=client):
        after: list[ReplyEvent] = []
        for event in events:
            passing = type(event) in stage.unchanged_kinds
            out = stage.feed(event)
            assert not passing or (len(out) == 1 and out[0] is event)
            after += out
        events = after
