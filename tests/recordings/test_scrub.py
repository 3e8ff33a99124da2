"""The scrubber keeps structure and our own words, and lets nothing else through."""

from typing import Any

from tools.record.scrub import TINY_PNG, Scrubber

FOREIGN = "You are a helpful assistant made by somebody else."


def scrubbed(body: dict[str, Any]) -> dict[str, Any]:
    return Scrubber(["Please read the notes."], {"/scratch/project": "/home/user/project"}).body(body)


def test_foreign_text_becomes_ours_and_equal_texts_stay_equal() -> None:
    body = scrubbed({"messages": [{"role": "system", "content": FOREIGN}], "system": FOREIGN})
    assert body == {"messages": [{"role": "system", "content": "System text 1."}], "system": "System text 1."}


def test_a_tag_around_a_foreign_text_stays() -> None:
    body = scrubbed({"messages": [{"role": "user", "content": f"<reminder>\n{FOREIGN}\n</reminder>"}]})
    assert body["messages"][0]["content"] == "<reminder>\nUser text 1.\n</reminder>"


def test_what_our_script_wrote_stays() -> None:
    message = {"role": "user", "content": "Please read the notes."}
    assert scrubbed({"messages": [message]}) == {"messages": [message]}


def test_a_parameter_named_description_is_not_taken_for_prose() -> None:
    schema = {"type": "object", "properties": {"description": {"type": "string", "description": FOREIGN}}}
    tool = scrubbed({"tools": [{"name": "run", "description": FOREIGN, "input_schema": schema}]})["tools"][0]
    assert tool["description"] == "Describes the tool run."
    assert tool["input_schema"]["properties"] == {
        "description": {"type": "string", "description": "Describes description."}
    }


def test_a_grammar_is_replaced_by_one_of_ours() -> None:
    format = {"type": "grammar", "syntax": "lark", "definition": 'start: "theirs"'}
    tool = scrubbed({"tools": [{"type": "custom", "name": "patch", "format": format}]})["tools"][0]
    assert tool["format"] == {"type": "grammar", "syntax": "lark", "definition": "start: /(.|\\n)+/"}


def test_paths_of_this_machine_are_replaced_in_arguments() -> None:
    call = {"type": "tool_use", "name": "Read", "input": {"path": "/scratch/project/notes.txt"}}
    body = scrubbed({"messages": [{"role": "assistant", "content": [call]}]})
    assert body["messages"][0]["content"][0]["input"] == {"path": "/home/user/project/notes.txt"}


def test_ids_are_replaced_also_within_json_that_is_a_string() -> None:
    identity = '{"session_id":"12345678-1234-1234-1234-123456789abc","device_id":"' + "a" * 64 + '"}'
    assert scrubbed({"metadata": {"user_id": identity}})["metadata"]["user_id"] == (
        '{"session_id":"00000000-0000-4000-8000-000000000001","device_id":"' + "0" * 64 + '"}'
    )


def test_images_become_one_tiny_image() -> None:
    parts = [{"type": "input_image", "image_url": "data:image/jpeg;base64," + "QUJD" * 50}]
    body = scrubbed({"input": [{"role": "user", "content": parts}]})
    assert body["input"][0]["content"][0]["image_url"] == f"data:image/jpeg;base64,{TINY_PNG}"


def test_headers_that_report_the_machine_are_left_out() -> None:
    headers = {
        "host": "127.0.0.1:1",
        "x-stainless-os": "Linux",
        "user-agent": "agent/1.0 (Debian 12.0; x86_64)",
    }
    assert Scrubber([], {}).headers(headers) == {"user-agent": "agent/1.0 (Linux; x86_64)"}
