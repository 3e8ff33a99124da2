"""Every decision about a call is kept, under the id that the caller knows."""

import pytest

from dragoman.upstream.claude_code.tools import MAX_DECISIONS, ToolPermissions


@pytest.mark.rule("R109")
def test_a_decision_is_reported_with_the_callers_id_for_the_call() -> None:
    permissions = ToolPermissions("ses_a", lambda: frozenset({"add"}))
    assert permissions.decide("mcp__gateway__add", "call_0")
    assert not permissions.decide("Bash", "call_1")
    permissions.set_public_id("call_0", "toolu_a")
    assert permissions.list_decisions() == [
        {"tool": "mcp__gateway__add", "call": "toolu_a", "allowed": True},
        {"tool": "Bash", "call": "call_1", "allowed": False},
    ]


def test_only_so_many_decisions_are_kept() -> None:
    permissions = ToolPermissions("ses_a", lambda: frozenset({"add"}))
    for number in range(2 * MAX_DECISIONS):
        permissions.decide("mcp__gateway__add", f"call_{number}")
        permissions.set_public_id(f"call_{number}", f"toolu_{number}")
    assert [decision["call"] for decision in permissions.list_decisions()] == [
        f"toolu_{number}" for number in range(MAX_DECISIONS, 2 * MAX_DECISIONS)
    ]
