"""Wishes to cache the prompt."""

import pytest

from dragoman.hub.blocks import CacheMark, Text
from dragoman.hub.request import Request
from tests.fit.building import build_message, call, fitted, function, request, result

MARK = CacheMark()


def marked(text: str, at: str = "") -> Text:
    return Text(text=text, cache=MARK, at=at)


def marks(asked: Request) -> list[str]:
    """Which tools and blocks are marked."""
    found = [tool.name for tool in asked.tools if tool.cache]
    for each in asked.messages:
        found += [f"{each.role} {type(block).__name__}" for block in each.blocks if block.cache]
    return found


@pytest.mark.rule("H59")
def test_a_client_without_marks_gets_them_where_prompts_end_alike() -> None:
    asked = request(
        build_message("system", "A", "B"),
        build_message("user", "one"),
        build_message("assistant", call("1")),
        build_message("tool", result("1", "a")),
        build_message("assistant", call("2")),
        build_message("tool", result("2", "b")),
        tools=(function("Read"), function("Edit")),
    )
    after, _ = fitted(asked, "anthropic")
    assert marks(after) == ["Edit", "system Text", "user ToolResult", "user ToolResult"]
    assert after.messages[0].blocks[0].cache is None
    assert after.messages[1].blocks[0].cache is None


@pytest.mark.rule("H59")
def test_the_clients_own_marks_win_and_are_four_at_most() -> None:
    asked = request(
        build_message("user", *(marked(str(n), at=f"m{n}") for n in range(6))), tools=(function("Read"),)
    )
    after, losses = fitted(asked, "anthropic")
    assert [bool(block.cache) for block in after.messages[0].blocks] == [False, False, True, True, True, True]
    assert after.tools[0].cache is None
    assert [loss.split(":")[0] for loss in losses] == ["m0", "m1"]


@pytest.mark.rule("H59")
def test_marks_are_one_loss_where_prompts_cannot_be_cached_so() -> None:
    asked = request(
        build_message("user", marked("a", "m0"), marked("b", "m1")), cache=MARK, dialect="anthropic"
    )
    after, losses = fitted(asked, "openai_chat")
    assert marks(after) == []
    assert after.cache is None
    assert losses == ["m0: the target has no such way to cache prompts"]


@pytest.mark.rule("H59")
def test_a_key_from_the_user_stands_for_marks() -> None:
    asked = request(build_message("user", marked("a")), user='{"session_id":"s"}', dialect="anthropic")
    after, losses = fitted(asked, "openai_responses")
    assert after.cache_key.startswith("dgm-")
    assert "session" not in after.cache_key
    assert marks(after) == []
    assert losses == []
    assert fitted(asked, "openai_responses")[0].cache_key == after.cache_key


@pytest.mark.rule("H59")
def test_the_clients_own_key_is_kept_or_reported_as_lost() -> None:
    asked = request(build_message("user", "a"), cache_key="k", dialect="openai_responses")
    assert fitted(asked, "openai_chat", caching="key")[0].cache_key == "k"
    after, losses = fitted(asked, "openai_chat")
    assert after.cache_key == ""
    assert losses == ["cache_key: the target has no such way to cache prompts"]


@pytest.mark.rule("H59")
def test_at_home_marks_are_left_alone() -> None:
    asked = request(build_message("user", *(marked(str(n)) for n in range(6))), dialect="anthropic")
    assert fitted(asked, "anthropic")[0] is asked
