"""What a Gemini request means: messages, tools, settings, whichever way it was spelled."""

import pytest

from dragoman.hub.blocks import (
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    SearchOptions,
    Text,
    ToolCall,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.hub.seal import Seal
from tests.dialects.gemini.replies import asked, model, recorded_json, stems, user

HELLO = [user({"text": "hello"})]


def blocks(*contents: object) -> list[object]:
    return [block for message in asked({"contents": list(contents)}).messages for block in message.blocks]


def configured(**config: object) -> Request:
    return asked({"contents": HELLO, "generationConfig": config})


@pytest.mark.rule("P71", "P72")
def test_the_model_and_the_wish_to_stream_come_from_the_url() -> None:
    request = asked({"contents": HELLO}, model="models/gemini-x", stream=True)
    assert (request.dialect, request.model, request.stream) == ("gemini", "gemini-x", True)


def test_a_model_named_in_the_body_is_used_if_the_url_has_none() -> None:
    assert asked({"contents": HELLO, "model": "models/gemini-y"}, model="").model == "gemini-y"
    assert asked({"contents": HELLO, "model": "models/gemini-y"}, model="gemini-x").model == "gemini-x"


def test_roles_become_ours() -> None:
    request = asked(
        {
            "contents": [
                user({"text": "a"}),
                model({"text": "b"}),
                {"role": "function", "parts": [{"text": "c"}]},
            ]
        }
    )
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]


@pytest.mark.rule("P71", "R22")
@pytest.mark.parametrize(
    "instruction",
    [
        "be brief",
        {"parts": [{"text": "be brief"}]},
        {"role": "user", "parts": [{"text": "be brief"}]},
        {"parts": {"text": "be brief"}},
    ],
)
def test_the_system_instruction_is_the_first_message(instruction: object) -> None:
    first, second = asked({"contents": HELLO, "systemInstruction": instruction}).messages
    assert (first.role, [block.text for block in first.blocks if isinstance(block, Text)]) == (
        "system",
        ["be brief"],
    )
    assert first.form.split()[0] == "top"
    assert second.role == "user"


@pytest.mark.parametrize(
    "contents",
    [
        "hello",
        {"parts": [{"text": "hello"}]},
        ["hello"],
        [{"text": "hello"}],
        [{"role": "user", "parts": "hello"}],
    ],
)
def test_shorter_spellings_of_contents_mean_the_same(contents: object) -> None:
    (message,) = asked({"contents": contents}).messages
    (block,) = message.blocks
    assert message.role == "user"
    assert isinstance(block, Text)
    assert block.text == "hello"


def test_every_block_knows_where_it_stood() -> None:
    request = asked(
        {"contents": [user({"text": "a"}), model({"text": "b"}, {"functionCall": {"name": "run"}})]}
    )
    assert [block.at for block in request.messages[1].blocks] == [
        "contents[1].parts[0]",
        "contents[1].parts[1]",
    ]


@pytest.mark.rule("R129", "H6")
def test_thoughts_and_signatures_are_kept_apart_from_text() -> None:
    thought, text, carrier, call = blocks(
        model(
            {"text": "hm", "thought": True},
            {"text": "so", "thoughtSignature": "YQ=="},
            {"text": "", "thoughtSignature": "Yg=="},
            {"functionCall": {"id": "c1", "name": "run", "args": {}}, "thoughtSignature": "Yw=="},
        )
    )
    assert isinstance(thought, Reasoning)
    assert isinstance(text, Text)
    assert isinstance(carrier, Reasoning)
    assert isinstance(call, ToolCall)
    assert thought.parts == ("hm",)
    assert text.seal == Seal("gemini", "", "YQ==")
    assert (carrier.parts, carrier.seal) == ((), Seal("gemini", "", "Yg=="))
    assert call.seal == Seal("gemini", "", "Yw==")


@pytest.mark.rule("H6")
@pytest.mark.parametrize(
    "sentinel", ["skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="]
)
def test_the_sentinel_is_no_seal(sentinel: str) -> None:
    (call,) = blocks(model({"functionCall": {"name": "run"}, "thoughtSignature": sentinel}))
    assert isinstance(call, ToolCall)
    assert call.seal is None


