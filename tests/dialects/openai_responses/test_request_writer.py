"""Requests of clients of other dialects, written in this dialect."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses import DIALECT
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    Media,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, Role, ToolChoice
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from tests.dialects.openai_responses.replies import OWN

TARGET = build_target_facts(Profile(dialect=OWN), "anthropic")
HI = Message(role="user", blocks=(Text(text="Hi."),))


def write(request: Request, target: TargetFacts = TARGET, *, losses: int = 0) -> Json:
    found = Losses()
    body = DIALECT.write_request(request, target, found)
    assert len(found) == losses
    return body


def asked(*messages: Message, **settings: object) -> Request:
    request = Request(dialect="anthropic", model="gpt-x", messages=messages)
    return msgspec.structs.replace(request, **settings)


def build_message(role: Role, *blocks: AnyBlock) -> Message:
    return Message(role=role, blocks=blocks)


def items(*messages: Message, target: TargetFacts = TARGET, losses: int = 0) -> object:
    return write(asked(*messages), target, losses=losses)["input"]


@pytest.mark.rule("R31", "C6")
def test_a_plain_request_adds_only_store_false() -> None:
    assert write(asked(HI)) == {
        "model": "gpt-x",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}],
        "store": False,
    }


@pytest.mark.rule("R23", "C14", "C24", "H38", "H40")
def test_leading_system_messages_are_instructions_and_later_ones_keep_their_place() -> None:
    system = build_message("system", Text(text="One."), Text(text="Two."))
    later = build_message("system", Text(text="Note."))
    body = write(asked(system, build_message("developer", Text(text="Three.")), HI, later))
    assert body["instructions"] == "One.\nTwo.\nThree."
    assert isinstance(body["input"], list)
    assert body["input"][1] == {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "Note."}],
    }
    plain = build_target_facts(Profile(dialect=OWN, developer_role=False), "anthropic")
    written = items(HI, later, target=plain)
    assert isinstance(written, list)
    assert written[1]["role"] == "system"


@pytest.mark.rule("P68")
def test_a_conversation_of_instructions_alone_still_has_an_input() -> None:
    body = write(asked(build_message("system", Text(text="Be brief."))))
    assert "instructions" not in body
    assert body["input"] == [{"type": "message", "role": "developer", "content": "Be brief."}]


@pytest.mark.rule("R26", "R27", "R30", "R32", "R38", "P25")
def test_calls_and_results_are_items_in_their_order() -> None:
    written = items(
        HI,
        build_message(
            "assistant",
            Text(text="Looking."),
            ToolCall(id="toolu_1", name="ls", arguments='{"a": 1}'),
            ToolCall(id="toolu_2", name="pwd"),
        ),
        build_message(
            "tool",
            ToolResult(call_id="toolu_1", content=(Text(text="a"), Text(text="b"))),
            ToolResult(call_id="toolu_2"),
        ),
    )
    assert isinstance(written, list)
    assert written[1:] == [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking."}],
        },
        {"type": "function_call", "call_id": "toolu_1", "arguments": '{"a": 1}', "name": "ls"},
        {"type": "function_call", "call_id": "toolu_2", "arguments": "{}", "name": "pwd"},
        {"type": "function_call_output", "call_id": "toolu_1", "output": "a\nb"},
        {"type": "function_call_output", "call_id": "toolu_2", "output": ""},
    ]


@pytest.mark.rule("H46", "H45", "R36", "H20")
def test_media_are_parts_in_messages_and_results() -> None:
    png = Media(kind="image", media_type="image/png", data="AAAA", detail="low")
    pdf = Media(kind="document", media_type="application/pdf", data="BBBB")
    note = Media(kind="document", media_type="text/plain", text="Words.", title="Notes")
    written = items(
        build_message(
            "user", png, pdf, note, Media(kind="document", url="https://e.org/a.pdf", title="a.pdf")
        ),
        build_message("tool", ToolResult(call_id="c", content=(Text(text="See:"), png))),
    )
    assert isinstance(written, list)
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}
    assert written[0]["content"] == [
        picture,
        {
            "type": "input_file",
            "file_data": "data:application/pdf;base64,BBBB",
            "filename": "document.pdf",
        },
        {"type": "input_text", "text": "Notes\nWords."},
        {"type": "input_file", "filename": "a.pdf", "file_url": "https://e.org/a.pdf"},
    ]
    assert written[1]["output"] == [{"type": "input_text", "text": "See:"}, picture]


@pytest.mark.rule("H1", "P46", "P48", "R129")
def test_reasoning_returns_only_to_the_issuer_of_its_seal() -> None:
    mine = Reasoning(parts=("Hm.",), raw=True, seal=Seal(OWN, "", "gAAA"), extras={"id": "rs_1"})
    theirs = Reasoning(parts=("Hm.",), seal=Seal("anthropic", "", "x"))
    bare = Reasoning(parts=("Hm.",))
    written = items(HI, build_message("assistant", mine, theirs, bare, Text(text="Hi.")), losses=2)
    assert isinstance(written, list)
    assert [item["type"] for item in written] == ["message", "reasoning", "message"]
    assert written[1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "gAAA",
    }


@pytest.mark.rule("H26", "H22", "H25")
def test_every_kind_of_call_has_its_items() -> None:
    written = items(
        build_message(
            "assistant",
            ToolCall(id="a", name="exec", kind="custom", arguments="x = 1"),
            ToolCall(id="b", name="shell", kind="shell", arguments='{"commands":["ls"]}'),
            ToolCall(id="c", name="tool_search", kind="tool_search", arguments='{"query":"x"}'),
        ),
        build_message(
            "tool",
            ToolResult(call_id="a", kind="custom", content=(Text(text="1"),)),
            ToolResult(call_id="b", kind="shell", content=(Text(text="a"),)),
            ToolResult(call_id="c", kind="tool_search"),
        ),
    )
    assert isinstance(written, list)
    assert [item["type"] for item in written] == [
        "custom_tool_call",
        "shell_call",
        "tool_search_call",
        "custom_tool_call_output",
        "shell_call_output",
        "tool_search_output",
    ]
    assert written[1]["action"] == {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    assert (written[2]["execution"], written[2]["arguments"]) == ("client", {"query": "x"})
    assert written[4]["output"] == [
        {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    ]
    assert written[5]["tools"] == []


def test_blocks_that_have_no_item_are_losses_and_no_crash() -> None:
    written = items(
        build_message("assistant", HostedCall(id="x", tool="web_search"), Media(kind="video", data="AAAA")),
        losses=2,
    )
    assert written == []


def test_a_refusal_is_one_in_an_assistants_message() -> None:
    written = items(build_message("assistant", Refusal(text="No.")))
    assert isinstance(written, list)
    assert written[0]["content"] == [{"type": "refusal", "refusal": "No."}]


@pytest.mark.rule("R11", "R12", "H33", "R19", "H35")
def test_functions_are_declared_with_explicit_strictness() -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = (
        Tool(name="a", description="Does a.", schema=schema),
        Tool(name="b", strict=True, schema=schema),
        Tool(name="c"),
    )
    assert write(asked(HI, tools=tools))["tools"] == [
        {
            "type": "function",
            "name": "a",
            "description": "Does a.",
            "parameters": schema,
            "strict": False,
        },
        {"type": "function", "name": "b", "parameters": schema, "strict": True},
        {
            "type": "function",
            "name": "c",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]


@pytest.mark.rule("R14")
def test_without_tools_there_are_no_settings_of_calls() -> None:
    body = write(asked(HI, tool_choice=ToolChoice(mode="auto"), parallel_calls=False))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(mode="auto"), "auto"),
        (ToolChoice(mode="required"), "required"),
        (ToolChoice(mode="none"), "none"),
        (ToolChoice(mode="named", name="a"), {"type": "function", "name": "a"}),
        (ToolChoice(mode="named", name="free"), {"type": "custom", "name": "free"}),
        (ToolChoice(mode="named", name="shell"), {"type": "shell"}),
        (ToolChoice(mode="named", name="search"), {"type": "web_search"}),
        (ToolChoice(mode="named", name="inner"), {"type": "function", "name": "inner", "namespace": "n"}),
        (
            ToolChoice(mode="allowed", allowed=("a", "free"), allowed_mode="required"),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "a"}, {"type": "custom", "name": "free"}],
            },
        ),
    ],
)
@pytest.mark.rule("R15", "C5", "P35", "H32", "H31")
def test_choices_are_written_by_the_kind_of_the_tool(choice: ToolChoice, expected: object) -> None:
    tools = (
        Tool(name="a"),
        Tool(name="free", kind="custom"),
        Tool(name="shell", kind="shell"),
        Tool(name="search", kind="hosted", common_name="web_search"),
        Tool(name="inner", namespace="n"),
    )
    body = write(asked(HI, tools=tools, tool_choice=choice, parallel_calls=False))
    assert body["tool_choice"] == expected
    assert body["parallel_tool_calls"] is False


@pytest.mark.rule("H56", "R117", "H84")
def test_a_small_limit_is_raised_to_the_vendors_minimum_and_none_is_invented() -> None:
    assert write(asked(HI, max_tokens=1))["max_output_tokens"] == 16
    assert write(asked(HI, max_tokens=500))["max_output_tokens"] == 500
    assert "max_output_tokens" not in write(asked(HI))


@pytest.mark.parametrize(
    ("wish", "reasoning", "sealed"),
    [
        (ReasoningSettings(effort="high", show=True), {"effort": "high", "summary": "auto"}, True),
        (ReasoningSettings(effort="low"), {"effort": "low"}, True),
        (ReasoningSettings(mode="on", show=True), {"summary": "auto"}, True),
        (ReasoningSettings(mode="adaptive"), None, True),
        (ReasoningSettings(mode="off"), {"effort": "none"}, False),
        (ReasoningSettings(effort="none", show=True), {"effort": "none"}, False),
    ],
)
@pytest.mark.rule("H10", "R129", "H4")
def test_reasoning_settings_are_an_effort_and_request_seals(
    wish: ReasoningSettings, reasoning: object, sealed: bool
) -> None:
    body = write(asked(HI, reasoning=wish))
    assert body.get("reasoning") == reasoning
    assert body.get("include") == (["reasoning.encrypted_content"] if sealed else None)


@pytest.mark.rule("H57")
def test_an_answer_in_json_is_requested_by_name_and_schema() -> None:
    schema = OutputFormat(kind="json_schema", schema={"type": "object"})
    assert write(asked(HI, output=schema, verbosity="low"))["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False},
        "verbosity": "low",
    }
    assert write(asked(HI, output=OutputFormat(kind="json_object")))["text"] == {
        "format": {"type": "json_object"}
    }


@pytest.mark.rule("H59", "H68")
def test_keys_and_users_that_are_too_long_are_shortened_to_the_same() -> None:
    long = "x" * 200
    body = write(asked(HI, cache_key=long, user=long))
    assert body["prompt_cache_key"] == body["safety_identifier"]
    assert len(str(body["prompt_cache_key"])) == 32
    assert write(asked(HI, cache_key="k", user="u"))["prompt_cache_key"] == "k"


@pytest.mark.rule("H53", "H51")
def test_settings_that_this_api_does_not_have_are_losses() -> None:
    request = asked(HI, top_k=5, seed=1, presence_penalty=0.5, candidates=2)
    body = write(request, losses=4)
    assert set(body) == {"model", "input", "store"}


@pytest.mark.rule("H52", "H58", "R118")
def test_settings_with_the_same_meaning_keep_it() -> None:
    request = asked(
        HI,
        stream=True,
        temperature=0.5,
        top_p=0.9,
        logprobs=True,
        top_logprobs=3,
        service_tier="flex",
        metadata={"a": "b"},
        store=True,
    )
    body = write(request)
    assert {name: body[name] for name in ("stream", "temperature", "top_p", "top_logprobs")} == {
        "stream": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_logprobs": 3,
    }
    assert body["include"] == ["message.output_text.logprobs"]
    assert (body["service_tier"], body["metadata"], body["store"]) == ("flex", {"a": "b"}, True)


def test_the_targets_model_comes_before_the_clients() -> None:
    renamed = build_target_facts(Profile(dialect=OWN, model="gpt-real"), "anthropic")
    assert write(asked(HI), renamed)["model"] == "gpt-real"


def test_forms_and_extras_of_others_are_not_written() -> None:
    strange = Message(
        role="user",
        blocks=(Text(text="Hi.", form="strange", extras={"cache_control": {}}),),
        form="string untyped",
        extras={"name": "x"},
    )
    assert items(strange) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    ]


@pytest.mark.rule("H12")
@pytest.mark.parametrize("broken", ['{"a": "b', "[1]", "null", "rm -rf"])
def test_arguments_that_are_no_object_are_wrapped_in_one(broken: str) -> None:
    written = items(HI, build_message("assistant", ToolCall(id="1", name="Now", arguments=broken)), losses=1)
    assert isinstance(written, list)
    assert msgspec.json.decode(written[1]["arguments"]) == {"text": broken}
