"""`POST /v1/responses/{id}/submit_tool_outputs`: a response continues with the outputs of its calls.

Clients of this form name the response in the path and send only the outputs. The request becomes an ordinary
one that continues the response, with the response's own model, tools and settings.
"""

import msgspec

from dragoman.dialects.openai_responses.names import CALL_OF_ITEM
from dragoman.hub.errors import ClientProtocolError
from dragoman.responses.members import Members, encode_json, read_members

#: Members of a response that are settings of its request.
SETTINGS = (
    "model",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "temperature",
    "top_p",
    "max_output_tokens",
    "truncation",
    "metadata",
    "user",
    "service_tier",
)
#: The names by which clients give the id of a call, in the order of preference.
_ID_NAMES = ("tool_call_id", "call_id", "id")
_NULL = msgspec.Raw(b"null")


def build_continuation(response: bytes, response_id: str, body: bytes) -> bytes:
    """The body of the request that continues a response. `body` is what the client sent with the outputs."""
    try:
        given = msgspec.json.decode(body or b"{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ClientProtocolError("expected a JSON object as the request body")
    outputs = given.pop("tool_outputs", None)
    if not isinstance(outputs, list) or not outputs:
        raise ClientProtocolError("expected an array that is not empty", path="tool_outputs")
    stored = read_members(response)
    kinds = _find_kinds(stored)
    items = [_build_output(output, kinds, f"tool_outputs[{place}]") for place, output in enumerate(outputs)]
    _check_complete([str(item["call_id"]) for item in items], kinds)
    settings = {name: stored[name] for name in SETTINGS if stored.get(name, _NULL) != _NULL}
    return encode_json({**settings, **given, "previous_response_id": response_id, "input": items})


def _find_kinds(stored: Members) -> dict[str, str]:
    """The type of the output item of each call in a response, by call id."""
    items = msgspec.json.decode(stored.get("output", b"[]"))
    return {
        item["call_id"]: CALL_OF_ITEM[item["type"]].output
        for item in items
        if isinstance(item, dict)
        and item.get("type") in CALL_OF_ITEM
        and isinstance(item.get("call_id"), str)
    }


def _check_complete(call_ids: list[str], kinds: dict[str, str]) -> None:
    """Refuse two outputs of one call, and a call without an output: the model would get neither."""
    for place, call_id in enumerate(call_ids):
        if call_id in call_ids[:place]:
            raise ClientProtocolError(
                "expected one output for each call", path=f"tool_outputs[{place}].tool_call_id"
            )
    if missing := [call_id for call_id in kinds if call_id not in call_ids]:
        raise ClientProtocolError(
            "expected an output for each call", path="tool_outputs", hint=f"missing: {', '.join(missing)}"
        )


def _build_output(output: object, kinds: dict[str, str], path: str) -> dict[str, object]:
    if not isinstance(output, dict):
        raise ClientProtocolError("expected an object", path=path)
    call_id = next((output[name] for name in _ID_NAMES if isinstance(output.get(name), str)), "")
    if call_id not in kinds:
        known = ", ".join(kinds) or "none"
        raise ClientProtocolError(
            "the response has no such call", path=f"{path}.tool_call_id", hint=f"its calls: {known}"
        )
    content = output.get("output", "")
    if not isinstance(content, str | list):
        content = encode_json(content).decode()
    return {"type": kinds[call_id], "call_id": call_id, "output": content}