@pytest.mark.rule("R130", "H45", "H46")
@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("image/png", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "document"),
        ("text/plain", "document"),
    ],
)
def test_data_is_a_picture_a_recording_or_a_document_by_its_type(media_type: str, kind: str) -> None:
    (media,) = blocks(user({"inlineData": {"mimeType": media_type, "data": "AAAA", "displayName": "x"}}))
    assert isinstance(media, Media)
    assert (media.kind, media.media_type, media.data, media.title) == (kind, media_type, "AAAA", "x")


@pytest.mark.parametrize(
    ("uri", "private"),
    [
        ("https://example.org/a.png", False),
        ("gs://bucket/a.png", True),
        ("https://generativelanguage.googleapis.com/v1beta/files/abc", True),
    ],
)
def test_a_file_that_only_the_vendor_can_open_has_an_id_and_no_address(uri: str, private: bool) -> None:
    (media,) = blocks(user({"fileData": {"mimeType": "image/png", "fileUri": uri}}))
    assert isinstance(media, Media)
    assert (media.url, media.file_id) == (("", uri) if private else (uri, ""))


@pytest.mark.rule("H16")
def test_calls_and_results_without_ids_find_each_other_by_name_and_order() -> None:
    found = blocks(
        model(
            {"functionCall": {"name": "read", "args": {"n": 1}}},
            {"functionCall": {"name": "run", "args": {}}},
            {"functionCall": {"name": "read", "args": {"n": 2}}},
        ),
        user(
            {"functionResponse": {"name": "read", "response": {"output": "first"}}},
            {"functionResponse": {"name": "read", "response": {"output": "second"}}},
            {"functionResponse": {"name": "run", "response": {"output": "third"}}},
        ),
    )
    first, run, second = [block.id for block in found if isinstance(block, ToolCall)]
    assert len({first, run, second}) == 3
    assert [block.call_id for block in found if isinstance(block, ToolResult)] == [first, second, run]


@pytest.mark.rule("H16")
def test_ids_that_were_made_do_not_change_when_the_history_grows() -> None:
    call, result = {"functionCall": {"name": "run"}}, {"functionResponse": {"name": "run", "response": {}}}
    short = blocks(model(call), user(result))
    long = blocks(model(call), user(result), model(call), user(result))
    ids = [block.id for block in long if isinstance(block, ToolCall)]
    assert isinstance(short[0], ToolCall)
    assert short[0].id == ids[0]
    assert ids[0] != ids[1]
    assert all(len(made) <= 40 for made in ids)


def test_ids_that_were_given_are_kept_and_a_result_without_one_still_finds_its_call() -> None:
    found = blocks(
        model({"functionCall": {"id": "a", "name": "run"}}, {"functionCall": {"id": "b", "name": "run"}}),
        user(
            {"functionResponse": {"id": "b", "name": "run", "response": {}}},
            {"functionResponse": {"name": "run", "response": {}}},
        ),
    )
    assert [block.call_id for block in found if isinstance(block, ToolResult)] == ["b", "a"]


@pytest.mark.rule("H18")
def test_a_result_without_a_call_has_an_id_all_the_same() -> None:
    (result,) = blocks(user({"functionResponse": {"name": "run", "response": {"output": "x"}}}))
    assert isinstance(result, ToolResult)
    assert result.call_id


@pytest.mark.rule("R35", "H21")
@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"output": "fine"}, "fine", False),
        ({"output": {"a": 1}}, '{"a":1}', False),
        ({"result": "fine"}, "fine", False),
        ({"result": 3}, "3", False),
        ({"error": "broken"}, "broken", True),
        ({"error": {"code": 5}}, '{"code":5}', True),
        ({"name": "run", "content": "fine"}, "fine", False),
        ({"name": "other", "content": "fine"}, '{"name":"other","content":"fine"}', False),
        ({"a": 1, "b": 2}, '{"a":1,"b":2}', False),
        ({"error": "broken", "code": 5}, '{"error":"broken","code":5}', True),
        ({}, "{}", False),
    ],
)
def test_a_response_is_unwrapped(response: object, text: str, is_error: bool) -> None:
    (result,) = blocks(user({"functionResponse": {"id": "c", "name": "run", "response": response}}))
    assert isinstance(result, ToolResult)
    (inner,) = result.content
    assert isinstance(inner, Text)
    assert (result.name, inner.text, result.is_error) == ("run", text, is_error)


