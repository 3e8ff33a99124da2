"""Requests of other dialects become bodies that any Chat server takes."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat import DIALECT
from dragoman.hub.blocks import (
    AnyBlock,
    CacheMark,
    HostedCall,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolGrammar,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, Role, ToolChoice
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from tests.dialects.openai_chat.replies import list_of

SERVER = build_target_facts(Profile(dialect="openai_chat"), "anthropic")
READ = ToolCall(id="toolu_abc123", name="Read", arguments='{"file_path":"/home/user/hello.py"}')
READ_CALL = {
    "id": "toolu_abc123",
    "type": "function",
    "function": {"name": "Read", "arguments": '{"file_path":"/home/user/hello.py"}'},
}
TOOL = Tool(name="Read", description="Reads.", schema={"type": "object", "properties": {"p": {}}})


def build_message(role: Role, *blocks: AnyBlock) -> Message:
    """A message as another dialect's reader makes it: its form and extras mean nothing here."""
    return Message(role=role, blocks=blocks, form="absent", extras={"secret": 1})


def body_of(
    *messages: Message, target: TargetFacts = SERVER, losses: Losses | None = None, **fields: object
) -> Json:
    request = Request(dialect="anthropic", model="claude", messages=messages, extras={"secret": 1})
    request = msgspec.structs.replace(request, **fields)
    return DIALECT.write_request(request, target, Losses() if losses is None else losses)


def messages_of(*messages: Message, target: TargetFacts = SERVER, losses: Losses | None = None) -> list[Json]:
    return list_of(body_of(*messages, target=target, losses=losses)["messages"])


def text(content: str, **fields: object) -> Text:
    return msgspec.structs.replace(Text(text=content, extras={"secret": 1}, form="part"), **fields)


def result(call_id: str, *content: AnyBlock) -> ToolResult:
    return ToolResult(call_id=call_id, content=content)


@pytest.mark.rule("R22", "R23", "C14")
def test_system_texts_are_one_message_joined_by_line_ends() -> None:
    assert messages_of(
        build_message("system", text("a"), text("b")),
        build_message("system", text("c")),
        build_message("user", text("Hi")),
    ) == [{"role": "system", "content": "a\nb\nc"}, {"role": "user", "content": "Hi"}]


@pytest.mark.rule("R22")
def test_an_empty_system_text_is_no_message() -> None:
    assert messages_of(build_message("system", text("")), build_message("user", text("Hi"))) == [
        {"role": "user", "content": "Hi"}
    ]


@pytest.mark.rule("H38", "H40")
def test_a_later_system_text_stays_in_its_place_under_the_role_that_the_server_knows() -> None:
    messages = (build_message("user", text("Hi")), build_message("developer", text("Now.")))
    assert messages_of(*messages)[1] == {"role": "system", "content": "Now."}
    modern = build_target_facts(Profile(dialect="openai_chat", developer_role=True), "anthropic")
    assert messages_of(*messages, target=modern)[1] == {"role": "developer", "content": "Now."}


@pytest.mark.rule("R24", "R25", "R26", "R27", "C13")
def test_text_and_calls_of_the_assistant_are_one_message() -> None:
    assert messages_of(build_message("assistant", text("Let me "), text("read."), READ)) == [
        {"role": "assistant", "content": "Let me read.", "tool_calls": [READ_CALL]}
    ]


@pytest.mark.rule("R28", "C3")
def test_calls_without_text_have_null_content() -> None:
    for blocks in ((READ,), (text(""), READ)):
        assert messages_of(build_message("assistant", *blocks)) == [
            {"role": "assistant", "content": None, "tool_calls": [READ_CALL]}
        ]


@pytest.mark.rule("R29")
def test_an_assistant_without_calls_has_no_key_for_them() -> None:
    assert messages_of(build_message("assistant", text("Done"))) == [{"role": "assistant", "content": "Done"}]


@pytest.mark.rule("R29", "P36", "P46")
def test_an_assistant_that_only_thought_is_empty() -> None:
    thought = Reasoning(parts=("hm",), at="messages[1].content[0]")
    losses = Losses()
    assert messages_of(
        build_message("user", text("Hi")), build_message("assistant", thought), losses=losses
    ) == [{"role": "user", "content": "Hi"}]
    assert [loss.path for loss in losses] == ["messages[1].content[0]"]


