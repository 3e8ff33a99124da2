"""One request per SDK that uses as much of its API as fits into one request.

No model would need them all at once. They are recorded because the SDK writes them: the fields, their
spelling and their defaults are what a gateway meets, where a request made by hand shows what we expect.
"""

import base64
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tools.record.scrub import TINY_PNG

URL = os.environ.get("RECORDING_URL", "")
KEY = "sk-recording"
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 7},
        "place": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
    },
    "required": ["city"],
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}},
}
ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "sure": {"type": "boolean"}},
    "required": ["answer", "sure"],
    "additionalProperties": False,
}
DATA_URL = f"data:image/png;base64,{TINY_PNG}"
PDF_URL = "data:application/pdf;base64,JVBERi0xLjQKJSVFT0YK"
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA="
PAGE = "https://example.org/page-1"


_SHORT = {"type": "ephemeral"}
_LONG = {"type": "ephemeral", "ttl": "1h"}
_PLACE = {"type": "approximate", "country": "NO"}

MESSAGES_REQUEST: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 2048,
    "system": [{"type": "text", "text": "Answer with care.", "cache_control": _LONG}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": TINY_PNG}},
                {"type": "image", "source": {"type": "url", "url": f"{PAGE}.png"}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "The door is blue."},
                    "title": "House notes",
                    "context": "Notes on a house.",
                    "citations": {"enabled": True},
                    "cache_control": _SHORT,
                },
                {"type": "document", "source": {"type": "url", "url": f"{PAGE}.pdf"}},
                {"type": "text", "text": "What is on them?"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": [
                        {
                            "type": "search_result",
                            "source": PAGE,
                            "title": "The weather in Oslo",
                            "content": [{"type": "text", "text": "Rain all day."}],
                            "citations": {"enabled": True},
                        }
                    ],
                },
                {"type": "text", "text": "And tomorrow?", "cache_control": _SHORT},
            ],
        },
    ],
    "tools": [
        {
            "name": "get_weather",
            "description": "Tells the weather.",
            "input_schema": WEATHER,
            "strict": False,
            "cache_control": _LONG,
            "input_examples": [{"city": "Oslo"}],
        },
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 3,
            "allowed_domains": ["example.org"],
            "user_location": _PLACE,
        },
        {"type": "bash_20250124", "name": "bash"},
    ],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "stop_sequences": ["END", "\n\nUser:"],
    "metadata": {"user_id": "user-1"},
    "service_tier": "auto",
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": ANSWER}},
    "thinking": {"type": "disabled"},
    "stream": True,
    # The SDK no longer types them, but older models still take them.
    "extra_body": {"temperature": 0.2, "top_k": 40},
}

CHAT_REQUEST: dict[str, Any] = {
    "model": "gpt-5.5",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Answer with care."}]},
        {
            "role": "user",
            "name": "anna",
            "content": [
                {"type": "text", "text": "What is on them?"},
                {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
                {"type": "image_url", "image_url": {"url": f"{PAGE}.png"}},
                {"type": "input_audio", "input_audio": {"data": SILENCE, "format": "wav"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "Rain."}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No more weather."}]},
        {"role": "user", "content": "Then a number, please."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_weather", "description": "Tells the weather.", "parameters": WEATHER},
        },
        {
            "type": "custom",
            "custom": {
                "name": "shout",
                "description": "Shouts a word.",
                "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}},
            },
        },
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "get_weather"}}],
        },
    },
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "description": "The answer.", "schema": ANSWER, "strict": True},
    },
    "max_completion_tokens": 500,
    "temperature": 0.2,
    "top_p": 0.9,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 2,
    "n": 2,
    "seed": 7,
    "stop": ["END"],
    "reasoning_effort": "low",
    "verbosity": "low",
    "service_tier": "auto",
    "store": False,
    "metadata": {"project": "recording"},
    "prompt_cache_key": "recording",
    "safety_identifier": "user-1",
    "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": False},
}