@pytest.mark.rule("H20", "P38")
def test_pictures_in_a_response_follow_its_text() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    (result,) = blocks(
        user({"functionResponse": {"name": "see", "response": {"output": "look"}, "parts": [picture]}})
    )
    assert isinstance(result, ToolResult)
    assert [type(inner) for inner in result.content] == [Text, Media]


@pytest.mark.rule("H28")
def test_what_the_server_s_tools_did_is_reported_as_calls_and_results() -> None:
    call, result, search, found = blocks(
        model(
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
            {"toolCall": {"toolType": "URL_CONTEXT", "id": "t1", "args": {"url": "x"}}},
            {"toolResponse": {"toolType": "URL_CONTEXT", "id": "t1", "response": {"ok": 1}}},
        )
    )
    assert isinstance(call, HostedCall)
    assert isinstance(result, HostedResult)
    assert isinstance(search, HostedCall)
    assert isinstance(found, HostedResult)
    assert (call.tool, result.call_id, result.is_error) == ("code_execution", call.id, True)
    assert (search.tool, search.id, found.call_id) == ("web_fetch", "t1", "t1")


def test_an_unknown_part_is_kept_whole() -> None:
    (block,) = blocks(user({"hologram": {"depth": 3}}))
    assert block == Opaque(kind="hologram", value={"hologram": {"depth": 3}}, at="contents[0].parts[0]")


@pytest.mark.rule("H53", "H56")
def test_settings_become_the_request_s_own_and_know_where_they_stood() -> None:
    request = configured(
        temperature=1,
        topP=0.5,
        topK=40.0,
        maxOutputTokens=100,
        stopSequences=["END"],
        candidateCount=2,
        seed=7,
        presencePenalty=0.1,
        frequencyPenalty=0.2,
        responseLogprobs=True,
        logprobs=3,
        speechConfig={"a": 1},
    )
    assert (request.temperature, request.top_p, request.top_k, request.max_tokens) == (1, 0.5, 40, 100)
    assert (request.stop, request.candidates, request.seed) == (("END",), 2, 7)
    assert (request.presence_penalty, request.frequency_penalty) == (0.1, 0.2)
    assert (request.logprobs, request.top_logprobs) == (True, 3)
    assert request.extras == {"generationConfig.speechConfig": {"a": 1}}
    assert request.path_of("max_tokens") == "generationConfig.maxOutputTokens"
    assert request.path_of("stop") == "generationConfig.stopSequences"


