"""Calls and results side by side, whatever the client's history looks like."""

import pytest

from dragoman.hub.blocks import HostedCall, HostedResult, Media, Opaque, Refusal, Text, ToolCall, ToolResult
from tests.fit.building import build_message, call, fitted, request, result, shape, thought

USER = build_message("user", "Hi")


@pytest.mark.rule("R32", "R33", "R38", "R39")
def test_results_of_parallel_calls_stand_in_one_message_in_the_order_of_the_calls() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1"), call("2")),
        build_message("tool", result("2", "b")),
        build_message("tool", result("1", "a")),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages) == [
        ["user", "Hi"],
        ["assistant", "call 1", "call 2"],
        ["tool", "result 1: a", "result 2: b"],
    ]
    assert losses == []


@pytest.mark.rule("R34", "C4", "P37", "H19")
def test_text_beside_results_comes_after_them() -> None:
    asked = request(
        USER, build_message("assistant", call("1")), build_message("user", "and now", result("1", "a"))
    )
    assert shape(fitted(asked, "openai_chat")[0].messages)[2:] == [
        ["tool", "result 1: a"],
        ["user", "and now"],
    ]
    assert shape(fitted(asked, "anthropic")[0].messages)[2:] == [["user", "result 1: a", "and now"]]


@pytest.mark.rule("R41", "R36")
def test_a_message_of_results_alone_leaves_no_empty_message_behind() -> None:
    asked = request(USER, build_message("assistant", call("1")), build_message("user", result("1", "a"), ""))
    assert [each.role for each in fitted(asked, "openai_chat")[0].messages] == ["user", "assistant", "tool"]


@pytest.mark.rule("P25", "H41")
def test_calls_that_came_in_messages_of_their_own_are_one_message() -> None:
    asked = request(
        USER,
        build_message("assistant", thought("why", "openai_responses")),
        build_message("assistant", call("1")),
        build_message("assistant", call("2")),
        build_message("tool", result("1", "a")),
        build_message("tool", result("2", "b")),
        dialect="gemini",
    )
    assert shape(fitted(asked, "openai_responses")[0].messages)[1:] == [
        ["assistant", "thought why", "call 1", "call 2"],
        ["tool", "result 1: a", "result 2: b"],
    ]


@pytest.mark.rule("P26")
def test_text_between_a_call_and_its_result_is_folded_into_the_call() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1")),
        build_message("assistant", "wait"),
        build_message("tool", result("1", "a")),
    )
    assert shape(fitted(asked, "openai_chat")[0].messages)[1:] == [
        ["assistant", "call 1", "wait"],
        ["tool", "result 1: a"],
    ]


@pytest.mark.rule("R40", "H19")
def test_one_call_after_another_stays_one_after_another() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
        build_message("assistant", call("2")),
        build_message("tool", result("2", "b")),
    )
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


@pytest.mark.rule("H19", "H38")
@pytest.mark.parametrize("role", ["system", "user"])
def test_nothing_stands_between_a_call_and_its_result(role: str) -> None:
    between = build_message("system", "note") if role == "system" else build_message("user", "note")
    asked = request(
        USER, build_message("assistant", call("1")), between, build_message("tool", result("1", "a"))
    )
    assert shape(fitted(asked, "openai_chat")[0].messages)[1:] == [
        ["assistant", "call 1"],
        ["tool", "result 1: a"],
        [role, "note"],
    ]


@pytest.mark.rule("P23")
def test_a_second_result_for_a_call_is_dropped() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a"), result("1", "again")),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[2:] == [["tool", "result 1: a"]]
    assert losses == ["result 1: the call already has a result"]


@pytest.mark.rule("P24")
def test_a_call_that_came_twice_is_sent_once() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1")),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[1:] == [["assistant", "call 1"], ["tool", "result 1: a"]]
    assert losses == ["call 1: the same call is there twice"]


@pytest.mark.rule("R42", "H18")
def test_a_result_without_a_call_is_kept_as_the_users_text() -> None:
    asked = request(USER, build_message("tool", result("9", "found it")))
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages) == [
        ["user", "Hi"],
        ["user", "[result of an unknown tool call]", "\n\nfound it"],
    ]
    assert losses == ["result 9: a result without a call became text"]


