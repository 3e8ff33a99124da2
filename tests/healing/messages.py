"""Refusals as servers write them, each with what the server refuses; and messages that must not be healed.

The texts are those of the named servers, as their users report them; model names and numbers are examples.
"""

# ruff: noqa: E501, RUF001 (messages as servers write them)

from itertools import pairwise
from typing import Any

import jsonschema_rs
import msgspec

from tests.healing.vendor import Test, has, write_error

Json = dict[str, Any]


class Case(msgspec.Struct, frozen=True):
    """A refusal, the dialect of its server, and whether a body has what the server refuses."""

    server: str
    dialect: str
    message: str
    refuses: Test
    status: int = 400
    code: str | None = None
    #: The body of the error, if it is not OpenAI's error object.
    body: Json | None = None
    #: Members of the rich request that are replaced; None removes a member.
    changes: Json = {}
    #: The server accepts the same request if its reply is streamed.
    is_whole_only: bool = False

    @property
    def error(self) -> bytes:
        return msgspec.json.encode(self.body) if self.body else write_error(self.message, self.code)


def _pydantic(*location: str | int, kind: str = "extra_forbidden") -> Json:
    detail = [{"type": kind, "loc": list(location), "msg": "Extra inputs are not permitted", "input": "x"}]
    return {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "code": None}


def _google(message: str, *fields: str) -> Json:
    violations = [{"field": field, "description": message} for field in fields]
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}]
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return {"error": error | ({"details": details} if fields else {})}


def _claude(message: str) -> Json:
    return {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": message},
        "request_id": "req_9",
    }


CHAT, CLAUDE, RESPONSES, GEMINI = "openai_chat", "anthropic", "openai_responses", "gemini"

_ROLES = "messages.*.role"
_PARTS = "messages.*.content.*"


def _begins_late(body: Json) -> bool:
    """Whether a system message follows another message, or there are several."""
    return any(message["role"] == "system" for message in body["messages"][1:])


def _alternates(body: Json) -> bool:
    sides = [m["role"] for m in body["messages"] if m["role"] not in ("system", "developer")]
    return all(a != b or a == "tool" for a, b in pairwise(sides))


def _ends_with_assistant(body: Json) -> bool:
    return bool(body["messages"][-1]["role"] == "assistant")


def _has_media(kind: str) -> Test:
    return has(f"{_PARTS}.type", lambda value: value == kind)


def _thinks_whole(body: Json) -> bool:
    return not body.get("stream") and body.get("enable_thinking") is not False


#: Schemas of tools of MCP servers that are no JSON Schema, and one that lacks what OpenAI wants.
INVALID_SCHEMAS: tuple[Json, ...] = (
    {"type": "object", "properties": {"city": {"type": "any"}}},
    {"type": "object", "properties": {"city": "string"}, "required": ["city"]},
    {"type": "object", "properties": {"days": {"type": "array", "items": [{"type": "integer"}]}}},
    {"type": "object", "properties": {"days": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}},
    {"type": "object", "properties": {"city": {"type": "string", "required": True}}},
    {"type": "object", "properties": {"city": {"type": "string", "enum": "Oslo"}}, "required": "city"},
)
_ITEMS: Json = {"type": "object", "properties": {"days": {"type": "array"}}}
_INVALID = "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at https://docs.claude.com/en/docs/tool-use."


def _claude_tool(**fields: object) -> Json:
    return {"tools": [{"name": "weather", "description": "It.", **fields}], "tool_choice": None}


def _has_invalid_schema(body: Json) -> bool:
    schemas = [tool["input_schema"] for tool in body["tools"] if "input_schema" in tool]
    return not all(map(jsonschema_rs.meta.is_valid, schemas))


def _lacks_object(body: Json) -> bool:
    functions = [tool for tool in body["tools"] if tool.get("type", "custom") == "custom"]
    return any(tool.get("input_schema", {}).get("type") != "object" for tool in functions)


def _chat_tool(schema: Json) -> Json:
    function = {"name": "weather", "description": "It.", "parameters": schema}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": None}