RESPONSES_REQUEST: dict[str, Any] = {
    "model": "gpt-5.5",
    "instructions": "Answer with care.",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is on them?"},
                {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": PDF_URL},
            ],
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city": "Oslo"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "Rain."},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "message", "role": "user", "content": "Then a number, please."},
    ],
    "tools": [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Tells the weather.",
            "parameters": WEATHER,
            "strict": False,
        },
        {"type": "web_search", "filters": {"allowed_domains": ["example.org"]}, "user_location": _PLACE},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "custom", "name": "shout", "description": "Shouts a word.", "format": {"type": "text"}},
        {"type": "mcp", "server_label": "notes", "server_url": PAGE, "require_approval": "never"},
    ],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": False,
    "max_tool_calls": 3,
    "max_output_tokens": 500,
    "text": {
        "format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True},
        "verbosity": "low",
    },
    "reasoning": {"effort": "low", "summary": "concise"},
    "include": [
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "message.output_text.logprobs",
    ],
    "previous_response_id": "resp_1",
    "temperature": 0.2,
    "top_p": 0.9,
    "top_logprobs": 2,
    "truncation": "auto",
    "service_tier": "auto",
    "store": True,
    "background": False,
    "metadata": {"project": "recording"},
    "prompt_cache_key": "recording",
    "safety_identifier": "user-1",
    "stream": True,
}

_CITY = {"type": "STRING", "min_length": 1}
_UNIT = {"type": "STRING", "enum": ["celsius", "fahrenheit"], "nullable": True}
GEMINI_CONFIG: dict[str, Any] = {
    "system_instruction": "Answer with care.",
    "temperature": 0.2,
    "top_p": 0.9,
    "top_k": 40,
    "candidate_count": 1,
    "max_output_tokens": 500,
    "stop_sequences": ["END"],
    "seed": 7,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "response_logprobs": True,
    "logprobs": 2,
    "response_mime_type": "application/json",
    "response_schema": {"type": "OBJECT", "properties": {"answer": {"type": "STRING"}}},
    "thinking_config": {"include_thoughts": True, "thinking_budget": 1024},
    "media_resolution": "MEDIA_RESOLUTION_LOW",
    "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}],
    "tools": [
        {
            "function_declarations": [
                {
                    "name": "get_weather",
                    "description": "Tells the weather.",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"city": _CITY, "unit": _UNIT},
                        "required": ["city"],
                    },
                }
            ]
        },
        {"google_search": {}},
        {"url_context": {}},
        {"code_execution": {}},
    ],
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["get_weather"]}},
    "automatic_function_calling": {"disable": True},
    "cached_content": "cachedContents/recording",
}


def anthropic_python() -> Any:
    client: Any = importlib.import_module("anthropic").Anthropic(base_url=URL, api_key=KEY)
    return client.messages.create(**MESSAGES_REQUEST)


def openai_chat() -> Any:
    client: Any = importlib.import_module("openai").OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    return client.chat.completions.create(**CHAT_REQUEST)


def openai_responses() -> Any:
    client: Any = importlib.import_module("openai").OpenAI(base_url=f"{URL}/v1", api_key=KEY)
    return client.responses.create(**RESPONSES_REQUEST)


def google_genai() -> Iterator[Any]:
    genai: Any = importlib.import_module("google.genai")
    client = genai.Client(api_key=KEY, http_options={"base_url": URL})
    part = genai.types.Part
    turns = {
        "user": [
            part.from_text(text="What is on them?"),
            part.from_bytes(data=base64.b64decode(TINY_PNG), mime_type="image/png"),
            part.from_uri(file_uri=f"{PAGE}.pdf", mime_type="application/pdf"),
        ],
        "model": [part.from_function_call(name="get_weather", args={"city": "Oslo"})],
        "function": [part.from_function_response(name="get_weather", response={"result": 3})],
    }
    contents = [genai.types.Content(role=role, parts=parts) for role, parts in turns.items()]
    # Not returned: the client closes itself when its last reference is gone.
    yield from client.models.generate_content_stream(
        model="gemini-2.5-pro", contents=contents, config=GEMINI_CONFIG
    )


REQUESTS: dict[str, Callable[[], Any]] = {
    "anthropic-python": anthropic_python,
    "openai-python-chat": openai_chat,
    "openai-python-responses": openai_responses,
    "google-genai": google_genai,
}

if __name__ == "__main__":
    for _ in REQUESTS[sys.argv[1]]():
        pass
