"""Who asks, on what terms, and what no other vendor has words for."""

import msgspec
import pytest

from dragoman.fit.vendor_fields import BOOKKEEPING, REFUSED_EXTRAS
from dragoman.hub.blocks import Opaque, Text, Tool, ToolDeclarations
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, ToolChoice
from tests.fit.building import DIALECTS, FOREIGN, build_message, call, fitted, function, request, result

USER = build_message("user", "Hi")


@pytest.mark.rule("H67")
@pytest.mark.parametrize(
    ("tier", "dialect", "expected"),
    [
        ("flex", "gemini", "flex"),
        ("priority", "openai_chat", "priority"),
        ("default", "anthropic", "standard_only"),
        ("standard_only", "openai_responses", "default"),
        ("default", "gemini", "standard"),
        ("fast", "gemini", "priority"),
        ("auto", "gemini", ""),
    ],
)
def test_a_service_tier_goes_by_the_targets_name(tier: str, dialect: str, expected: str) -> None:
    after, losses = fitted(request(USER, service_tier=tier), dialect)
    assert (after.service_tier, losses) == (expected, [])


@pytest.mark.rule("H67")
def test_a_tier_that_the_target_does_not_have_is_a_loss() -> None:
    after, losses = fitted(request(USER, service_tier="flex"), "anthropic")
    assert after.service_tier == ""
    assert losses == ["service_tier: the target has no tier 'flex'"]


@pytest.mark.rule("H68")
def test_a_plain_user_id_is_passed_on_and_a_bundle_of_ids_is_not() -> None:
    assert fitted(request(USER, user="alice"), "anthropic")[0].user == "alice"
    bundle = '{"device_id":"d","account_uuid":"a","session_id":"' + "s" * 36 + '"}'
    after, losses = fitted(request(USER, user=bundle), "openai_chat")
    assert after.user.startswith("user_")
    assert len(after.user) <= 64
    assert losses == []


@pytest.mark.rule("H68")
def test_metadata_stay_with_the_clients_own_vendor() -> None:
    after, losses = fitted(request(USER, metadata={"team": "x"}), "openai_chat")
    assert after.metadata is None
    assert losses == ["metadata: metadata stays with the client's own vendor"]


@pytest.mark.rule("H4", "H62")
def test_what_codex_always_asks_for_is_no_loss() -> None:
    asked = request(USER, store=False, include=("reasoning.encrypted_content",), dialect="openai_responses")
    after, losses = fitted(asked, "openai_chat")
    assert (after.store, losses) == (None, [])
    _, losses = fitted(request(USER, store=True, include=("x",)), "openai_chat")
    assert [loss.split(":")[0] for loss in losses] == ["store", "include"]


@pytest.mark.rule("H62")
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_an_earlier_response_is_nothing_to_another_vendor(source: str, target: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        fitted(request(USER, previous_response_id="resp_1", dialect=source), target)
    assert caught.value.status == 400
    assert "whole conversation" in caught.value.failure.message


@pytest.mark.rule("H62", "H63")
@pytest.mark.parametrize("field", ["background", "conversation", "prompt"])
def test_fields_that_cannot_be_ignored_are_refused_with_advice(field: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        fitted(request(USER, extras={field: {"id": "x"}}, dialect="openai_responses"), "anthropic")
    assert caught.value.path == field
    assert caught.value.hint
    home = request(USER, extras={field: True}, dialect="openai_responses")
    assert fitted(home, "openai_responses")[0] is home


@pytest.mark.rule("H63")
@pytest.mark.parametrize("value", [False, None])
@pytest.mark.parametrize("field", REFUSED_EXTRAS)
@pytest.mark.parametrize(("source", "target"), FOREIGN)
def test_a_field_that_states_no_is_no_demand(source: str, target: str, field: str, value: object) -> None:
    plain, _ = fitted(request(USER, dialect=source), target)
    after, losses = fitted(request(USER, extras={field: value}, dialect=source), target)
    assert msgspec.structs.replace(after, extras={}) == plain
    assert losses == []
    with pytest.raises(ClientProtocolError):
        fitted(request(USER, extras={field: True}, dialect=source), target)


@pytest.mark.rule("H62")
def test_a_reference_to_a_stored_item_is_refused() -> None:
    asked = request(
        build_message("user", Opaque(kind="item_reference", value={}, at="input[0]")),
        dialect="openai_responses",
    )
    with pytest.raises(ClientProtocolError, match=r"input\[0\]"):
        fitted(asked, "openai_chat")


@pytest.mark.rule("H37", "H48", "H51", "H58", "H64")
def test_every_field_that_stays_behind_is_named() -> None:
    asked = request(
        Message(
            role="user",
            blocks=(Text(text="Hi", at="m[0].c[0]", extras={"citations": {"enabled": True}}),),
            at="m[0]",
            extras={"name": "bob"},
        ),
        build_message("assistant", call("1")),
        build_message("tool", result("1", Text(text="a", at="m[2].c[0]", extras={"odd": 1}))),
        build_message(
            "developer", ToolDeclarations(tools=(function("late", at="m[3].t[0]", extras={"async": True}),))
        ),
        tools=(function("a", at="tools[0]", extras={"output_schema": {"a": 1}}),),
        tool_choice=ToolChoice(mode="auto", extras={"odd": 1}),
        reasoning=ReasoningSettings(effort="low", extras={"context": "all_turns"}),
        output=OutputFormat(kind="text", extras={"odd": 1}),
        extras={"context_management": {"edits": []}},
        paths={"output": "text.format"},
    )
    _, losses = fitted(asked, "openai_chat")
    assert {loss.split(": ")[0] for loss in losses} == {
        "context_management",
        "tool_choice.odd",
        "reasoning.context",
        "text.format.odd",
        "tools[0].output_schema",
        "m[0].name",
        "m[0].c[0].citations",
        "m[2].c[0].odd",
        "m[3].t[0].async",
    }


def test_bookkeeping_and_fields_that_are_empty_are_no_losses() -> None:
    extras: dict[str, object] = {
        **dict.fromkeys(BOOKKEEPING, "x"),
        "@note": 1,
        "nothing": None,
        "no": False,
        "none": [],
    }
    asked = request(Message(role="user", blocks=(Text(text="Hi", extras=extras),), extras=extras))
    assert fitted(asked, "openai_chat")[1] == []


@pytest.mark.rule("H23")
def test_what_a_group_of_tools_states_of_itself_is_a_loss() -> None:
    tool = Tool(
        name="a",
        namespace="n",
        schema={"type": "object", "properties": {}},
        description="It.",
        at="tools[3].tools[0]",
        extras={"@namespace": {"description": "All about n."}},
    )
    _, losses = fitted(request(USER, tools=(tool,)), "openai_chat")
    assert losses == ["tools[3].description: no other dialect describes groups of tools"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_at_home_extras_are_no_losses(dialect: str) -> None:
    asked = request(USER, extras={"odd": 1}, metadata={"a": 1}, user="u" * 100, store=True, dialect=dialect)
    after, losses = fitted(asked, dialect)
    assert after is asked
    assert losses == []


@pytest.mark.rule("R131")
def test_the_model_is_called_what_the_target_calls_it() -> None:
    assert fitted(request(USER), "openai_chat", model="big")[0].model == "big"
    assert fitted(request(USER), "openai_chat")[0].model == "m"
