"""Requests for a Gemini upstream: exact for Gemini's own clients, canonical for all others."""

import msgspec
import pytest

from dragoman.dialects.gemini import path
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, Role, ToolChoice
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Profile, TargetFacts, build_target_facts
from tests.dialects.gemini.replies import (
    FOREIGN,
    NATIVE,
    asked,
    dig,
    echoed,
    model,
    recorded_json,
    sent,
    stems,
    user,
)

HELLO = [user({"text": "hello"})]
SUBSET = build_target_facts(Profile(dialect="gemini", json_schema=False), "anthropic")
BY_LEVEL = build_target_facts(Profile(dialect="gemini", reasoning="level"), "anthropic")
OBJECT: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}


def foreign(*messages: Message, **fields: object) -> Request:
    return msgspec.structs.replace(Request(dialect="anthropic", model="m", messages=messages), **fields)


def build_message(role: Role, *blocks: AnyBlock) -> Message:
    return Message(role=role, blocks=blocks)


@pytest.mark.parametrize("stem", stems("request-", ".json"))
def test_a_recorded_request_goes_to_gemini_as_it_came(stem: str) -> None:
    body = recorded_json(f"request-{stem}.json")["body"]
    assert echoed(body) == body


@pytest.mark.parametrize(
    "body",
    [
        {"contents": []},
        {"contents": "hello"},
        {"contents": {"text": "hello"}},
        {"contents": {"role": "user", "parts": []}},
        {"contents": ["hello", {"text": "bare"}, {"functionResponse": {"name": "a"}}]},
        {"contents": [{"parts": [{"text": "a"}]}]},
        {"contents": [{"role": "", "parts": ["a", {"text": ""}]}]},
        {"contents": [{"role": "function", "parts": {"text": "a"}, "beyond": 1}]},
        {"contents": [{"role": "system", "parts": "text"}, {"role": "assistant", "parts": [{}]}]},
        {"contents": [{"role": "user"}, {"role": "user", "parts": None}]},
        {"contents": HELLO, "systemInstruction": "be brief"},
        {"contents": HELLO, "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}], "role": "system"}},
        {"contents": HELLO, "systemInstruction": {"role": "user", "parts": "be brief", "more": 1}},
        {"contents": HELLO, "systemInstruction": None, "tools": None, "generationConfig": None},
        {"contents": HELLO, "tools": []},
        {"contents": HELLO, "tools": [{}, {"functionDeclarations": []}, {"googleSearch": {}}]},
        {"contents": HELLO, "tools": [{"googleSearch": {"a": 1}, "functionDeclarations": [{"name": "x"}]}]},
        {"contents": HELLO, "tools": [{"mcpServers": [{"name": "x"}]}, {"urlContext": None}]},
        {"contents": HELLO, "toolConfig": {}},
        {"contents": HELLO, "toolConfig": {"functionCallingConfig": {}, "retrievalConfig": {"a": 1}}},
        {
            "contents": HELLO,
            "toolConfig": {"functionCallingConfig": {"mode": "any", "allowedFunctionNames": []}},
        },
        {
            "contents": HELLO,
            "toolConfig": {"functionCallingConfig": {"mode": "NONE", "allowedFunctionNames": ["a"]}},
        },
        {"contents": HELLO, "generationConfig": {}},
        {"contents": HELLO, "generationConfig": {"stopSequences": [], "responseModalities": ["TEXT"]}},
        {"contents": HELLO, "generationConfig": {"thinkingConfig": {}}},
        {
            "contents": HELLO,
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 0, "thinkingLevel": "LOW"}},
        },
        {"contents": HELLO, "generationConfig": {"thinkingConfig": {"thinkingBudget": -1, "x": 1}}},
        {
            "contents": HELLO,
            "generationConfig": {"responseMimeType": "text/x.enum", "responseSchema": {"enum": ["a"]}},
        },
        {"contents": HELLO, "generationConfig": {"responseMimeType": "text/plain"}},
        {"contents": HELLO, "generationConfig": {"responseSchema": {"type": "STRING", "min_length": "2"}}},
        {
            "contents": HELLO,
            "generationConfig": {"responseJsonSchema": {"type": "OBJECT"}, "responseSchema": {}},
        },
        {"contents": HELLO, "model": "models/gemini-test", "serviceTier": "flex", "store": False},
        {"contents": HELLO, "model": "gemini-test", "labels": {"snake_case": "stays"}, "stream": True},
        {"system_instruction": {"parts": [{"text": "a"}]}, "contents": HELLO, "safety_settings": []},
    ],
)
def test_every_way_to_spell_a_request_is_kept_for_gemini(body: object) -> None:
    assert echoed(body) == body


