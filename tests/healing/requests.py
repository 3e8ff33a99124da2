"""One rich request in each dialect: a conversation with tools, reasoning, media, and every common setting."""

from typing import Any

Json = dict[str, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
#: A property name and a keyword that some servers refuse, and alternatives at the top.
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "format": "uri"},
        "$odd name": {"type": "string"},
    },
    "required": ["city"],
    "additionalProperties": False,
}
ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
LONG_NAME = "weather.look_up_" + "x" * 100
LONG_ID = "call_" + "y" * 70


def chat() -> Json:
    return {
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "   "},
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                    },
                    {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "I look it up.",
                "tool_calls": [
                    {
                        "id": LONG_ID,
                        "type": "function",
                        "function": {"name": LONG_NAME, "arguments": '{"city":"Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": LONG_ID, "content": "rain"},
            {"role": "system", "content": "Be polite."},
            {"role": "assistant", "content": "It "},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": LONG_NAME,
                    "description": "weather",
                    "parameters": SCHEMA,
                    "strict": True,
                },
            },
            {"type": "custom", "custom": {"name": "patch", "description": "a patch"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": LONG_NAME}},
        "parallel_tool_calls": False,
        "max_tokens": 200_000,
        "temperature": 1.7,
        "top_p": 0.9,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "seed": 7,
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "top_logprobs": 2,
        "stop": ["1", "2", "3", "4", "5"],
        "reasoning_effort": "xhigh",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": ANSWER, "strict": True},
        },
        "verbosity": "low",
        "user": "user-1",
        "store": False,
        "metadata": {"team": "a"},
        "service_tier": "auto",
        "prompt_cache_key": "k1",
        "safety_identifier": "s1",
        "stream_options": {"include_usage": True},
    }


def anthropic() -> Json:
    return {
        "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "scope": "global"}}
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "I look it up.", "signature": "c2lnbmVk"},
                    {"type": "tool_use", "id": LONG_ID, "name": "weather", "input": {"city": "Oslo"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": LONG_ID,
                        "content": [
                            {"type": "text", "text": "rain"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                            },
                        ],
                    },
                    {"type": "text", "text": "   "},
                ],
            },
        ],
        "tools": [
            {
                "name": "weather",
                "description": "weather",
                "input_schema": SCHEMA,
                "eager_input_streaming": True,
                "strict": True,
            }
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "max_tokens": 200_000,
        "thinking": {"type": "enabled", "budget_tokens": 60_000},
        "output_config": {"effort": "xhigh", "format": {"type": "json_schema", "schema": ANSWER}},
        "temperature": 1,
        "top_p": 0.9,
        "top_k": 40,
        "stop_sequences": ["1", "2", "3", "4", "5"],
        "metadata": {"user_id": "user-1"},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "service_tier": "auto",
    }


def responses() -> Json:
    return {
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "developer", "content": "Be polite."},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
                ],
            },
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "I look it up."}],
                "encrypted_content": "gAAAsealed",
            },
            {"type": "function_call", "call_id": LONG_ID, "name": LONG_NAME, "arguments": '{"city":"Oslo"}'},
            {"type": "function_call_output", "call_id": LONG_ID, "output": "rain"},
        ],
        "tools": [
            {
                "type": "function",
                "name": LONG_NAME,
                "description": "weather",
                "parameters": SCHEMA,
                "strict": False,
            },
            {"type": "custom", "name": "patch", "description": "a patch"},
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 200_000,
        "temperature": 1.7,
        "top_p": 0.9,
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True},
        },
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "prompt_cache_key": "k1",
        "safety_identifier": "s1",
        "metadata": {"team": "a"},
    }


def gemini() -> Json:
    return {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "c1", "name": "weather", "args": {"city": "Oslo"}},
                        "thoughtSignature": "c2lnbmVk",
                    }
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "weather", "response": {"result": "rain"}}}
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "weather", "description": "weather", "parametersJsonSchema": SCHEMA}
                ]
            },
            {"googleSearch": {}},
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {
            "maxOutputTokens": 200_000,
            "temperature": 1.7,
            "topP": 0.9,
            "topK": 40,
            "seed": 7,
            "presencePenalty": 0.5,
            "frequencyPenalty": 0.5,
            "stopSequences": ["1", "2"],
            "thinkingConfig": {"thinkingBudget": 60_000, "includeThoughts": True},
            "responseMimeType": "application/json",
            "responseJsonSchema": ANSWER,
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
        },
        "labels": {"team": "a"},
    }


RICH = {"openai_chat": chat, "anthropic": anthropic, "openai_responses": responses, "gemini": gemini}
