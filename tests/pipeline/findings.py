"""Requests and replies of the findings F1 to F22 in each dialect, and readers of what clients get."""

from collections.abc import Callable

import msgspec

from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import UpstreamFailed
from tests.pipeline.asking import chat_reply_with_call, declared
from tests.pipeline.test_hosted_search import SEARCHES as REPORTED_SEARCHES
from tests.pipeline.test_logprobs import REPLIES as SCORED_REPLIES
from tests.pipeline.test_replayed_reasoning import HISTORIES as REASONED_HISTORIES
from tests.sse import explode_sse

Json = dict[str, object]

HISTORIES = REASONED_HISTORIES
LOGPROBS: dict[str, Json] = {dialect: body for dialect, (body, _) in SCORED_REPLIES.items()}
SEARCHES: dict[str, Json] = dict(REPORTED_SEARCHES.values())


def explode(dialect: str, body: Json) -> bytes:
    """The stream with the same content."""
    return explode_sse(dialect_named(dialect), msgspec.json.decode(msgspec.json.encode(body)))


def frame(payload: Json) -> bytes:
    name = payload.get("type")
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + msgspec.json.encode(payload) + b"\n\n"


def has_failed(reply: Callable[[], Json]) -> bool:
    try:
        body = reply()
    except UpstreamFailed:
        return True
    return bool(body.get("error"))


def find_calls(client: str, body: Json) -> list[tuple[str, object]]:
    """The name and the arguments of every call that the client gets."""
    value: dict[str, list[dict[str, object]]] = body  # type: ignore[assignment]  # narrowed by the dialect
    match client:
        case "anthropic":
            calls = [each for each in value["content"] if each["type"] == "tool_use"]
            return [(str(each["name"]), each["input"]) for each in calls]
        case "openai_chat":
            message: dict[str, list[dict[str, dict[str, str]]]] = value["choices"][0]["message"]  # type: ignore[assignment]  # narrowed by the dialect
            functions = [each["function"] for each in message["tool_calls"]]
            return [(each["name"], msgspec.json.decode(each["arguments"])) for each in functions]
        case "openai_responses":
            items = [each for each in value["output"] if each["type"] == "function_call"]
            return [(str(each["name"]), msgspec.json.decode(str(each["arguments"]))) for each in items]
        case _:
            content: dict[str, list[dict[str, dict[str, object]]]] = value["candidates"][0]["content"]  # type: ignore[assignment]  # narrowed by the dialect
            parts = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            return [(str(each["name"]), each["args"]) for each in parts]


def name_tool(dialect: str, name: str, schema: Json, *, strict: bool = False) -> list[object]:
    """A tool with this schema, in the words of the dialect."""
    (tool,) = msgspec.json.decode(msgspec.json.encode(declared(dialect, [name])))
    own = tool["function"] if dialect == "openai_chat" else tool
    own = own["functionDeclarations"][0] if dialect == "gemini" else own
    member = next(each for each in ("input_schema", "parameters", "parametersJsonSchema") if each in own)
    own[member] = schema
    if strict:
        own["strict"] = True
    return [tool]


CHAT_HEAD: Json = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 0},
}
RESPONSE: Json = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}


