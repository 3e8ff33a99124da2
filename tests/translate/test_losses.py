"""What one vendor alone knows is told as lost when it goes to another, and stays when it goes home."""

import pytest

from dragoman.translate import translate_request
from tests.translate.asking import DIALECTS, asking

Json = dict[str, object]

TOOL: Json = {"name": "Read", "description": "It.", "input_schema": {"type": "object", "properties": {}}}

#: The rule, the dialect, what is added to a plain request, and where the loss must point.
ONLY_AT_HOME: list[tuple[str, str, Json, str]] = [
    ("H37", "anthropic", {"tools": [{**TOOL, "input_examples": [{}]}]}, "tools[0]"),
    ("H37", "anthropic", {"tools": [{**TOOL, "allowed_callers": ["direct"]}]}, "tools[0]"),
    ("H29", "anthropic", {"tools": [{"type": "computer_20250124", "name": "computer"}]}, "tools[0]"),
    ("H30", "anthropic", {"mcp_servers": [{"type": "url", "url": "https://example.org"}]}, "mcp_servers"),
    (
        "H30",
        "openai_responses",
        {"tools": [{"type": "mcp", "server_label": "l", "server_url": "https://example.org"}]},
        "tools[0]",
    ),
    ("H64", "anthropic", {"context_management": {"edits": []}}, "context_management"),
    ("H64", "openai_responses", {"truncation": "auto"}, "truncation"),
    ("H58", "openai_chat", {"prediction": {"type": "content", "content": "x"}}, "prediction"),
    ("H58", "gemini", {"safetySettings": [{"category": "C", "threshold": "T"}]}, "safetySettings"),
]


@pytest.mark.rule("H29", "H30", "H37", "H58", "H64")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize(("rule", "source", "added", "path"), ONLY_AT_HOME)
def test_what_only_one_vendor_knows_is_kept_at_home_and_told_as_lost_elsewhere(
    rule: str, source: str, added: Json, path: str, target: str
) -> None:
    request = asking(source) | added
    translation = translate_request(request, source=source, target=target, model="m")
    if target == source:
        assert translation.body == request
        assert translation.losses == ()
    else:
        assert [loss for loss in translation.losses if loss.path.startswith(path)]


@pytest.mark.rule("H50")
@pytest.mark.parametrize("target", DIALECTS)
def test_the_phase_of_a_message_stays_within_responses(target: str) -> None:
    content = [{"type": "output_text", "text": "Let me look."}]
    message = {"type": "message", "role": "assistant", "content": content, "phase": "commentary"}
    user = {"type": "message", "role": "user", "content": "Go on"}
    request: Json = {"model": "m", "store": False, "input": [message, user]}
    body = translate_request(request, source="openai_responses", target=target).body
    assert ("commentary" in str(body)) == (target == "openai_responses")
    assert "Let me look." in str(body)