@pytest.mark.rule("R27")
def test_a_call_without_arguments_has_an_empty_object() -> None:
    (message,) = messages_of(build_message("assistant", ToolCall(id="c", name="Now")))
    assert list_of(message["tool_calls"])[0]["function"] == {"name": "Now", "arguments": "{}"}


@pytest.mark.rule("H12")
@pytest.mark.parametrize("broken", ['{"a": "b', "[1]", "null", "rm -rf"])
def test_arguments_that_are_no_object_are_shown_inside_one(broken: str) -> None:
    losses = Losses()
    (message,) = messages_of(
        build_message("assistant", ToolCall(id="1", name="Now", arguments=broken)), losses=losses
    )
    (made,) = list_of(message["tool_calls"])
    assert isinstance(made["function"], dict)
    assert msgspec.json.decode(made["function"]["arguments"]) == {"text": broken}
    assert [loss.reason for loss in losses] == ["arguments that are no JSON object were wrapped as text"]


@pytest.mark.rule("R31", "R37", "C13")
def test_a_users_texts_are_one_string() -> None:
    assert messages_of(build_message("user", text("a"), text("b"))) == [{"role": "user", "content": "ab"}]


@pytest.mark.rule("R31")
def test_an_empty_text_is_kept_only_if_it_is_all_there_is() -> None:
    assert messages_of(build_message("user", text(""))) == [{"role": "user", "content": ""}]
    assert messages_of(build_message("user", text("")), build_message("user", text("b"))) == [
        {"role": "user", "content": "b"}
    ]


@pytest.mark.rule("R32", "R33", "R34", "R38", "C4", "P37")
def test_results_are_messages_of_their_own_before_anything_else() -> None:
    assert messages_of(
        build_message("user", text("Now analyze this code"), result("a", text("1")), result("b", text("2")))
    ) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "Now analyze this code"},
    ]


@pytest.mark.rule("R36", "R41")
def test_results_leave_no_empty_message_behind() -> None:
    for role in ("user", "tool"):
        assert len(messages_of(build_message(role, result("a", text("1"))))) == 1


@pytest.mark.rule("R35", "R43", "C2")
def test_the_content_of_a_result_is_one_string() -> None:
    blocks = (
        result("a", text("one"), text("two")),
        result("b"),
        result("c", text("see"), Opaque(kind="odd", value={"x": 1}), ToolReference(name="Read")),
        result("d", Media(kind="document", text="words", title="T")),
    )
    assert [message["content"] for message in messages_of(build_message("tool", *blocks))] == [
        "one\ntwo",
        "",
        'see\n{"x":1}\nRead',
        "T\n\nwords",
    ]