def chat_chunk(delta: Json, reason: str | None = None) -> bytes:
    return frame({**CHAT_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def chat_call(index: int, **fields: object) -> bytes:
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return chat_chunk({"tool_calls": [{"index": index, **fields, "function": function}]})


DONE = b"data: [DONE]\n\n"
START = frame({"type": "message_start", "message": MESSAGE})
STOP = frame({"type": "message_stop"})


def stop_for(reason: str) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return frame({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}) + STOP


def candidate(*parts: Json, **fields: object) -> Json:
    content: Json = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"candidates": [{**content, "index": 0, **fields}], "modelVersion": "m", "responseId": "r"}


#: F1: the whole reply, and the stream, of an upstream that sends no content and no reason.
EMPTY_REPLIES: dict[str, tuple[Json, bytes]] = {
    "anthropic": (MESSAGE, START + STOP),
    "openai_chat": (
        {"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": None}}]},
        chat_chunk({"role": "assistant", "content": ""}) + DONE,
    ),
    "openai_responses": (
        {"id": "resp_1", "object": "response", "output": []},
        frame({"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}}),
    ),
    "gemini": (
        {"candidates": [{"content": {"role": "model"}, "index": 0}]},
        frame({"candidates": [{"content": {"role": "model"}, "index": 0}]}),
    ),
}

#: F17: the model did not manage to call a tool, or ended for no known reason.
MALFORMED: dict[str, Json] = {
    "anthropic": {**MESSAGE, "stop_reason": "other"},
    "openai_chat": {
        "id": "c",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ""},
                "finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL",
            }
        ],
    },
    "openai_responses": {**RESPONSE, "status": "incomplete"},
    "gemini": candidate(finishReason="MALFORMED_FUNCTION_CALL"),
}

ARGUMENTS = '{"path": "/srv", "all": true}'


def call_item(arguments: str, number: int = 0, **fields: object) -> Json:
    item: Json = {"type": "function_call", "id": f"fc_{number}", "call_id": "call_a", "name": "ls"}
    return {**item, "arguments": arguments, "status": "completed", **fields}


#: F2: streams in which a later or an earlier event holds the arguments that the deltas lack.
COMPLETED_LATER: dict[str, bytes] = {
    "anthropic": START
    + frame(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {
                "type": "tool_use",
                "id": "call_a",
                "name": "ls",
                "input": {"path": "/srv", "all": True},
            },
        }
    )
    + frame({"type": "content_block_stop", "index": 0})
    + stop_for("tool_use"),
    "openai_chat": frame({**chat_reply_with_call("ls", ARGUMENTS, "call_a"), **CHAT_HEAD}) + DONE,
    "openai_responses": frame({"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}})
    + frame(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**call_item(""), "status": "in_progress"},
        }
    )
    + frame(
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_0",
            "output_index": 0,
            "delta": ARGUMENTS[:9],
        }
    )
    + frame(
        {
            "type": "response.completed",
            "response": {**RESPONSE, "status": "completed", "output": [call_item(ARGUMENTS)]},
        }
    ),
    "gemini": frame(candidate({"functionCall": {"name": "ls", "id": "call_a", "willContinue": True}}))
    + frame(
        candidate(
            {
                "functionCall": {
                    "partialArgs": [
                        {"jsonPath": "$.path", "stringValue": "/srv"},
                        {"jsonPath": "$.all", "boolValue": True},
                    ]
                }
            },
            finishReason="STOP",
        )
    ),
}


def anthropic_delta(index: int, text: str) -> bytes:
    delta = {"type": "input_json_delta", "partial_json": text}
    return frame({"type": "content_block_delta", "index": index, "delta": delta})


def anthropic_start(index: int, call_id: str, name: str) -> bytes:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return frame({"type": "content_block_start", "index": index, "content_block": block})


def responses_delta(number: int, text: str) -> bytes:
    place = {"item_id": f"fc_{number}", "output_index": number}
    return frame({"type": "response.function_call_arguments.delta", **place, "delta": text})


def responses_added(number: int, call_id: str, name: str) -> bytes:
    item = call_item("", number, call_id=call_id, name=name, status="in_progress")
    return frame({"type": "response.output_item.added", "output_index": number, "item": item})


