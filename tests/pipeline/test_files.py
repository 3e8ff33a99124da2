"""Ids of stored files, from one API of a vendor to another."""

import pytest

from dragoman.pipeline import translate_request
from tests.pipeline.asking import declared

Json = dict[str, object]

FILE: Json = {"type": "file", "file": {"file_id": "file-1"}}


@pytest.mark.rule("F12")
def test_a_file_of_a_chat_request_is_an_input_file_of_a_responses_request() -> None:
    body: Json = {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read"}, FILE]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [FILE]},
        ],
        "tools": declared("openai_chat", ["Read"]),
    }
    found = translate_request(body, source="openai_chat", target="openai_responses")
    items = found.body["input"]
    assert isinstance(items, list)
    written = {"type": "input_file", "file_id": "file-1"}
    assert items[0]["content"][1] == written
    assert items[2]["output"] == [written]
    assert found.losses == ()
