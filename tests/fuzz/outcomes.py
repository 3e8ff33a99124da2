"""What a reply states, read from its bytes without our readers: how it ended, and its finished calls.

`has_end` looks for the end marker of a dialect in an upstream's bytes. Without one the reply is cut off,
whatever else is wrong with it. `read_outcome` reads a client's stream.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from dragoman.hub.errors import DragomanError
from tests.sse import read_frames

Json = dict[str, Any]
#: `short`: the reply ended early for a stated reason, such as the token limit. `none`: no end at all.
Ending = Literal["finished", "short", "failed", "none"]

DONE = b"[DONE]"


class Outcome(msgspec.Struct):
    ending: Ending = "none"
    #: The argument texts of function calls, in order.
    calls: list[str] = []


def find_members(value: object, name: str) -> Iterator[object]:
    """Every value that stands under this name, at any depth."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if name in one:
                yield one[name]
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)


def _has_text(name: str) -> Callable[[object], bool]:
    return lambda value: any(isinstance(one, str) and one for one in find_members(value, name))


_has_finish_reason = _has_text("finish_reason")
_has_gemini_reason = _has_text("finishReason")
_has_block_reason = _has_text("blockReason")
_RESPONSES_ENDS = {"response.completed", "response.incomplete", "response.done"}


def _ends_anthropic(event: str, value: object) -> bool:
    if "message_stop" in (event, *find_members(value, "type")):
        return True
    return any(one is not None for one in find_members(value, "stop_reason"))


def _ends_responses(event: str, value: object) -> bool:
    if event in _RESPONSES_ENDS or any(one in _RESPONSES_ENDS for one in _texts(find_members(value, "type"))):
        return True
    return any(one in ("completed", "incomplete") for one in _texts(find_members(value, "status"))) and bool(
        list(find_members(value, "output"))
    )


def _texts(values: Iterator[object]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


_ENDS: dict[str, Callable[[str, object], bool]] = {
    "anthropic": _ends_anthropic,
    "openai_chat": lambda _, value: _has_finish_reason(value),
    "openai_responses": _ends_responses,
    "gemini": lambda _, value: _has_gemini_reason(value) or _has_block_reason(value),
}


def has_end(dialect: str, data: bytes) -> bool:
    """Whether a stream, or a whole reply in its place, has an end marker of the dialect that can be read."""
    ends = _ENDS[dialect]
    # Comments around a whole reply are not part of it.
    whole = parse(b"\n".join(line for line in data.splitlines() if not line.startswith(b":")))
    # A whole reply of Chat is complete without a finish reason too: it cannot be cut and still be JSON.
    is_whole_chat = dialect == "openai_chat" and any(find_members(whole, "message"))
    if whole is not None and (is_whole_chat or ends("", whole)):
        return True
    try:
        frames = read_frames(data)
    except DragomanError:
        return False
    for frame in frames:
        if frame.data.strip() == DONE:
            return True
        value = parse(frame.data)
        if value is not None and ends(frame.event, value):
            return True
    return False


def parse(data: bytes | str) -> object:
    """The value of a JSON text; None if there is none."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def read_outcome(dialect: str, stream: bytes) -> Outcome:
    """What a client takes from a stream that its dialect allows."""
    outcome = Outcome()
    calls: dict[object, str] = {}
    read = _READERS[dialect]
    for line in stream.split(b"\n"):
        value = parse(line[6:]) if line.startswith(b"data: ") else None
        if isinstance(value, dict):
            read(outcome, calls, value)
    outcome.calls.extend(calls.values())
    return outcome


def _end(outcome: Outcome, ending: Ending) -> None:
    if outcome.ending != "failed":
        outcome.ending = ending


_SHORT = {"max_tokens", "model_context_window_exceeded", "refusal", "pause_turn", "length", "content_filter"}


def _read_anthropic(outcome: Outcome, calls: dict[object, str], event: Json) -> None:
    match event["type"]:
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            calls[event["index"]] = ""
        case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
            if event["index"] in calls:
                calls[event["index"]] += event["delta"]["partial_json"]
        case "message_delta":
            _end(outcome, "short" if event["delta"]["stop_reason"] in _SHORT else "finished")
        case "error":
            _end(outcome, "failed")


def _read_chat(outcome: Outcome, calls: dict[object, str], chunk: Json) -> None:
    if "error" in chunk:
        return _end(outcome, "failed")
    for choice in chunk["choices"]:
        for call in choice["delta"].get("tool_calls") or []:
            if "custom" not in call:
                text = (call.get("function") or {}).get("arguments") or ""
                calls[call["index"]] = calls.get(call["index"], "") + text
        if choice["finish_reason"]:
            _end(outcome, "short" if str(choice["finish_reason"]) in _SHORT else "finished")
    return None


def _read_responses(outcome: Outcome, calls: dict[object, str], event: Json) -> None:
    match event["type"]:
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            calls[event["output_index"]] = event["item"]["arguments"]
        case "response.completed":
            _end(outcome, "finished")
        case "response.incomplete":
            _end(outcome, "short")
        case "response.failed" | "error":
            _end(outcome, "failed")


def _read_gemini(outcome: Outcome, calls: dict[object, str], chunk: Json) -> None:
    if "error" in chunk:
        return _end(outcome, "failed")
    if (chunk.get("promptFeedback") or {}).get("blockReason"):
        _end(outcome, "short")
    for candidate in chunk.get("candidates") or []:
        for part in (candidate.get("content") or {}).get("parts") or []:
            if "functionCall" in part:
                calls[len(calls)] = msgspec.json.encode(part["functionCall"].get("args") or {}).decode()
        if candidate.get("finishReason"):
            _end(outcome, "finished" if candidate["finishReason"] == "STOP" else "short")
    return None


_READERS: dict[str, Callable[[Outcome, dict[object, str], Json], None]] = {
    "anthropic": _read_anthropic,
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "gemini": _read_gemini,
}