#: F3, F9: the pieces of two calls alternate. In Chat their ids come late and their indexes out of order.
ALTERNATING: dict[str, bytes] = {
    "anthropic": START
    + anthropic_start(0, "call_a", "ls")
    + anthropic_start(1, "call_b", "cat")
    + anthropic_delta(0, '{"pa')
    + anthropic_delta(1, '{"path"')
    + anthropic_delta(0, 'th":"/a"}')
    + anthropic_delta(1, ':"/b"}')
    + frame({"type": "content_block_stop", "index": 0})
    + frame({"type": "content_block_stop", "index": 1})
    + stop_for("tool_use"),
    "openai_chat": chat_call(1, name="cat", arguments="")
    + chat_call(0, name="ls", arguments="")
    + chat_call(0, id="call_a", arguments='{"pa')
    + chat_call(1, arguments='{"path"')
    + chat_call(0, arguments='th":"/a"}')
    + chat_call(1, id="call_b", arguments=':"/b"}')
    + chat_chunk({}, "tool_calls")
    + DONE,
    "openai_responses": frame({"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}})
    + responses_added(0, "call_a", "ls")
    + responses_added(1, "call_b", "cat")
    + responses_delta(0, '{"pa')
    + responses_delta(1, '{"path"')
    + responses_delta(0, 'th":"/a"}')
    + frame(
        {
            "type": "response.completed",
            "response": {
                **RESPONSE,
                "status": "completed",
                "output": [
                    call_item('{"path":"/a"}', 0),
                    call_item('{"path":"/b"}', 1, call_id="call_b", name="cat"),
                ],
            },
        }
    ),
}

#: F10: fields that are added to a plain request, and the path that the error names.
REFUSED: dict[str, list[tuple[Json, str]]] = {
    "anthropic": [
        ({"tools": [{"name": "Read"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "tool", "name": "Write"}}, "tool_choice"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ],
    "openai_chat": [
        (
            {
                "tools": declared("openai_chat", ["Read"]),
                "tool_choice": {"type": "function", "function": {"name": "Write"}},
            },
            "tool_choice",
        )
    ],
    "openai_responses": [
        (
            {
                "tools": declared("openai_responses", ["Read"]),
                "tool_choice": {"type": "function", "name": "Write"},
            },
            "tool_choice",
        )
    ],
    "gemini": [
        ({"contents": []}, "contents"),
        ({"contents": [{"role": "user"}]}, "contents[0].parts"),
        (
            {
                "tools": declared("gemini", ["Read"]),
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["Write"]}},
            },
            "toolConfig.functionCallingConfig",
        ),
    ],
}

_CHAT_FILE: Json = {"type": "file", "file": {"file_id": "file-1"}}
_INPUT_FILE: Json = {"type": "input_file", "file_id": "file-1"}

#: F12: a stored file in a message and in the result of a call.
STORED: dict[str, Json] = {
    "openai_chat": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read"}, _CHAT_FILE]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [_CHAT_FILE]},
        ],
        "tools": declared("openai_chat", ["Read"]),
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Read"}, _INPUT_FILE]},
            {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [_INPUT_FILE]},
        ],
        "tools": declared("openai_responses", ["Read"]),
    },
}

#: F16: content of one vendor in the history.
VENDOR_BLOCKS: dict[str, Json] = {
    "anthropic": {
        "messages": [
            {"role": "user", "content": "Go"},
            {
                "role": "assistant",
                "content": [
                    {"type": "compaction", "content": "vendor-marker"},
                    {"type": "text", "text": "ok"},
                ],
            },
            {"role": "user", "content": "On"},
        ]
    },
    "openai_chat": {
        "messages": [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": "ok", "audio": {"id": "vendor-marker"}},
            {"role": "user", "content": "On"},
        ]
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": "Go"},
            {
                "type": "mcp_approval_request",
                "id": "mcpr_1",
                "server_label": "vendor-marker",
                "name": "x",
                "arguments": "{}",
            },
            {
                "type": "mcp_approval_response",
                "approval_request_id": "mcpr_1",
                "approve": True,
            },
            {"role": "user", "content": "On"},
        ]
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Go"}]},
            {
                "role": "model",
                "parts": [
                    {"executableCode": {"language": "PYTHON", "code": "vendor-marker"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                    {"text": "ok"},
                ],
            },
            {"role": "user", "parts": [{"text": "On"}]},
        ]
    },
}