@pytest.mark.rule("H20")
def test_an_image_in_a_result_goes_only_where_it_may() -> None:
    image = Media(kind="image", url="https://example.org/a.png", at="here")
    losses = Losses()
    (message,) = messages_of(build_message("tool", result("a", text("x"), image)), losses=losses)
    assert message["content"] == "x"
    assert [loss.path for loss in losses] == ["here"]
    generous = build_target_facts(Profile(dialect="openai_chat", media_in_results=True), "anthropic")
    (message,) = messages_of(build_message("tool", result("a", text("x"), image)), target=generous)
    assert message["content"] == [
        {"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]


@pytest.mark.rule("R36", "R130", "H45", "H46", "H47")
def test_media_becomes_parts() -> None:
    (message,) = messages_of(
        build_message(
            "user",
            text("Look:"),
            Media(kind="image", media_type="image/png", data="iVBO", detail="low"),
            Media(kind="document", media_type="application/pdf", data="JVBE"),
            Media(kind="document", media_type="text/plain", text="words"),
            Media(kind="audio", media_type="audio/mpeg", data="SUQz"),
        )
    )
    assert message["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
        {
            "type": "file",
            "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        },
        {"type": "text", "text": "words"},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
    ]


def test_what_has_no_place_is_a_loss_and_no_crash() -> None:
    losses = Losses()
    body_of(
        build_message("user", text("a"), Media(kind="video", url="https://example.org/v", at="video")),
        build_message("user", text("a"), Media(kind="document", url="https://example.org/d", at="document")),
        build_message("user", text("a"), Media(kind="audio", url="https://example.org/a", at="audio")),
        build_message("assistant", HostedCall(id="h", tool="web_search", at="hosted")),
        losses=losses,
    )
    assert [loss.path for loss in losses] == ["video", "document", "audio", "hosted"]


@pytest.mark.rule("H49")
def test_a_refusal_keeps_its_field() -> None:
    assert messages_of(build_message("assistant", Refusal(text="No."))) == [
        {"role": "assistant", "content": "", "refusal": "No."}
    ]


@pytest.mark.rule("R38", "R40")
def test_the_history_of_an_agent_loop() -> None:
    assert messages_of(
        build_message("user", text("Read two files")),
        build_message(
            "assistant", text("Let me read."), READ, ToolCall(id="toolu_b", name="Read", arguments="{}")
        ),
        build_message(
            "tool", result("toolu_abc123", text("print('hello world')")), result("toolu_b", text("b"))
        ),
        build_message("assistant", text("Done")),
    ) == [
        {"role": "user", "content": "Read two files"},
        {
            "role": "assistant",
            "content": "Let me read.",
            "tool_calls": [
                READ_CALL,
                {"id": "toolu_b", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "toolu_abc123", "content": "print('hello world')"},
        {"role": "tool", "tool_call_id": "toolu_b", "content": "b"},
        {"role": "assistant", "content": "Done"},
    ]


@pytest.mark.rule("R11", "R12")
def test_a_tool_becomes_a_function_with_its_schema() -> None:
    schema: Json = {"$schema": "s", "type": "object", "properties": {"p": {}}, "required": ["p"]}
    assert body_of(tools=(Tool(name="Read", description="Reads.", schema=schema),))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "Read",
                "description": "Reads.",
                "parameters": {"type": "object", "properties": {"p": {}}, "required": ["p"]},
            },
        }
    ]
    assert "$schema" in schema


@pytest.mark.rule("R12", "R13", "H35")
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}, {"$schema": "s"}])
def test_a_tool_that_reports_little_gets_what_servers_expect(schema: Json | None) -> None:
    (tool,) = list_of(body_of(tools=(Tool(name="Now", schema=schema),))["tools"])
    assert tool["function"] == {
        "name": "Now",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


@pytest.mark.rule("H33", "P34")
def test_strictness_is_written_only_when_wanted() -> None:
    strict, lax = list_of(body_of(tools=(Tool(name="a", strict=True), Tool(name="b", strict=False)))["tools"])
    assert "strict" in str(strict)
    assert "strict" not in str(lax)


@pytest.mark.rule("R14", "R16")
def test_without_tools_nothing_is_written_about_them() -> None:
    assert body_of(tool_choice=ToolChoice(mode="auto"), parallel_calls=False) == {
        "model": "claude",
        "messages": [],
    }
    assert "tool_choice" not in body_of(tools=(TOOL,))


@pytest.mark.rule("R15", "R16", "C5", "P35")
@pytest.mark.parametrize(
    ("choice", "written"),
    [
        (ToolChoice(mode="auto"), "auto"),
        (ToolChoice(mode="required"), "required"),
        (ToolChoice(mode="none"), "none"),
        (ToolChoice(mode="named", name="Read"), {"type": "function", "function": {"name": "Read"}}),
        (ToolChoice(mode="named", name="p", kind="custom"), {"type": "custom", "custom": {"name": "p"}}),
        (
            ToolChoice(mode="allowed", allowed=("Read",), allowed_mode="required"),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "Read"}}],
                },
            },
        ),
    ],
)
def test_tool_choices(choice: ToolChoice, written: object) -> None:
    body = body_of(tools=(TOOL,), tool_choice=choice, parallel_calls=False)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (written, False)


def test_a_choice_or_tool_that_cannot_be_written_is_a_loss() -> None:
    losses = Losses()
    body = body_of(
        tools=(TOOL, Tool(name="file_search", kind="hosted", common_name="file_search", at="tools[1]")),
        tool_choice=ToolChoice(mode="named", name="file_search", kind="hosted"),
        losses=losses,
    )
    assert "tool_choice" not in body
    assert len(list_of(body["tools"])) == 1
    assert [loss.path for loss in losses] == ["tools[1]", "tool_choice"]


