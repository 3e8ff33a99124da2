"""What only one vendor supports is a loss for another one, and stays for the vendor itself."""

import pytest

from dragoman.pipeline import translate_request
from tests.pipeline.asking import DIALECTS, asking

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
    ("H37", "anthropic", {"output_config": {"task_budget": {"total": 9}}}, "output_config.task_budget"),
]

#: Settings with the value that holds anyway.
USUAL: dict[str, Json] = {
    "anthropic": {
        "speed": "standard",
        "service_tier": "auto",
        "metadata": {"user_id": None},
        "temperature": 1,
    },
    "openai_chat": {
        "modalities": ["text"],
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "logit_bias": {},
        "n": 1,
        "logprobs": False,
        "response_format": {"type": "text"},
        "tools": [{"type": "custom", "custom": {"name": "free", "format": {"type": "text"}}}],
    },
    "openai_responses": {
        "truncation": "disabled",
        "background": False,
        "stream_options": {"include_obfuscation": False},
        "text": {"format": {"type": "text"}},
        "top_logprobs": 0,
    },
    "gemini": {"generationConfig": {"responseModalities": ["TEXT"], "candidateCount": 1}, "labels": {}},
}


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_saying_what_holds_anyway_loses_nothing(source: str, target: str) -> None:
    translation = translate_request(
        asking(source) | USUAL[source], source=source, target=target, model="m", strict=True
    )
    assert translation.losses == ()


CITING: dict[str, Json] = {
    "anthropic": {
        "type": "text",
        "text": "a",
        "citations": [{"type": "web_search_result_location", "url": "https://example.org", "title": "e"}],
    },
    "openai_responses": {
        "type": "output_text",
        "text": "a",
        "annotations": [
            {
                "type": "url_citation",
                "url": "https://example.org",
                "title": "e",
                "start_index": 0,
                "end_index": 1,
            }
        ],
    },
}


@pytest.mark.rule("H48")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", CITING)
def test_citations_in_the_history_are_reported_as_lost_elsewhere(source: str, target: str) -> None:
    field = "messages" if source == "anthropic" else "input"
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [CITING[source]]}]
    request = asking(source) | {field: [*messages, {"role": "user", "content": "Go on"}]}
    losses = translate_request(request, source=source, target=target).losses
    assert [loss.path for loss in losses] == ([] if target == source else [f"{field}[1].content[0]"])


@pytest.mark.parametrize("target", DIALECTS)
def test_an_effort_that_changed_on_the_way_is_the_requests_effort_and_no_loss(target: str) -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    user = {"role": "user", "content": "Hi"}
    request: Json = {"model": "m", "reasoning": {"effort": "high"}, "input": [user, update, user]}
    translation = translate_request(request, source="openai_responses", target=target)
    assert translation.losses == ()
    assert ("high" in str(translation.body)) == (target == "openai_responses")


@pytest.mark.parametrize("update", [{"reasoning": {"effort": "odd"}}, {"verbosity": "low"}])
def test_any_other_change_of_settings_on_the_way_is_a_loss(update: Json) -> None:
    user = {"role": "user", "content": "Hi"}
    request: Json = {"model": "m", "input": [user, {"type": "configuration_update", **update}]}
    losses = translate_request(request, source="openai_responses", target="openai_chat").losses
    assert [loss.path for loss in losses] == ["input[1]"]


@pytest.mark.rule("H29", "H30", "H37", "H58", "H64")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize(("rule", "source", "added", "path"), ONLY_AT_HOME)
def test_what_only_one_vendor_knows_is_kept_at_home_and_reported_as_lost_elsewhere(
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