def test_names_in_snake_case_mean_the_same() -> None:
    to_snake = asked(
        {
            "contents": [
                {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
                {"role": "model", "parts": [{"function_call": {"name": "run", "args": {"file_path": "x"}}}]},
            ],
            "system_instruction": {"parts": [{"text": "be brief"}]},
            "generation_config": {"max_output_tokens": 5, "thinking_config": {"thinking_budget": 9}},
            "tools": [
                {"function_declarations": [{"name": "run", "parameters_json_schema": {"type": "object"}}]}
            ],
            "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["run"]}},
        }
    )
    assert [message.role for message in to_snake.messages] == ["system", "user", "assistant"]
    assert isinstance(to_snake.messages[1].blocks[0], Media)
    call = to_snake.messages[2].blocks[0]
    assert isinstance(call, ToolCall)
    assert call.arguments == '{"file_path":"x"}'
    assert to_snake.max_tokens == 5
    assert to_snake.reasoning == ReasoningSettings(mode="on", budget=9)
    assert to_snake.tools[0].schema == {"type": "object"}
    assert to_snake.tool_choice is not None
    assert to_snake.tool_choice.name == "run"


@pytest.mark.rule("H10")
@pytest.mark.parametrize(
    ("config", "wish"),
    [
        ({"thinkingBudget": 0}, ReasoningSettings(mode="off")),
        ({"thinkingBudget": -1, "includeThoughts": True}, ReasoningSettings(mode="adaptive", show=True)),
        ({"thinkingBudget": 8192}, ReasoningSettings(mode="on", budget=8192)),
        ({"thinkingLevel": "HIGH"}, ReasoningSettings(effort="high")),
        ({"thinkingLevel": "low", "includeThoughts": False}, ReasoningSettings(effort="low", show=False)),
        ({"thinkingLevel": "HUGE"}, ReasoningSettings(extras={"thinkingLevel": "HUGE"})),
    ],
)
def test_the_wish_to_think_is_read_in_all_its_terms(config: object, wish: ReasoningSettings) -> None:
    assert configured(thinkingConfig=config).reasoning == wish


@pytest.mark.rule("H57")
def test_the_form_of_the_answer_is_read_with_types_in_lower_case() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "nullable": True}}}
    plain = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    for name, expected in (
        ("responseSchema", plain),
        ("responseJsonSchema", {**plain, "properties": {"a": {"type": "string", "nullable": True}}}),
    ):
        output = configured(responseMimeType="application/json", **{name: schema}).output
        assert output is not None
        assert (output.kind, output.schema) == ("json_schema", expected)
    assert configured(responseMimeType="application/json").output == OutputFormat(kind="json_object")
    assert configured(responseMimeType="text/plain").output == OutputFormat(kind="text")
    assert configured(responseMimeType="text/x.enum").output is None


@pytest.mark.rule("H34", "P71", "R12")
def test_schemas_of_functions_are_plain_json_schema_whichever_field_they_stood_in() -> None:
    request = asked(
        {
            "contents": HELLO,
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "a",
                            "description": "does a",
                            "parameters": {
                                "type": "OBJECT",
                                "properties": {
                                    "x": {"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "2"}
                                },
                            },
                        },
                        {
                            "name": "b",
                            "parametersJsonSchema": {"type": "object", "additionalProperties": False},
                        },
                        {"name": "c"},
                    ]
                }
            ],
        }
    )
    assert [(tool.name, tool.description) for tool in request.tools] == [
        ("a", "does a"),
        ("b", None),
        ("c", None),
    ]
    assert [tool.schema for tool in request.tools] == [
        {
            "type": "object",
            "properties": {"x": {"type": "array", "items": {"type": "string"}, "minItems": 2}},
        },
        {"type": "object", "additionalProperties": False},
        None,
    ]
    assert request.tools[1].at == "tools[0].functionDeclarations[1]"


@pytest.mark.rule("H28")
def test_the_server_s_tools_are_known_by_their_common_names() -> None:
    request = asked(
        {
            "contents": HELLO,
            "tools": [
                {"googleSearch": {"excludeDomains": ["x"]}, "codeExecution": {}},
                {"url_context": {}},
                {"fileSearch": {}},
            ],
        }
    )
    assert [(tool.kind, tool.name, tool.common_name) for tool in request.tools] == [
        ("hosted", "googleSearch", "web_search"),
        ("hosted", "codeExecution", "code_execution"),
        ("hosted", "urlContext", "web_fetch"),
        ("hosted", "fileSearch", "file_search"),
    ]
    assert request.tools[0].search == SearchOptions(
        blocked_domains=("x",), paths={"blocked_domains": "excludeDomains"}
    )


@pytest.mark.rule("R15", "H32")
@pytest.mark.parametrize(
    ("config", "mode", "name", "allowed", "allowed_mode"),
    [
        ({"mode": "AUTO"}, "auto", "", (), "auto"),
        ({"mode": "any"}, "required", "", (), "auto"),
        ({"mode": "NONE"}, "none", "", (), "auto"),
        ({"mode": "VALIDATED"}, "auto", "", (), "auto"),
        ({}, "auto", "", (), "auto"),
        ({"mode": "ANY", "allowedFunctionNames": ["a"]}, "named", "a", (), "auto"),
        ({"mode": "ANY", "allowedFunctionNames": ["a", "b"]}, "allowed", "", ("a", "b"), "required"),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["a"]}, "allowed", "", ("a",), "auto"),
    ],
)
def test_the_choice_of_tools_is_read(
    config: object, mode: str, name: str, allowed: tuple[str, ...], allowed_mode: str
) -> None:
    choice = asked({"contents": HELLO, "toolConfig": {"functionCallingConfig": config}}).tool_choice
    assert isinstance(choice, ToolChoice)
    assert (choice.mode, choice.name, choice.allowed, choice.allowed_mode) == (
        mode,
        name,
        allowed,
        allowed_mode,
    )