@pytest.mark.rule("H22")
def test_a_custom_tool_with_its_grammar() -> None:
    grammar = ToolGrammar(syntax="lark", definition="start: x")
    tool = Tool(name="patch", kind="custom", description="d", grammar=grammar)
    assert body_of(tools=(tool,))["tools"] == [
        {
            "type": "custom",
            "custom": {
                "name": "patch",
                "description": "d",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}},
            },
        }
    ]


@pytest.mark.rule("R111", "R112", "H61")
def test_usage_is_asked_for_with_streams_alone() -> None:
    assert body_of(stream=True)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body_of()
    quiet = build_target_facts(Profile(dialect="openai_chat", stream_usage=False), "anthropic")
    assert "stream_options" not in body_of(stream=True, target=quiet)


@pytest.mark.rule("R117", "H56")
def test_the_cap_has_the_name_that_the_server_knows() -> None:
    assert body_of(max_tokens=5)["max_tokens"] == 5
    modern = build_target_facts(
        Profile(dialect="openai_chat", max_tokens_field="max_completion_tokens"), "anthropic"
    )
    assert body_of(max_tokens=5, target=modern)["max_completion_tokens"] == 5


@pytest.mark.rule("R118")
def test_settings_are_written_by_their_names_here() -> None:
    body = body_of(
        temperature=0.5,
        top_p=0.9,
        stop=("a", "b"),
        seed=1,
        candidates=2,
        reasoning=ReasoningSettings(effort="high", budget=5),
        service_tier="flex",
        user="u",
        output=OutputFormat(kind="json_schema", schema={"type": "object"}, strict=True),
    )
    assert body == {
        "model": "claude",
        "messages": [],
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["a", "b"],
        "seed": 1,
        "n": 2,
        "reasoning_effort": "high",
        "service_tier": "flex",
        "user": "u",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
    }


@pytest.mark.rule("H59")
def test_cache_wishes_go_where_they_are_understood() -> None:
    marked = build_message("user", text("a", cache=CacheMark(ttl="1h")), text("b"))
    plain = body_of(marked, cache_key="k")
    assert plain["messages"] == [{"role": "user", "content": "ab"}]
    assert "prompt_cache_key" not in plain
    keyed = build_target_facts(Profile(dialect="openai_chat", caching="key"), "anthropic")
    assert body_of(marked, cache_key="k", target=keyed)["prompt_cache_key"] == "k"
    marking = build_target_facts(Profile(dialect="openai_chat", caching="breakpoints"), "anthropic")
    body = body_of(marked, target=marking)
    assert list_of(body["messages"])[0]["content"] == [
        {"type": "text", "text": "a", "prompt_cache_breakpoint": {"ttl": "12h", "mode": "explicit"}},
        {"type": "text", "text": "b"},
    ]
    assert body["prompt_cache_options"] == {"mode": "explicit"}


def test_the_targets_model_is_asked() -> None:
    assert (
        body_of(target=build_target_facts(Profile(dialect="openai_chat", model="qwen"), "anthropic"))["model"]
        == "qwen"
    )


def test_forms_and_extras_of_another_dialect_are_not_written() -> None:
    body = body_of(
        build_message("user", text("a")), build_message("assistant", text("b"), READ), tools=(TOOL,)
    )
    assert "secret" not in str(body)


def test_old_functions_become_tools_elsewhere_and_stay_functions_here() -> None:
    raw: Json = {
        "model": "m",
        "messages": [
            {"role": "assistant", "content": None, "function_call": {"name": "n", "arguments": "{}"}},
            {"role": "function", "name": "n", "content": "a"},
        ],
        "functions": [{"name": "n"}],
    }
    request = DIALECT.read_request(raw, Losses())
    foreign = msgspec.structs.replace(request, dialect="anthropic")
    body = DIALECT.write_request(foreign, SERVER, Losses())
    calling, answering = list_of(body["messages"])
    assert list_of(calling["tool_calls"])[0]["id"] == answering["tool_call_id"]
    assert "functions" not in body
    assert "functions" in DIALECT.write_request(request, TargetFacts(dialect="openai_chat"), Losses())
