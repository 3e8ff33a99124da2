"""Messages and settings in all the spellings that clients use: each must come out as it went in."""

from dragoman.dialects.interfaces import Json

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def call(**fields: object) -> Json:
    return {"id": "c", "type": "function", "function": {"name": "Read", "arguments": "{}"}, **fields}


MESSAGES: list[Json] = [
    {"role": "system", "content": "a"},
    {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "user", "content": ""},
    {"role": "user", "content": []},
    {"role": "user", "name": "n", "content": [{"type": "image_url", "image_url": PIXEL}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x", "detail": ""}}]},
    {"role": "user", "content": [{"type": "file", "file": {"file_data": "JVBE", "filename": ""}}]},
    {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://example.org/v"}}]},
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "A", "format": "ogg"}}]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    },
    {
        "role": "user",
        "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}],
    },
    {"role": "assistant"},
    {"role": "assistant", "content": None},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": None, "refusal": "No.", "audio": {"id": "a"}, "name": "n"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}, {"type": "text", "text": "a"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]},
    {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [call(index=0)]},
    {"role": "assistant", "content": "a", "reasoning": "r", "reasoning_content": "q"},
    {"role": "assistant", "content": "a", "reasoning_content": ""},
    {
        "role": "assistant",
        "content": "a",
        "reasoning": "one",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "one", "signature": "s", "format": "f", "index": 0},
        ],
    },
    {
        "role": "assistant",
        "content": "a",
        "reasoning": "one\n\ntwo",
        "reasoning_details": [
            {"type": "reasoning.summary", "summary": "one", "id": "rs"},
            {"type": "reasoning.text", "text": "two", "signature": None},
            {"type": "reasoning.encrypted", "data": "e", "id": "rs", "index": 2},
        ],
    },
    {"role": "assistant", "content": "a", "reasoning_details": [{"type": "new", "x": 1}]},
    {
        "role": "assistant",
        "content": "a",
        "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}],
    },
    {"role": "assistant", "tool_calls": [call(extra_content={"google": {"thought_signature": "s"}})]},
    {"role": "assistant", "tool_calls": [call(extra_content={"other": 1})]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": "", "parsed": None}}],
    },
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "n"}}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": None}}],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": {"a": 1}}}],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "n", "input": "x", "y": 1}}],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "n", "arguments": "{}"}},
    {"role": "tool", "tool_call_id": "c", "content": ""},
    {"role": "tool", "tool_call_id": "c", "content": None, "name": "n"},
    {"role": "tool", "tool_call_id": "c"},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]},
    {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]},
    {"role": "function", "name": "n", "content": "a"},
]

SETTINGS: list[Json] = [
    {"stream": False},
    {"stream": None, "temperature": None, "tools": None, "stop": None, "metadata": None},
    {"stream": True, "stream_options": {}},
    {"stream": True, "stream_options": {"include_usage": False}},
    {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": True}},
    {"stop": "x"},
    {"stop": ["x"]},
    {"stop": []},
    {"stop": ""},
    {"user": "u", "safety_identifier": "s"},
    {"safety_identifier": "s"},
    {"user": ""},
    {"max_tokens": 5},
    {"max_tokens": 5, "max_completion_tokens": 6},
    {"tools": [], "functions": []},
    {"tool_choice": "auto"},
    {"tool_choice": {"type": "hosted"}, "function_call": "auto"},
    {"tool_choice": "sometimes"},
    {"tool_choice": {"type": "custom", "custom": {"name": "n", "x": 1}, "y": 2}},
    {"functions": [{"name": "n", "x": 1}], "function_call": {"name": "n"}},
    {"functions": [{"name": "n", "description": "d", "parameters": {}}], "function_call": "none"},
    {"tools": [{"type": "function", "function": {"name": "n"}}], "parallel_tool_calls": True},
    {
        "tools": [
            {"function": {"name": "n", "description": "", "parameters": {}, "strict": False, "x": 1}, "y": 2}
        ]
    },
    {"tools": [{"type": "custom", "custom": {"name": "n", "format": {"type": "text"}}}]},
    {"tools": [{"type": "web_search", "filters": {"a": 1}}]},
    {"response_format": {"type": "text"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "", "schema": None}}},
    {"response_format": {"type": "regex", "pattern": "x"}},
    {"reasoning_effort": "none", "verbosity": "", "service_tier": "auto"},
    {"reasoning_effort": "ultra", "prompt_cache_options": {"mode": "explicit"}},
    {"logit_bias": {}, "metadata": {}, "store": False, "top_k": 3, "n": 1},
]
