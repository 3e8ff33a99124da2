"""Ids that the client can carry on."""

import pytest

from dragoman.fit import fit
from dragoman.fit.ids import SAFE
from dragoman.hub.blocks import ToolCall
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from tests.fit.building import build_message, call, request, result, target_for
from tests.fit.reply.running import call_block, calls_in, reply_of, stages_for, through


def ids_of(asked: Request, upstream: str, *ids: str) -> list[str]:
    plans = [call_block(n, ToolCall(id=call_id, name="Read")) for n, call_id in enumerate(ids)]
    events = reply_of(*plans, cause="tool_calls")
    return [each.id for each in calls_in(through(stages_for(asked, upstream), events))]


FRESH = request(build_message("user", "Hi"), dialect="anthropic")


@pytest.mark.rule("R30")
def test_safe_ids_are_passed_on() -> None:
    assert ids_of(FRESH, "openai_chat", "call_1", "toolu_2") == ["call_1", "toolu_2"]


@pytest.mark.rule("H16", "H17", "P43")
def test_ids_that_are_not_safe_or_not_new_become_so() -> None:
    asked = request(
        build_message("user", "Hi"), build_message("assistant", call("call_0")), dialect="anthropic"
    )
    ids = ids_of(asked, "openai_chat", "call_0", "call_0", "functions.Read:0", "", "x" * 90)
    assert len({*ids, "call_0"}) == 6
    assert all(map(SAFE.fullmatch, ids))


@pytest.mark.rule("H16", "H17")
def test_the_upstream_gets_its_own_id_back() -> None:
    (first,) = ids_of(FRESH, "openai_chat", "functions.Read:0")
    history = (
        build_message("user", "Hi"),
        build_message("assistant", call(first)),
        build_message("user", result(first)),
    )
    again = fit(request(*history, dialect="anthropic"), target_for("openai_chat", "anthropic"), Losses())
    assert isinstance(again.messages[1].blocks[0], ToolCall)
    assert again.messages[1].blocks[0].id == "functions.Read:0"


@pytest.mark.rule("H17")
def test_an_upstream_that_begins_anew_with_each_reply_is_reported_apart_over_messages() -> None:
    asked = FRESH
    for _ in range(3):
        (call_id,) = ids_of(asked, "openai_chat", "call_0")
        messages = (
            *asked.messages,
            build_message("assistant", call(call_id)),
            build_message("user", result(call_id)),
        )
        asked = request(*messages, dialect="anthropic")
    sent = fit(asked, target_for("openai_chat", "anthropic"), Losses())
    ids = [block.id for each in sent.messages for block in each.blocks if isinstance(block, ToolCall)]
    assert len(set(ids)) == 3
    assert ids[0] == "call_0"


def test_a_client_of_the_upstreams_own_dialect_gets_its_ids() -> None:
    asked = request(build_message("user", "Hi"), dialect="openai_chat")
    assert stages_for(asked, "openai_chat") == []


def test_thousands_of_calls_with_one_id_take_linear_time() -> None:
    assert len(set(ids_of(FRESH, "openai_chat", *["call_0"] * 5_000))) == 5_000