@pytest.mark.parametrize(
    "part",
    [
        {"text": "a", "videoMetadata": {"fps": 1}},
        {"text": "a", "thought": False},
        {"text": "", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "YQ=="},
        {"thoughtSignature": "YQ=="},
        {"thought": True, "thoughtSignature": "YQ=="},
        {"text": "", "thoughtSignature": "YQ=="},
        {"text": "a", "thoughtSignature": "skip_thought_signature_validator"},
        {
            "text": None,
            "inlineData": {"mimeType": "image/png", "data": "AAAA", "x": 1},
            "mediaResolution": {},
        },
        {"inlineData": {"data": "AAAA"}},
        {"inlineData": {"data": ""}},
        {"fileData": {"fileUri": "files/a"}, "videoMetadata": {"startOffset": "1s"}},
        {"fileData": {"fileUri": "https://example.org/a.png", "displayName": "a"}},
        {"functionCall": {"name": "a"}},
        {"functionCall": {"name": "a", "args": None, "id": ""}},
        {"functionCall": {"name": "a", "args": {"b": 1.5}, "x": 1}, "thoughtSignature": "YQ==", "y": 2},
        {"functionResponse": {"name": "a", "response": {"output": [1, 2]}, "willContinue": True, "id": "x"}},
        {"functionResponse": {"name": "a", "response": {"result": None}, "parts": []}},
        {
            "functionResponse": {
                "name": "a",
                "response": {"name": "a", "content": [1]},
                "scheduling": "SILENT",
            }
        },
        {"functionResponse": {"name": "a", "response": "text", "id": ""}},
        {"functionResponse": {"response": {"error": "x", "more": 1}}},
        {
            "functionResponse": {
                "name": "a",
                "response": {},
                "parts": [{"inlineData": {"data": "AAAA", "mime_type": "a/b"}}],
            }
        },
        {"functionResponse": {"name": "a", "response": {}, "parts": [{"hologram": {}}]}},
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "YQ=="},
        {"code_execution_result": {"outcome": "OUTCOME_OK"}},
        {"toolCall": {"toolType": "NEW", "args": {}}},
        {"hologram": {"depth": 3}},
        {},
    ],
)
def test_every_part_is_kept_for_gemini(part: object) -> None:
    body = {"contents": [user({"text": "hi"}), model(part), user(part)]}
    assert echoed(body) == body


def test_a_model_that_was_renamed_is_renamed_in_the_body_too() -> None:
    request = asked({"contents": HELLO, "model": "models/old"}, model="old")
    assert sent(msgspec.structs.replace(request, model="new"), NATIVE)["model"] == "models/new"


def test_extras_of_another_dialect_are_not_written() -> None:
    request = foreign(
        build_message("user", Text(text="hi", extras={"cache_control": {}})), extras={"metadata": {}}
    )
    assert sent(request) == {"contents": [user({"text": "hi"})]}


@pytest.mark.rule("H38", "R22")
def test_system_messages_become_the_system_instruction() -> None:
    request = foreign(
        build_message("system", Text(text="a"), Text(text="b")),
        build_message("developer", Text(text="c")),
        build_message("user", Text(text="hi")),
    )
    assert sent(request) == {
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}, {"text": "c"}]},
        "contents": [user({"text": "hi"})],
    }


@pytest.mark.rule("H19", "P31", "P37")
def test_a_tool_loop_is_written_as_gemini_wants_it() -> None:
    request = foreign(
        build_message("user", Text(text="go")),
        build_message(
            "assistant",
            Text(text="I look."),
            ToolCall(id="c1", name="read", arguments='{"b": 1, "a": [1.5]}'),
            ToolCall(id="c2", name="run", arguments=""),
        ),
        build_message(
            "user",
            ToolResult(call_id="c1", content=(Text(text="one"), Text(text="two"))),
            ToolResult(call_id="c2", content=(Text(text="broken"),), is_error=True),
            Text(text="go on"),
        ),
    )
    assert sent(request)["contents"] == [
        user({"text": "go"}),
        model(
            {"text": "I look."},
            {
                "functionCall": {"id": "c1", "name": "read", "args": {"b": 1, "a": [1.5]}},
                "thoughtSignature": "skip_thought_signature_validator",
            },
            {"functionCall": {"id": "c2", "name": "run", "args": {}}},
        ),
        user(
            {"functionResponse": {"id": "c1", "name": "read", "response": {"output": "one\ntwo"}}},
            {"functionResponse": {"id": "c2", "name": "run", "response": {"error": "broken"}}},
            {"text": "go on"},
        ),
    ]


