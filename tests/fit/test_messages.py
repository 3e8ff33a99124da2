"""Who begins, who alternates, who has the last word."""

import pytest

from dragoman.hub.request import Request
from tests.fit.building import build_message, call, fitted, request, result, shape

USER = build_message("user", "Hi")


@pytest.mark.rule("H41")
@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_messages_of_one_side_are_merged_where_sides_must_alternate(dialect: str) -> None:
    asked = request(
        USER,
        build_message("user", "there"),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
        build_message("user", "So?"),
        build_message("user", "Well?"),
    )
    assert shape(fitted(asked, dialect)[0].messages) == [
        ["user", "Hi", "there"],
        ["assistant", "call 1"],
        ["user", "result 1: a", "So?", "Well?"],
    ]


@pytest.mark.rule("H41")
def test_elsewhere_messages_stay_as_they_are() -> None:
    asked = request(USER, build_message("user", "there"))
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


@pytest.mark.rule("H41")
def test_a_strict_chat_template_gets_texts_parted_by_a_blank_line() -> None:
    asked = request(USER, build_message("user", "there"))
    assert shape(fitted(asked, "openai_chat", alternation=True)[0].messages) == [["user", "Hi", "\n\nthere"]]


@pytest.mark.rule("H42")
@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_another_message_comes_before_that_of_the_assistant(dialect: str) -> None:
    asked = request(
        build_message("system", "S"), build_message("assistant", "Hello!"), build_message("user", "Hi")
    )
    assert [each.role for each in fitted(asked, dialect)[0].messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert [each.role for each in fitted(asked, "openai_chat")[0].messages] == ["system", "assistant", "user"]


@pytest.mark.rule("H42", "P68")
@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai_responses"])
def test_a_system_text_alone_is_no_conversation(dialect: str) -> None:
    asked = request(build_message("system", "S"))
    assert [each.role for each in fitted(asked, dialect)[0].messages] == ["system", "user"]
    assert fitted(asked, "openai_chat")[0].messages == asked.messages


def prefilled(dialect: str = "elsewhere") -> Request:
    return request(USER, build_message("assistant", "The answer is ", at="messages[1]"), dialect=dialect)


@pytest.mark.rule("H44")
def test_a_begun_answer_is_asked_to_be_continued_where_it_cannot_be() -> None:
    after, losses = fitted(prefilled(), "openai_chat")
    assert shape(after.messages)[1:] == [
        ["assistant", "The answer is "],
        ["user", "Continue exactly where your last message ended."],
    ]
    assert losses == ["messages[1]: the target cannot continue a begun answer, so it is asked to continue"]


@pytest.mark.rule("H44")
def test_a_begun_answer_stays_where_it_can_be_continued_without_trailing_blanks() -> None:
    after, losses = fitted(prefilled(), "anthropic", prefill=True)
    assert shape(after.messages)[1:] == [["assistant", "The answer is"]]
    assert losses == []


@pytest.mark.rule("H44")
def test_at_home_a_begun_answer_is_left_to_the_vendor() -> None:
    asked = prefilled("anthropic")
    assert fitted(asked, "anthropic")[0] is asked


@pytest.mark.rule("H44")
def test_a_begun_answer_that_ends_well_is_not_touched() -> None:
    asked = request(USER, build_message("assistant", "The answer"))
    assert fitted(asked, "openai_chat", prefill=True)[0].messages == asked.messages


@pytest.mark.rule("H42")
def test_a_conversation_of_which_nothing_is_left_still_has_a_message() -> None:
    """Chat servers take a system text alone, but not an empty list."""
    assert [each.role for each in fitted(request(), "openai_chat")[0].messages] == ["user"]
    alone = request(build_message("system", "S"))
    assert fitted(alone, "openai_chat")[0].messages == alone.messages
    assert fitted(request(dialect="openai_chat"), "openai_chat")[0].messages == ()


@pytest.mark.rule("P73")
def test_merging_many_messages_takes_time_that_grows_with_their_number() -> None:
    """Merging pair by pair would copy a billion blocks here, which takes minutes."""
    asked = request(*(build_message("user", str(number)) for number in range(50_000)))
    (merged,) = fitted(asked, "anthropic")[0].messages
    assert len(merged.blocks) == 50_000