def test_what_only_gemini_knows_is_kept() -> None:
    body = {
        "contents": HELLO,
        "safetySettings": [{"category": "A"}],
        "cachedContent": "cachedContents/x",
        "labels": {"a": "b"},
        "toolConfig": {"retrievalConfig": {}},
    }
    assert asked(body).extras == {
        "safetySettings": [{"category": "A"}],
        "cachedContent": "cachedContents/x",
        "labels": {"a": "b"},
        "toolConfig.retrievalConfig": {},
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "contents"),
        ({"contents": 5}, "contents"),
        ({"contents": [5]}, "contents[0]"),
        ({"contents": [{"role": "emperor", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"role": "user", "parts": 5}]}, "contents[0].parts"),
        ({"contents": [user(5)]}, "contents[0].parts[0]"),
        ({"contents": [user({"text": 5})]}, "contents[0].parts[0].text"),
        ({"contents": [model({"functionCall": 5})]}, "contents[0].parts[0].functionCall"),
        ({"contents": [model({"functionCall": {"args": {}}})]}, "contents[0].parts[0].functionCall.name"),
        (
            {"contents": [model({"functionCall": {"name": "a", "args": []}})]},
            "contents[0].parts[0].functionCall.args",
        ),
        ({"contents": [user({"functionResponse": 5})]}, "contents[0].parts[0].functionResponse"),
        ({"contents": [user({"inlineData": {"data": 5}})]}, "contents[0].parts[0].inlineData.data"),
        ({"contents": HELLO, "systemInstruction": 5}, "systemInstruction"),
        ({"contents": HELLO, "tools": {}}, "tools"),
        ({"contents": HELLO, "tools": [5]}, "tools[0]"),
        ({"contents": HELLO, "tools": [{"functionDeclarations": 5}]}, "tools[0].functionDeclarations"),
        (
            {"contents": HELLO, "tools": [{"functionDeclarations": [{}]}]},
            "tools[0].functionDeclarations[0].name",
        ),
        (
            {"contents": HELLO, "toolConfig": {"functionCallingConfig": {"mode": 5}}},
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            {"contents": HELLO, "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": [5]}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames[0]",
        ),
        ({"contents": HELLO, "generationConfig": []}, "generationConfig"),
        ({"contents": HELLO, "generationConfig": {"temperature": "hot"}}, "generationConfig.temperature"),
        (
            {"contents": HELLO, "generationConfig": {"stopSequences": [5]}},
            "generationConfig.stopSequences[0]",
        ),
        (
            {"contents": HELLO, "generationConfig": {"responseMimeType": 5}},
            "generationConfig.responseMimeType",
        ),
        (
            {"contents": HELLO, "generationConfig": {"thinkingConfig": {"thinkingBudget": "x"}}},
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
    ],
)
def test_an_error_names_the_place_and_never_the_value(body: object, path: str) -> None:
    with pytest.raises(ClientProtocolError) as caught:
        asked(body)
    assert caught.value.path == path
    assert "expected" in caught.value.message
    assert "emperor" not in caught.value.message


@pytest.mark.parametrize("stem", stems("request-", ".json"))
def test_recorded_requests_have_a_call_for_every_result(stem: str) -> None:
    request = asked(recorded_json(f"request-{stem}.json")["body"])
    calls = {
        block.id for message in request.messages for block in message.blocks if isinstance(block, ToolCall)
    }
    results = {
        block.call_id
        for message in request.messages
        for block in message.blocks
        if isinstance(block, ToolResult)
    }
    assert results <= calls
    assert isinstance(request.messages[0], Message)