@pytest.mark.rule("H6")
def test_the_first_call_of_a_message_keeps_the_signature_it_has() -> None:
    seal = Seal("gemini", "", "YQ==")
    request = foreign(
        build_message("assistant", ToolCall(id="c1", name="a", seal=seal), ToolCall(id="c2", name="b")),
        build_message("assistant", ToolCall(id="c3", name="c")),
    )
    body = sent(request)
    assert dig(body, "contents", 0, "parts", 0, "thoughtSignature") == "YQ=="
    assert "thoughtSignature" not in msgspec.json.encode(dig(body, "contents", 0, "parts", 1)).decode()
    assert dig(body, "contents", 1, "parts", 0, "thoughtSignature") == "skip_thought_signature_validator"


@pytest.mark.rule("H1")
def test_a_foreign_seal_is_never_written() -> None:
    seal = Seal("anthropic", "", "c2VjcmV0")
    request = foreign(
        build_message("assistant", Reasoning(parts=("hm",), seal=seal), Text(text="a", seal=seal)),
        build_message(
            "assistant", Reasoning(redacted=True, seal=seal), ToolCall(id="c1", name="a", seal=seal)
        ),
    )
    assert b"c2VjcmV0" not in msgspec.json.encode(sent(request))


def test_own_seals_of_texts_and_thoughts_go_back_to_their_parts() -> None:
    seal = Seal("gemini", "", "YQ==")
    request = foreign(
        build_message(
            "assistant", Reasoning(parts=("hm",), seal=seal), Text(text="a", seal=seal), Reasoning(seal=seal)
        )
    )
    assert sent(request)["contents"] == [
        model(
            {"text": "hm", "thought": True, "thoughtSignature": "YQ=="},
            {"text": "a", "thoughtSignature": "YQ=="},
            {"text": "", "thoughtSignature": "YQ=="},
        )
    ]


@pytest.mark.rule("H12", "C15")
def test_arguments_that_are_no_object_are_wrapped_and_counted() -> None:
    losses = Losses()
    request = foreign(
        build_message("assistant", ToolCall(id="c1", name="a", arguments="oops", at="messages[0].content[0]"))
    )
    body = sent(request, losses=losses)
    assert dig(body, "contents", 0, "parts", 0, "functionCall", "args") == {"text": "oops"}
    assert [loss.path for loss in losses] == ["messages[0].content[0]"]


def test_a_result_without_a_known_call_is_named_by_its_id() -> None:
    body = sent(foreign(build_message("user", ToolResult(call_id="c9", content=()))))
    assert dig(body, "contents", 0, "parts", 0) == {
        "functionResponse": {"id": "c9", "name": "c9", "response": {"output": ""}}
    }


@pytest.mark.rule("H20", "P38")
def test_pictures_in_a_result_go_into_the_response_s_parts() -> None:
    picture = Media(kind="image", media_type="image/png", data="AAAA")
    body = sent(
        foreign(
            build_message("user", ToolResult(call_id="c1", name="see", content=(Text(text="look"), picture)))
        )
    )
    assert dig(body, "contents", 0, "parts", 0, "functionResponse") == {
        "id": "c1",
        "name": "see",
        "response": {"output": "look"},
        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
    }


@pytest.mark.rule("H43")
def test_empty_texts_and_empty_messages_are_left_out() -> None:
    request = foreign(
        build_message("user", Text(text="")),
        build_message("assistant"),
        build_message("user", Text(text="hi")),
    )
    assert sent(request)["contents"] == [user({"text": "hi"})]


def test_blocks_that_gemini_has_no_words_for_are_counted() -> None:
    losses = Losses()
    request = foreign(
        build_message(
            "assistant",
            Refusal(text="No."),
            HostedCall(id="s1", tool="web_search", at="x"),
            Opaque(kind="compaction", value={}, at="y"),
        )
    )
    assert sent(request, losses=losses)["contents"] == [model({"text": "No."})]
    assert [loss.path for loss in losses] == ["x", "y"]