def _lacks_items(body: Json) -> bool:
    return any(
        "items" not in tool["function"]["parameters"]["properties"].get("days", {"items": 0})
        for tool in body["tools"]
        if tool["type"] == "function"
    )


def _is_no_object(body: Json) -> bool:
    return any(
        tool["function"]["parameters"].get("type") != "object"
        for tool in body["tools"]
        if tool["type"] == "function"
    )


CASES: tuple[Case, ...] = (
    # Schemas of tools.
    *(
        Case(
            "Anthropic",
            CLAUDE,
            f"tools.0.custom.input_schema: {_INVALID}",
            _has_invalid_schema,
            changes=_claude_tool(input_schema=schema),
        )
        for schema in INVALID_SCHEMAS
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "tools.0.custom.input_schema.type: Field required",
        _lacks_object,
        changes=_claude_tool(input_schema={"properties": {}}),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "tools.0.custom.input_schema: Field required",
        _lacks_object,
        changes=_claude_tool(),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid schema for function 'weather': In context=('properties', 'days'), array schema missing items.",
        _lacks_items,
        code="invalid_function_parameters",
        changes=_chat_tool(_ITEMS),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid schema for function 'weather': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
        _is_no_object,
        code="invalid_function_parameters",
        changes=_chat_tool({"properties": {}}),
    ),
    # OpenAI.
    Case(
        "OpenAI",
        CHAT,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        has("max_tokens"),
        code="unsupported_parameter",
    ),
    Case(
        "OpenAI",
        CHAT,
        "Unsupported value: 'temperature' does not support 1.7 with this model. Only the default (1) value is supported.",
        has("temperature", lambda v: v != 1),
        code="unsupported_value",
    ),
    Case(
        "OpenAI",
        CHAT,
        "Unsupported parameter: 'top_p' is not supported with this model.",
        has("top_p"),
        code="unsupported_parameter",
    ),
    Case(
        "OpenAI",
        CHAT,
        "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
        has("parallel_tool_calls"),
        code="unsupported_parameter",
    ),
    Case(
        "OpenAI",
        CHAT,
        "Unsupported parameter: 'logprobs' is not supported with this model.",
        has("logprobs"),
        code="unsupported_parameter",
    ),
    Case("OpenAI", CHAT, "Unrecognized request argument supplied: reasoning_effort", has("reasoning_effort")),
    Case(
        "OpenAI",
        CHAT,
        "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. Supported values are: 'low', 'medium', and 'high'.",
        has("reasoning_effort", lambda v: v not in ("low", "medium", "high")),
        code="unsupported_value",
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Unsupported value: 'reasoning.effort' does not support 'xhigh' with this model. Supported values are: 'minimal', 'low', 'medium', and 'high'.",
        has("reasoning.effort", lambda v: v == "xhigh"),
    ),
    Case(
        "OpenAI",
        CHAT,
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.",
        has("max_tokens", lambda v: v > 16384),
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 200000 instead.",
        has("max_output_tokens", lambda v: v > 128000),
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.",
        has("max_output_tokens", lambda v: v < 16),
        changes={"max_output_tokens": 1},
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported models at the Structured Outputs guide",
        has("response_format.json_schema"),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid content type. image_url is only supported by certain models.",
        _has_media("image_url"),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 5 instead.",
        has("stop", lambda v: len(v) > 4),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 116 instead.",
        has("tools.*.function.name", lambda v: len(v) > 64),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        has("tools.*.function.name", lambda v: "." in v),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 75 instead.",
        has("messages.*.tool_calls.*.id", lambda v: len(v) > 40),
    ),
    Case(
        "OpenAI",
        CHAT,
        "Invalid schema for function 'weather': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing '$odd name'.",
        has("tools.*.function.strict", bool),
        code="invalid_function_parameters",
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "The encrypted content gAAA...aled could not be verified.",
        has("input.*.encrypted_content"),
        code="invalid_encrypted_content",
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Unsupported parameter: 'temperature' is not supported with this model.",
        has("temperature"),
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        has("reasoning.effort"),
    ),
    Case("OpenAI", RESPONSES, "Unsupported parameter: safety_identifier", has("safety_identifier")),
    Case(
        "OpenAI",
        RESPONSES,
        "Unknown parameter: 'prompt_cache_key'.",
        has("prompt_cache_key"),
        code="unknown_parameter",
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "",
        has("reasoning.summary", lambda v: v == "auto"),
        body={
            "error": {
                "message": "Unsupported value: 'auto' is not supported with the 'computer-use-preview' model. Supported values are: 'concise'.",
                "type": "invalid_request_error",
                "param": "reasoning.summary",
                "code": "unsupported_value",
            }
        },
    ),
    Case(
        "OpenAI",
        RESPONSES,
        "Hosted tool 'web_search' is not supported with gpt-5-codex.",
        has("tools.*.type", lambda v: v == "web_search"),
        # Beside another tool, as Codex sends it: a request for the search alone is refused.
        changes={"tools": [{"type": "web_search"}, {"type": "function", "name": "w"}], "tool_choice": "auto"},
    ),
    # Azure.
    Case("Azure", CHAT, "Unrecognized request argument supplied: stream_options", has("stream_options")),
    Case(
        "Azure",
        CHAT,
        "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later",
        has("response_format.json_schema"),
    ),
    Case(
        "Azure",
        CHAT,
        "Unsupported parameter: 'presence_penalty' is not supported with this model.",
        has("presence_penalty"),
    ),
    # Anthropic.
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("messages.*.content.*.signature"),
        body=_claude("messages.1.content.0: Invalid `signature` in `thinking` block"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("messages.*.content.*.signature"),
        body=_claude(
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block."
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("thinking.type", lambda v: v == "enabled"),
        body=_claude(
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("thinking.type", lambda v: v == "adaptive"),
        body=_claude("adaptive thinking is not supported on this model"),
        changes={"thinking": {"type": "adaptive"}},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("output_config.effort"),
        body=_claude("This model does not support the effort parameter."),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("output_config.effort", lambda v: v == "xhigh"),
        body=_claude(
            "This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium."
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("max_tokens", lambda v: v > 64000),
        body=_claude(
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5-20251001"
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        lambda b: b["max_tokens"] <= b["thinking"].get("budget_tokens", 0),
        body=_claude(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation."
        ),
        changes={"max_tokens": 32_000},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("thinking.budget_tokens", lambda v: v < 1024),
        body=_claude("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
        changes={"thinking": {"type": "enabled", "budget_tokens": 100}},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        lambda b: "temperature" in b and "top_p" in b,
        body=_claude(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("temperature"),
        body=_claude("`temperature` is deprecated for this model."),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("top_p"),
        body=_claude(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled. Please consult our documentation."
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("context_management"),
        body=_claude("context_management: Extra inputs are not permitted"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("tools.*.eager_input_streaming"),
        body=_claude("tools.0.custom.eager_input_streaming: Extra inputs are not permitted"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("system.*.cache_control.scope"),
        body=_claude("system.0.cache_control.ephemeral.scope: Extra inputs are not permitted"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("output_config.format"),
        body=_claude("output_config.format: Extra inputs are not permitted"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("tools.*.input_schema.anyOf"),
        body=_claude(
            "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        ),
        changes={
            "tools": [
                {
                    "name": "weather",
                    "input_schema": {"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]},
                }
            ]
        },
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has("tools.*.input_schema.properties", lambda v: "$odd name" in v),
        body=_claude(
            "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
        ),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        _ends_with_assistant,
        body=_claude(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        ),
        changes={"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "It"}]},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has(_ROLES, lambda v: v == "system"),
        body=_claude(
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
        ),
        changes={
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "go on"},
            ]
        },
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        lambda b: not _alternates(b),
        body=_claude(
            'messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row'
        ),
        changes={"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "go on"}]},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        has(f"{_PARTS}.text", lambda v: not v.strip()),
        body=_claude("messages: text content blocks must contain non-whitespace text"),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        _has_media("document"),
        body=_claude("'claude-3-haiku-20240307' does not support PDF input."),
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        lambda b: (
            b.get("thinking", {}).get("type") == "enabled" and b.get("tool_choice", {}).get("type") == "any"
        ),
        body=_claude("Thinking may not be enabled when tool_choice forces tool use."),
        changes={"tool_choice": {"type": "any"}},
    ),
    Case(
        "Anthropic",
        CLAUDE,
        "",
        lambda b: b.get("thinking", {}).get("type") == "enabled",
        body=_claude(
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
        ),
        changes={
            "messages": [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}],
                },
            ]
        },
    ),
    # Google.
    Case(
        "Gemini",
        GEMINI,
        "",
        lambda b: "additionalProperties" in str(b.get("tools")),
        body=_google(
            "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
            "tools[0].function_declarations[0].parameters",
        ),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.mediaResolution"),
        body=_google(
            "Invalid JSON payload received. Unknown name \"mediaResolution\" at 'generation_config': Cannot find field.",
            "generation_config",
        ),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("labels"),
        body=_google('Invalid JSON payload received. Unknown name "labels": Cannot find field.'),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("contents.*.parts.*.thoughtSignature", lambda v: v == "c2lnbmVk"),
        body=_google("Corrupted thought signature."),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.thinkingConfig.thinkingBudget", lambda v: v > 24576),
        body=_google("The thinking budget 60000 is invalid. Please choose a value between 512 and 24576."),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.thinkingConfig.thinkingBudget", lambda v: v == 0),
        body=_google("Budget 0 is invalid. This model only works in thinking mode."),
        changes={"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.thinkingConfig.thinkingLevel"),
        body=_google("Thinking level is not supported for this model."),
        changes={"generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.maxOutputTokens", lambda v: v > 8192),
        body=_google(
            "Unable to submit request because it has a maxOutputTokens value of 200000 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again."
        ),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        lambda b: "googleSearch" in str(b["tools"]),
        body=_google("Tool use with function calling is unsupported"),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("tools"),
        body=_google("Function calling is not enabled for models/gemma-3-27b-it"),
        changes={
            "tools": [{"functionDeclarations": [{"name": "weather", "description": "weather"}]}],
            "toolConfig": None,
        },
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("generationConfig.responseMimeType", lambda v: v == "application/json"),
        body=_google("Function calling with a response mime type: 'application/json' is unsupported"),
    ),
    # OpenRouter.
    Case(
        "OpenRouter",
        CHAT,
        "",
        _has_media("image_url"),
        status=404,
        body={"error": {"message": "No endpoints found that support image input", "code": 404}},
    ),
    Case(
        "OpenRouter",
        CHAT,
        "",
        has("tools"),
        status=404,
        body={
            "error": {
                "message": "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing",
                "code": 404,
            }
        },
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    Case(
        "OpenRouter",
        CHAT,
        "",
        has("tool_choice", lambda v: v != "auto"),
        status=404,
        body={
            "error": {
                "message": "No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing",
                "code": 404,
            }
        },
    ),
    Case(
        "OpenRouter",
        CHAT,
        "",
        has("seed"),
        body={
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"error":{"message":"property \'seed\' is unsupported","type":"invalid_request_error"}}',
                    "provider_name": "Groq",
                },
            }
        },
    ),
    # DeepSeek.
    Case(
        "DeepSeek",
        CHAT,
        "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 85",
        has(_ROLES, lambda v: v == "developer"),
        status=422,
    ),
    Case(
        "DeepSeek",
        CHAT,
        "Failed to deserialize the JSON body into the target type: messages[2]: unknown variant `image_url`, expected `text` at line 1 column 300",
        _has_media("image_url"),
    ),
    Case(
        "DeepSeek",
        CHAT,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        has("max_tokens", lambda v: v > 8192),
    ),
    Case(
        "DeepSeek", CHAT, "This response_format type is unavailable now", has("response_format.json_schema")
    ),
    Case(
        "DeepSeek",
        CHAT,
        "Failed to deserialize the JSON body into the target type: response_format: response_format.type `json_schema` is unavailable now at line 1 column 12440",
        has("response_format.json_schema"),
        status=422,
    ),
    Case(
        "DeepSeek",
        CHAT,
        "deepseek-reasoner does not support this tool_choice",
        has("tool_choice", lambda v: v not in ("auto", "none")),
    ),
    Case(
        "DeepSeek",
        CHAT,
        "deepseek-reasoner does not support Function Calling",
        has("tools"),
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    # Moonshot.
    Case(
        "Moonshot",
        CHAT,
        "invalid temperature: only 1 is allowed for this model",
        has("temperature", lambda v: v != 1),
    ),
    Case(
        "Moonshot",
        CHAT,
        "invalid top_p: only 0.95 is allowed for this model",
        has("top_p", lambda v: v != 0.95),
    ),
    Case("Moonshot", CHAT, "Image input not supported for model moonshot-v1-8k", _has_media("image_url")),
    # Zhipu.
    Case(
        "Zhipu",
        CHAT,
        "",
        has("max_tokens"),
        body={"error": {"code": "1214", "message": "max_tokens参数非法。请检查文档。"}},
    ),
    Case(
        "Zhipu",
        CHAT,
        "",
        lambda b: any(t != "text" for t in _types(b)),
        body={"error": {"code": "1210", "message": "messages.content.type 参数非法，取值范围 ['text']"}},
    ),
    Case(
        "Zhipu",
        CHAT,
        "",
        has("top_p"),
        body={"error": {"code": "1214", "message": "top_p参数非法。请检查文档。"}},
    ),
    # DashScope.
    Case(
        "DashScope",
        CHAT,
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
        has("max_tokens", lambda v: v > 8192),
    ),
    Case(
        "DashScope",
        CHAT,
        "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or object in thinking mode",
        has("tool_choice", lambda v: v not in ("auto", "none")),
    ),
    Case(
        "DashScope",
        CHAT,
        "<400> InternalError.Algo.InvalidParameter: 'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
        has("response_format.type", lambda v: v == "json_object"),
        changes={"response_format": {"type": "json_object"}},
    ),
    Case(
        "DashScope",
        CHAT,
        "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - 'messages.0.role'",
        has(_ROLES, lambda v: v == "developer"),
    ),
    *(
        Case("DashScope", CHAT, message, _thinks_whole, is_whole_only=True)
        for message in (
            "parameter.enable_thinking must be set to false for non-streaming calls",
            "parameter.enable_thinking必须设置为false才能进行非流式调用",
            "parameter.enable_thinking only support stream call",
        )
    ),
    # The switch of other servers, which a client sends to every one.
    Case(
        "OpenAI",
        CHAT,
        "Unrecognized request argument supplied: enable_thinking",
        has("enable_thinking"),
        changes={"enable_thinking": False},
    ),
    Case(
        "Groq",
        CHAT,
        "property 'chat_template_kwargs' is unsupported",
        has("chat_template_kwargs"),
        changes={"chat_template_kwargs": {"enable_thinking": False}},
    ),
    Case(
        "Mistral",
        CHAT,
        "",
        has("enable_thinking"),
        status=422,
        body=_pydantic("body", "enable_thinking"),
        changes={"enable_thinking": False},
    ),
    # Mistral.
    Case(
        "Mistral",
        CHAT,
        "",
        has("messages.*.reasoning_content"),
        status=422,
        body=_pydantic("body", "messages", 3, "assistant", "reasoning_content"),
    ),
    Case("Mistral", CHAT, "", has("stream_options"), status=422, body=_pydantic("body", "stream_options")),
    Case("Mistral", CHAT, "", has("metadata"), status=422, body=_pydantic("body", "metadata")),
    Case(
        "Mistral",
        CHAT,
        "",
        has("messages.*.name"),
        status=422,
        body=_pydantic("body", "messages", 2, "user", "name"),
    ),
    Case(
        "Mistral",
        CHAT,
        "Tool call id was call_yyyyyyyyyy but must be a-z, A-Z, 0-9, with a length of 9.",
        has("messages.*.tool_calls.*.id", lambda v: len(v) != 9),
        code="3280",
    ),
    Case(
        "Mistral",
        CHAT,
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        _ends_with_assistant,
    ),
    # Groq, Cerebras.
    Case(
        "Groq",
        CHAT,
        "'messages.3' : for 'role:assistant' the following must be satisfied[('messages.3' : property 'reasoning_content' is unsupported)]",
        has("messages.*.reasoning_content"),
    ),
    Case("Groq", CHAT, "property 'logit_bias' is unsupported", has("logit_bias")),
    Case(
        "Groq",
        CHAT,
        "`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the `context_window` for this model",
        has("max_tokens", lambda v: v > 32768),
    ),
    Case(
        "Groq",
        CHAT,
        "`reasoning_effort` must be one of `none` or `default`",
        has("reasoning_effort", lambda v: v not in ("none", "default")),
    ),
    Case(
        "Groq",
        CHAT,
        "This model does not support response format `json_schema`. See supported models",
        has("response_format.json_schema"),
    ),
    Case(
        "Groq",
        CHAT,
        "`tool calling` is not supported with this model",
        has("tools"),
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    Case(
        "Cerebras",
        CHAT,
        "",
        has("messages.*.reasoning_content"),
        body={
            "message": "messages.3.assistant.reasoning_content: property 'messages.3.assistant.reasoning_content' is unsupported",
            "type": "invalid_request_error",
            "param": "validation_error",
            "code": "wrong_api_format",
        },
    ),
    # xAI.
    Case(
        "xAI",
        CHAT,
        "",
        has("presence_penalty"),
        body={
            "code": "Client specified an invalid argument",
            "error": "Model grok-4 does not support parameter presencePenalty.",
        },
    ),
    Case(
        "xAI",
        CHAT,
        "",
        has("stop"),
        body={
            "code": "Client specified an invalid argument",
            "error": "Argument not supported on this model: stop",
        },
    ),
    # Volcengine, Fireworks.
    Case(
        "Volcengine",
        CHAT,
        "The parameter `max_tokens` specified in the request are not valid: integer above maximum value, expected a value <= 12288, but got 200000 instead.",
        has("max_tokens", lambda v: v > 12288),
        code="InvalidParameter",
    ),
    Case(
        "Fireworks",
        CHAT,
        "Requests with max_tokens > 4096 must have stream=true",
        has("max_tokens", lambda v: v > 4096),
    ),
    # vLLM.
    Case(
        "vLLM",
        CHAT,
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        has("tools"),
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    Case("vLLM", CHAT, "At most 0 image(s) may be provided in one request.", _has_media("image_url")),
    Case("vLLM", CHAT, "System message must be at the beginning.", _begins_late),
    Case("vLLM", CHAT, "System role not supported", has(_ROLES, lambda v: v in ("system", "developer"))),
    Case(
        "llama.cpp",
        CHAT,
        "",
        has(_ROLES, lambda v: v in ("system", "developer")),
        status=500,
        body={
            "error": {
                "code": 500,
                "message": "Error: Jinja Exception: System role not supported",
                "type": "server_error",
            }
        },
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("systemInstruction"),
        body=_google("Developer instruction is not enabled for models/gemma-3-27b-it"),
    ),
    Case(
        "Gemini",
        GEMINI,
        "",
        has("tools.*.functionDeclarations.*.parameters.properties", lambda v: v == {}),
        body=_google(
            "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty for OBJECT type\n"
        ),
        changes={
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": "now", "parameters": {"type": "OBJECT", "properties": {}}}
                    ]
                }
            ],
            "toolConfig": None,
        },
    ),
    # llama.cpp.
    Case(
        "llama.cpp",
        CHAT,
        "",
        lambda b: not _alternates(b),
        status=500,
        body={
            "error": {
                "code": 500,
                "message": "\n------------\nWhile executing CallExpression at line 189, column 32 in source:\n...\nError: Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
                "type": "server_error",
            }
        },
        changes={"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "go on"}]},
    ),
    Case(
        "llama.cpp",
        CHAT,
        "",
        _begins_late,
        status=500,
        body={
            "error": {
                "code": 500,
                "message": "Error: Jinja Exception: System message must be at the beginning.",
                "type": "server_error",
            }
        },
    ),
    Case(
        "llama.cpp",
        CHAT,
        "",
        has("tools"),
        status=500,
        body={"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}},
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    Case(
        "llama.cpp",
        CHAT,
        "",
        _has_media("image_url"),
        status=500,
        body={
            "error": {
                "code": 500,
                "message": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
                "type": "server_error",
            }
        },
    ),
    Case(
        "llama.cpp",
        CHAT,
        "",
        _ends_with_assistant,
        status=400,
        body={
            "error": {
                "code": 400,
                "message": "Assistant response prefill is incompatible with enable_thinking.",
                "type": "invalid_request_error",
            }
        },
    ),
    # Ollama.
    Case(
        "Ollama",
        CHAT,
        "registry.ollama.ai/library/gemma3:4b does not support tools",
        has("tools"),
        changes={"tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "auto"},
    ),
    Case("Ollama", CHAT, '"llama3.1:8b" does not support thinking', has("reasoning_effort")),
    Case(
        "Ollama",
        CHAT,
        "this model is missing data required for image input",
        _has_media("image_url"),
        status=500,
    ),
    Case(
        "Ollama",
        CHAT,
        'invalid reasoning value: \'xhigh\' (must be "high", "medium", "low", "max", or "none")',
        has("reasoning_effort", lambda v: v == "xhigh"),
    ),
    # LM Studio.
    Case(
        "LM Studio",
        CHAT,
        "",
        has("tool_choice", lambda v: isinstance(v, dict)),
        body={"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"},
    ),
    Case(
        "LM Studio",
        CHAT,
        "",
        has("response_format.type", lambda v: v == "json_object"),
        body={"error": "'response_format.type' must be 'json_schema' or 'text'"},
        changes={"response_format": {"type": "json_object"}},
    ),
)


def _types(body: Json) -> list[str]:
    return [
        part["type"] for m in body["messages"] if isinstance(m.get("content"), list) for part in m["content"]
    ]


#: Errors that no change of the request ends: money, keys, policies, rates, the size of the context.
NEVER: tuple[tuple[str, int, Json], ...] = (
    (
        "money, Anthropic",
        400,
        _claude(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
        ),
    ),
    ("money, DeepSeek", 402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}),
    (
        "money, OpenAI",
        429,
        {
            "error": {
                "message": "You exceeded your current quota, please check your plan and billing details.",
                "code": "insufficient_quota",
            }
        },
    ),
    (
        "money, OpenRouter",
        402,
        {
            "error": {
                "message": "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 2000.",
                "code": 402,
            }
        },
    ),
    (
        "key, OpenAI",
        401,
        {
            "error": {
                "message": "Incorrect API key provided: sk-no. You can find your API key at https://platform.openai.com/account/api-keys.",
                "code": "invalid_api_key",
            }
        },
    ),
    ("key, Gemini", 400, _google("API key not valid. Please pass a valid API key.")),
    (
        "permission, OpenAI",
        403,
        {
            "error": {
                "message": "You are not allowed to sample from this model; 'temperature' is not supported",
                "type": "invalid_request_error",
            }
        },
    ),
    (
        "permission, OpenAI streaming",
        400,
        {
            "error": {
                "message": "Your organization must be verified to stream this model. You do not have access to 'stream'.",
                "param": "stream",
                "code": "unsupported_value",
            }
        },
    ),
    (
        "policy, Azure",
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                "code": "content_filter",
                "param": "prompt",
            }
        },
    ),
    (
        "policy, OpenAI",
        400,
        {
            "error": {
                "message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy. 'reasoning_effort' is not supported",
                "code": "invalid_prompt",
            }
        },
    ),
    (
        "policy, DashScope",
        400,
        {
            "error": {
                "message": "Input data may contain inappropriate content. The request was blocked.",
                "code": "data_inspection_failed",
            }
        },
    ),
    (
        "rate, Groq",
        429,
        {
            "error": {
                "message": "Rate limit reached for model; 'max_tokens' is not supported",
                "code": "rate_limit_exceeded",
            }
        },
    ),
    (
        "context, OpenAI",
        400,
        {
            "error": {
                "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 300000 tokens.",
                "code": "context_length_exceeded",
            }
        },
    ),
    (
        "context, vLLM",
        400,
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 200000. This model's maximum context length is 32768 tokens and your request has 5000 input tokens."
            }
        },
    ),
    ("context, Anthropic", 400, _claude("prompt is too long: 210000 tokens > 200000 maximum")),
    (
        "context, llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size or enable context shift",
                "type": "exceed_context_size_error",
            }
        },
    ),
    (
        "plan: Your plan does not support tools. Upgrade to Pro.",
        400,
        {"error": {"message": "Your plan does not support tools. Upgrade to Pro."}},
    ),
    (
        "subscription: Your subscription does not support images",
        400,
        {"error": {"message": "Your subscription does not support images"}},
    ),
    (
        "account: Your account has reached its spending cap; reasoning_effort is not available until you add funds",
        400,
        {
            "error": {
                "message": "Your account has reached its spending cap; reasoning_effort is not available until you add funds"
            }
        },
    ),
    (
        "key: Token expired. reasoning_effort is not available",
        400,
        {"error": {"message": "Token expired. reasoning_effort is not available"}},
    ),
    (
        "permission: Access denied: `tool_choice` is not available for this project",
        400,
        {"error": {"message": "Access denied: `tool_choice` is not available for this project"}},
    ),
    (
        "policy: Prompt rejected by safety filter. Unsupported value: 'tools'",
        400,
        {"error": {"message": "Prompt rejected by safety filter. Unsupported value: 'tools'"}},
    ),
    (
        "policy: The request is unsafe: 'tools' is not allowed",
        400,
        {"error": {"message": "The request is unsafe: 'tools' is not allowed"}},
    ),
    (
        "policy: Input rejected: harmful content detected. `tools` is not allowed",
        400,
        {"error": {"message": "Input rejected: harmful content detected. `tools` is not allowed"}},
    ),
    (
        "license: License does not support function calling",
        400,
        {"error": {"message": "License does not support function calling"}},
    ),
    (
        "terms: Terms of service: model does not support tools",
        400,
        {"error": {"message": "Terms of service: model does not support tools"}},
    ),
    (
        "region: 'temperature' is not available in your region",
        400,
        {"error": {"message": "'temperature' is not available in your region"}},
    ),
    (
        "tier: Unsupported parameter: 'tools' requires at least tier 2",
        400,
        {"error": {"message": "Unsupported parameter: 'tools' requires at least tier 2"}},
    ),
    (
        "organization: 'logprobs' is not supported for organizations with Zero Data Retention",
        400,
        {"error": {"message": "'logprobs' is not supported for organizations with Zero Data Retention"}},
    ),
    (
        "trial: In the trial, 'temperature' is not supported",
        400,
        {"error": {"message": "In the trial, 'temperature' is not supported"}},
    ),
    (
        "money: 'tools' is not supported: insufficient balance",
        400,
        {"error": {"message": "'tools' is not supported: insufficient balance"}},
    ),
    (
        "size: This model does not support images larger than 20 megapixels",
        400,
        {"error": {"message": "This model does not support images larger than 20 megapixels"}},
    ),
    (
        "size: The model does not support tools with more than 128 functions",
        400,
        {"error": {"message": "The model does not support tools with more than 128 functions"}},
    ),
    (
        "size: This model does not support thinking budgets above 32000",
        400,
        {"error": {"message": "This model does not support thinking budgets above 32000"}},
    ),
    ("size, Anthropic", 413, _claude("Request exceeds the maximum size")),
)

#: Refusals that name nothing that the gateway can change: they reach the client as they are.
UNKNOWN: tuple[str, ...] = (
    "Bad request",
    "The model is not happy today",
    "messages: Field required",
    "Unsupported parameter: 'messages' is not supported with this model.",
    "messages.65.content.1.tool_use.text: Extra inputs are not permitted",
    "Invalid value for 'frobnicate': expected a fish",
    "Unsupported parameter: 'frobnicate' is not supported with this model.",
    "The requested model does not exist",
)