@pytest.mark.rule("R42", "H18")
def test_a_call_without_a_result_gets_a_stand_in() -> None:
    asked = request(
        USER,
        build_message("assistant", call("1"), call("2")),
        build_message("tool", result("2", "b")),
        build_message("user", "stop"),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[2:] == [
        ["tool", "result 1: [no result: interrupted]", "result 2: b"],
        ["user", "stop"],
    ]
    assert losses == ["call 1: the call has no result, so a placeholder was added"]


@pytest.mark.rule("R42", "H18", "H44")
def test_calls_at_the_very_end_are_answered_too() -> None:
    after, _ = fitted(request(USER, build_message("assistant", call("1"))), "anthropic")
    assert shape(after.messages)[2:] == [["user", "result 1: [no result: interrupted]"]]


@pytest.mark.rule("H17", "H18")
def test_a_result_belongs_to_the_latest_call_with_its_id() -> None:
    asked = request(
        USER,
        build_message("assistant", call("0")),
        build_message("tool", result("0", "first")),
        build_message("assistant", call("0", arguments='{"again":1}')),
        build_message("tool", result("0", "second")),
    )
    after, losses = fitted(asked, "openai_chat")
    texts = [str(block) for each in after.messages if each.role == "tool" for block in each.blocks]
    assert "first" in texts[0]
    assert "second" in texts[1]
    assert losses == []


@pytest.mark.rule("H17", "P23")
def test_a_second_result_does_not_reach_back_to_an_older_call_with_its_id() -> None:
    asked = request(
        USER,
        build_message("assistant", call("0")),
        build_message("user", "stop"),
        build_message("assistant", call("0", arguments='{"again":1}')),
        build_message("tool", result("0", "first"), result("0", "twice")),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[2] == ["tool", "result 0: [no result: interrupted]"]
    assert "result 0: the call already has a result" in losses


@pytest.mark.rule("H21", "R39")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_an_error_is_reported_in_the_text_where_there_is_no_flag(dialect: str) -> None:
    asked = request(
        USER,
        build_message("assistant", call("1"), call("2")),
        build_message("tool", result("1", "no such file", is_error=True), result("2", is_error=True)),
    )
    (first, second, *_) = fitted(asked, dialect)[0].messages[2].blocks
    assert isinstance(first, ToolResult)
    assert isinstance(second, ToolResult)
    assert (first.is_error, first.content) == (False, (Text(text="[tool error] no such file"),))
    assert [block.text for block in second.content if isinstance(block, Text)] == ["[tool error]"]


@pytest.mark.rule("H21")
def test_a_flag_is_kept_where_there_is_one() -> None:
    asked = request(
        USER, build_message("assistant", call("1")), build_message("tool", result("1", "no", is_error=True))
    )
    (answer,) = fitted(asked, "anthropic")[0].messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.is_error


@pytest.mark.rule("C2", "R35")
def test_unknown_blocks_inside_a_result_are_shown_as_they_are() -> None:
    strange = Opaque(kind="chart", value={"type": "chart", "n": 1})
    known = Opaque(kind="search_result", value={}, text="A page.")
    asked = request(
        USER, build_message("assistant", call("1")), build_message("tool", result("1", strange, known))
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[2] == ["tool", 'result 1: {"type":"chart","n":1} A page.']
    assert losses == []


@pytest.mark.rule("R43")
def test_an_empty_result_is_legal() -> None:
    asked = request(USER, build_message("assistant", call("1")), build_message("tool", result("1")))
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


@pytest.mark.rule("H19")
def test_gemini_gets_the_name_of_the_tool_again() -> None:
    asked = request(USER, build_message("assistant", call("1", "Read")), build_message("tool", result("1")))
    (answer,) = fitted(asked, "gemini")[0].messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.name == "Read"


@pytest.mark.rule("R29", "H43")
def test_messages_that_are_empty_are_dropped() -> None:
    asked = request(
        USER,
        build_message("assistant", thought("hm", "gemini")),
        build_message("user", ""),
        build_message("user", "Go on"),
    )
    assert shape(fitted(asked, "openai_chat")[0].messages) == [["user", "Hi"], ["user", "Go on"]]


@pytest.mark.rule("R31")
def test_the_only_message_may_be_empty() -> None:
    asked = request(build_message("system", "Be brief."), build_message("user", ""))
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


@pytest.mark.rule("H43")
def test_blanks_are_nothing_to_anthropic() -> None:
    asked = request(USER, build_message("assistant", "\n\n", call("1")), build_message("tool", result("1")))
    assert shape(fitted(asked, "anthropic")[0].messages)[1] == ["assistant", "call 1"]
    assert shape(fitted(asked, "openai_chat")[0].messages)[1] == ["assistant", "\n\n", "call 1"]


@pytest.mark.rule("H41", "C13")
def test_texts_of_merged_messages_do_not_run_into_each_other_where_they_are_joined() -> None:
    asked = request(
        USER,
        build_message("assistant", "One."),
        build_message("assistant", "Two."),
        build_message("user", "Go on"),
    )
    assert shape(fitted(asked, "openai_chat")[0].messages)[1] == ["assistant", "One.", "\n\nTwo."]
    assert shape(fitted(asked, "anthropic")[0].messages)[1] == ["assistant", "One.", "Two."]


@pytest.mark.rule("H28")
def test_what_a_vendors_own_tool_did_becomes_text() -> None:
    asked = request(
        USER,
        build_message(
            "assistant",
            HostedCall(id="s", tool="web_search", arguments='{"query":"x"}', at="a"),
            HostedResult(call_id="s", tool="web_search", text="Found.", at="b"),
            "So.",
        ),
        build_message("user", "Thanks"),
    )
    after, losses = fitted(asked, "gemini")
    assert shape(after.messages)[1] == [
        "assistant",
        '[web_search: {"query":"x"}]',
        "[web_search result]\nFound.",
        "So.",
    ]
    assert [loss.split(":")[0] for loss in losses] == ["a", "b"]
    joined = "".join(shape(fitted(asked, "openai_chat")[0].messages)[1][1:])
    assert joined == '\n[web_search: {"query":"x"}]\n\n[web_search result]\nFound.\nSo.'


@pytest.mark.rule("H49")
def test_a_refusal_is_text_where_it_has_no_form_of_its_own() -> None:
    asked = request(USER, build_message("assistant", Refusal(text="No.")), build_message("user", "Please"))
    assert shape(fitted(asked, "anthropic")[0].messages)[1] == ["assistant", "No."]
    assert shape(fitted(asked, "openai_chat")[0].messages)[1] == ["assistant", "Refusal"]


def test_a_block_that_no_other_dialect_has_is_a_loss() -> None:
    asked = request(
        USER, build_message("user", Opaque(kind="container_upload", value={}, at="messages[1].content[0]"))
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages) == [["user", "Hi"]]
    assert losses == ["messages[1].content[0]: no other dialect has blocks of type 'container_upload'"]


def test_a_call_that_the_user_makes_is_no_call() -> None:
    after, losses = fitted(request(build_message("user", "Hi", call("1"))), "openai_chat")
    assert shape(after.messages) == [["user", "Hi"]]
    assert losses == ["call 1: only an assistant message can hold this"]


@pytest.mark.rule("R30", "H18")
def test_at_home_a_broken_history_is_the_clients_own_business() -> None:
    asked = request(
        build_message("tool", result("9")), build_message("assistant", call("1"), ""), dialect="openai_chat"
    )
    assert fitted(asked, "openai_chat")[0] is asked


@pytest.mark.rule("H18")
def test_unless_the_profile_states_that_the_server_is_strict() -> None:
    asked = request(
        build_message("tool", result("9", "a")), build_message("user", "Hi"), dialect="openai_chat"
    )
    after, losses = fitted(asked, "openai_chat", strict_results=True)
    assert not any(isinstance(block, ToolResult) for each in after.messages for block in each.blocks)
    assert len(losses) == 1


def test_thousands_of_calls_with_one_id_take_linear_time() -> None:
    calls = [ToolCall(id="x", name="a", arguments=str(n)) for n in range(3_000)]
    asked = request(
        USER,
        build_message("assistant", *calls),
        build_message("tool", *(result("x", str(n)) for n in range(3_000))),
    )
    after, losses = fitted(asked, "openai_chat")
    assert len(after.messages[2].blocks) == 3_000
    assert losses == []


@pytest.mark.rule("H22")
def test_a_result_is_of_the_kind_of_its_call() -> None:
    """OpenAI Chat has one kind of tool message for every kind of call; Responses has one item for each."""
    patch = ToolCall(id="1", name="patch", kind="custom", arguments="*** Begin Patch")
    asked = request(
        USER, build_message("assistant", patch, call("2")), build_message("tool", result("1"), result("2"))
    )
    answers = fitted(asked, "openai_responses")[0].messages[2].blocks
    assert [block.kind for block in answers if isinstance(block, ToolResult)] == ["custom", "function"]


@pytest.mark.rule("H43")
def test_blank_texts_beside_other_content_of_a_result_are_left_out() -> None:
    picture = Media(kind="image", media_type="image/png", data="aGk=")
    asked = request(
        USER, build_message("assistant", call("1")), build_message("tool", result("1", "\n", picture, ""))
    )
    (answer,) = fitted(asked, "anthropic")[0].messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.content == (picture,)


@pytest.mark.rule("R43")
def test_a_result_that_is_blank_as_a_whole_stays_as_it_is() -> None:
    asked = request(USER, build_message("assistant", call("1")), build_message("tool", result("1", "\n")))
    (answer,) = fitted(asked, "anthropic")[0].messages[2].blocks
    assert isinstance(answer, ToolResult)
    assert answer.content == (Text(text="\n"),)