@pytest.mark.rule("H34", "R12")
def test_functions_are_declared_by_json_schema_where_the_target_takes_it() -> None:
    request = foreign(tools=(Tool(name="a", description="does a", schema=OBJECT),))
    assert sent(request)["tools"] == [
        {"functionDeclarations": [{"name": "a", "description": "does a", "parametersJsonSchema": OBJECT}]}
    ]


@pytest.mark.rule("H34")
def test_functions_are_declared_in_capitals_where_the_target_takes_the_subset() -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "type": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["a"],
    }
    body = sent(foreign(tools=(Tool(name="a", schema=schema),)), SUBSET)
    assert dig(body, "tools", 0, "functionDeclarations", 0, "parameters") == {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "STRING", "nullable": True},
            "type": {"type": "ARRAY", "items": {"type": "INTEGER"}},
        },
        "required": ["a"],
    }


@pytest.mark.rule("H35")
@pytest.mark.parametrize(
    "schema", [None, {}, {"type": "object", "properties": {}, "additionalProperties": False}]
)
@pytest.mark.parametrize("target", [FOREIGN, SUBSET])
def test_a_tool_without_parameters_declares_none(
    schema: dict[str, object] | None, target: TargetFacts
) -> None:
    body = sent(foreign(tools=(Tool(name="a", description="does a", schema=schema),)), target)
    assert dig(body, "tools", 0, "functionDeclarations") == [{"name": "a", "description": "does a"}]


@pytest.mark.rule("R13")
def test_a_missing_description_is_empty() -> None:
    assert (
        dig(sent(foreign(tools=(Tool(name="a"),))), "tools", 0, "functionDeclarations", 0, "description")
        == ""
    )


