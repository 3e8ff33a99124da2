"""System and developer texts where the target wants them."""

import pytest

from dragoman.hub.blocks import Media
from tests.fit.building import build_message, call, fitted, request, result, shape

REMINDER = "<system-reminder>\nMind this.\n</system-reminder>"


@pytest.mark.rule("R22", "H38")
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_a_leading_system_text_stays_in_front(dialect: str) -> None:
    asked = request(build_message("system", "A", "B"), build_message("user", "Hi"))
    assert shape(fitted(asked, dialect)[0].messages) == [["system", "A", "B"], ["user", "Hi"]]


@pytest.mark.rule("R22")
def test_an_empty_system_text_is_none() -> None:
    assert shape(
        fitted(request(build_message("system", ""), build_message("user", "Hi")), "openai_chat")[0].messages
    ) == [["user", "Hi"]]


@pytest.mark.rule("H38", "P39")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_a_later_system_text_keeps_its_place_where_it_may(dialect: str) -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("system", "Mind this."),
        build_message("assistant", "Ok"),
        build_message("user", "So?"),
    )
    assert fitted(asked, dialect)[0].messages == asked.messages


@pytest.mark.rule("H38", "P39")
@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_a_later_system_text_becomes_a_reminder_where_it_may_not(dialect: str) -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("system", "Mind this."),
        build_message("assistant", "Ok"),
        build_message("user", "So?"),
    )
    after, losses = fitted(asked, dialect)
    assert shape(after.messages) == [["user", "Hi", REMINDER], ["assistant", "Ok"], ["user", "So?"]]
    assert losses == []


@pytest.mark.rule("H38")
def test_a_reminder_never_stands_between_a_call_and_its_result() -> None:
    asked = request(
        build_message("user", "Hi"),
        build_message("assistant", call("1")),
        build_message("system", "Mind this."),
        build_message("tool", result("1", "a")),
    )
    assert shape(fitted(asked, "anthropic")[0].messages)[1:] == [
        ["assistant", "call 1"],
        ["user", "result 1: a", REMINDER],
    ]


def test_a_reminder_is_not_wrapped_twice() -> None:
    asked = request(build_message("user", "Hi"), build_message("system", REMINDER))
    assert shape(fitted(asked, "gemini")[0].messages) == [["user", "Hi", REMINDER]]


@pytest.mark.rule("H40", "R23")
def test_a_developer_is_the_system_if_the_target_has_no_developers() -> None:
    asked = request(build_message("developer", "A"), build_message("user", "Hi"))
    assert [each.role for each in fitted(asked, "openai_chat")[0].messages] == ["system", "user"]
    assert [each.role for each in fitted(asked, "openai_responses")[0].messages] == ["developer", "user"]
    home = request(build_message("developer", "A"), build_message("user", "Hi"), dialect="openai_chat")
    assert fitted(home, "openai_chat")[0] is home
    old_server = fitted(home, "openai_chat", developer_role=False)[0]
    assert [each.role for each in old_server.messages] == ["system", "user"]


@pytest.mark.rule("H39", "P54")
def test_a_billing_note_stays_with_the_vendor_it_is_for() -> None:
    asked = request(
        build_message("system", "x-anthropic-billing-header: cc_version=1; cch=abc;", "You are."),
        build_message("user", "Hi"),
        dialect="anthropic",
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[0] == ["system", "You are."]
    assert len(losses) == 1
    assert fitted(asked, "anthropic")[0] is asked


def test_an_image_in_a_system_text_is_a_loss() -> None:
    asked = request(
        build_message("system", "A", Media(kind="image", data="AA", at="system[1]")),
        build_message("user", "Hi"),
    )
    after, losses = fitted(asked, "openai_chat")
    assert shape(after.messages)[0] == ["system", "A"]
    assert losses == ["system[1]: system texts cannot hold Media"]
