"""Every decision about a call is kept, under the id that the caller knows."""

import pytest

from dragoman.upstream.claude_code.permission import KEPT, Auth


@pytest.mark.rule("R109")
def test_a_decision_is_told_with_the_callers_id_for_the_call() -> None:
    auth = Auth("ses_a", lambda: frozenset({"add"}))
    assert auth.decide("mcp__gateway__add", "call_0")
    assert not auth.decide("Bash", "call_1")
    auth.shown_as("call_0", "toolu_a")
    assert auth.told() == [
        {"tool": "mcp__gateway__add", "call": "toolu_a", "allowed": True},
        {"tool": "Bash", "call": "call_1", "allowed": False},
    ]


def test_only_so_many_decisions_are_kept() -> None:
    auth = Auth("ses_a", lambda: frozenset({"add"}))
    for number in range(2 * KEPT):
        auth.decide("mcp__gateway__add", f"call_{number}")
        auth.shown_as(f"call_{number}", f"toolu_{number}")
    assert [told["call"] for told in auth.told()] == [f"toolu_{number}" for number in range(KEPT, 2 * KEPT)]