def test_a_native_schema_becomes_the_subset_when_the_target_takes_no_other() -> None:
    declaration = {"name": "a", "parametersJsonSchema": OBJECT}
    request = asked({"contents": HELLO, "tools": [{"functionDeclarations": [declaration]}]})
    target = build_target_facts(Profile(dialect="gemini", json_schema=False), "gemini")
    assert dig(sent(request, target), "tools", 0, "functionDeclarations", 0) == {
        "name": "a",
        "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    }


@pytest.mark.rule("H28", "P30")
def test_servers_tools_are_translated_by_family_or_counted() -> None:
    losses = Losses()
    tools = (
        Tool(name="f", schema=OBJECT),
        Tool(name="web_search", kind="hosted", common_name="web_search"),
        Tool(name="image", kind="hosted", common_name="image_generation", at="tools[2]"),
        Tool(name="patch", kind="custom", at="tools[3]"),
        Tool(name="code", kind="hosted", common_name="code_execution"),
    )
    body = sent(foreign(tools=tools), losses=losses)
    assert body["tools"] == [
        {"functionDeclarations": [{"name": "f", "description": "", "parametersJsonSchema": OBJECT}]},
        {"googleSearch": {}},
        {"codeExecution": {}},
    ]
    assert [loss.path for loss in losses] == ["tools[2]", "tools[3]"]


@pytest.mark.rule("R14", "R15", "H32", "P35")
@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(mode="auto"), {"mode": "AUTO"}),
        (ToolChoice(mode="required"), {"mode": "ANY"}),
        (ToolChoice(mode="none"), {"mode": "NONE"}),
        (ToolChoice(mode="named", name="f"), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (
            ToolChoice(mode="allowed", allowed=("f", "g"), allowed_mode="required"),
            {"mode": "ANY", "allowedFunctionNames": ["f", "g"]},
        ),
        (ToolChoice(mode="allowed", allowed=("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
    ],
)
def test_the_choice_of_tools_is_written(choice: ToolChoice, config: object) -> None:
    body = sent(foreign(tools=(Tool(name="f"),), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.rule("R14")
def test_without_tools_there_is_no_choice() -> None:
    assert "toolConfig" not in sent(foreign(tool_choice=ToolChoice(mode="auto")))


@pytest.mark.rule("H53", "H55", "H56")
def test_settings_go_into_the_generation_config() -> None:
    body = sent(
        foreign(
            max_tokens=100,
            stop=("END",),
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            seed=7,
            candidates=2,
            presence_penalty=0.1,
            frequency_penalty=0.2,
            logprobs=True,
            top_logprobs=3,
            service_tier="flex",
            store=False,
        )
    )
    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "stopSequences": ["END"],
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "candidateCount": 2,
        "presencePenalty": 0.1,
        "frequencyPenalty": 0.2,
        "responseLogprobs": True,
        "logprobs": 3,
    }
    assert body["serviceTier"] == "flex"
    assert "store" not in body


@pytest.mark.rule("H10", "H11", "R129")
@pytest.mark.parametrize(
    ("wish", "target", "config"),
    [
        (ReasoningSettings(mode="off"), FOREIGN, {"thinkingBudget": 0}),
        (ReasoningSettings(mode="off"), BY_LEVEL, {"thinkingLevel": "MINIMAL"}),
        (
            ReasoningSettings(mode="on", budget=4096, show=True),
            FOREIGN,
            {"thinkingBudget": 4096, "includeThoughts": True},
        ),
        (ReasoningSettings(mode="adaptive"), FOREIGN, {"thinkingBudget": -1}),
        (
            ReasoningSettings(effort="max", show=False),
            BY_LEVEL,
            {"thinkingLevel": "HIGH", "includeThoughts": False},
        ),
        (ReasoningSettings(effort="minimal"), BY_LEVEL, {"thinkingLevel": "MINIMAL"}),
    ],
)
def test_the_wish_to_think_is_written_in_the_target_s_terms(
    wish: ReasoningSettings, target: TargetFacts, config: object
) -> None:
    assert sent(foreign(reasoning=wish), target)["generationConfig"] == {"thinkingConfig": config}


@pytest.mark.rule("H57")
@pytest.mark.parametrize(
    ("output", "target", "config"),
    [
        (OutputFormat(kind="json_object"), FOREIGN, {"responseMimeType": "application/json"}),
        (
            OutputFormat(kind="json_schema", schema=OBJECT, name="x"),
            FOREIGN,
            {"responseMimeType": "application/json", "responseJsonSchema": OBJECT},
        ),
        (
            OutputFormat(kind="json_schema", schema={"type": "string"}),
            SUBSET,
            {"responseMimeType": "application/json", "responseSchema": {"type": "STRING"}},
        ),
    ],
)
def test_the_form_of_the_answer_is_written(output: OutputFormat, target: TargetFacts, config: object) -> None:
    assert sent(foreign(output=output), target)["generationConfig"] == config


def test_plain_text_needs_no_word() -> None:
    assert "generationConfig" not in sent(foreign(output=OutputFormat(kind="text")))


@pytest.mark.parametrize(
    ("name", "stream", "end"),
    [
        ("gemini-x", True, "models/gemini-x:streamGenerateContent?alt=sse"),
        ("gemini-x", False, "models/gemini-x:generateContent"),
        ("tunedModels/x", False, "tunedModels/x:generateContent"),
    ],
)
def test_the_model_and_the_wish_to_stream_go_into_the_url(name: str, stream: bool, end: str) -> None:
    assert path(name, stream=stream) == end


def test_what_cannot_stand_in_a_message_or_a_result_is_counted_and_its_words_are_kept() -> None:
    losses = Losses()
    content = (
        Opaque(kind="search_result", value={}, text="in words"),
        ToolReference(name="a", at="x"),
        HostedResult(call_id="s", tool="code_execution", text="1", is_error=True),
    )
    request = foreign(
        build_message(
            "user", ToolResult(call_id="c1", name="a", content=content), ToolReference(name="b", at="y")
        ),
    )
    assert sent(request, losses=losses)["contents"] == [
        user(
            {
                "functionResponse": {
                    "id": "c1",
                    "name": "a",
                    "response": {"output": "in words"},
                    "parts": [{"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "1"}}],
                }
            }
        )
    ]
    assert [loss.path for loss in losses] == ["x", "y"]


def test_code_that_is_no_json_is_reported_as_it_is() -> None:
    request = foreign(
        build_message("assistant", HostedCall(id="s", tool="code_execution", arguments="print(1)"))
    )
    assert dig(sent(request), "contents", 0, "parts", 0) == {
        "executableCode": {"language": "PYTHON", "code": "print(1)"}
    }


def test_a_native_answer_schema_becomes_the_subset_when_the_target_takes_no_other() -> None:
    config = {"responseMimeType": "application/json", "responseJsonSchema": {"type": ["string", "NULL"]}}
    request = asked({"contents": HELLO, "generationConfig": config})
    target = build_target_facts(Profile(dialect="gemini", json_schema=False), "gemini")
    assert dig(sent(request, target), "generationConfig", "responseSchema") == {
        "type": "STRING",
        "nullable": True,
    }
