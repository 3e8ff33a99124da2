"""Checks a Chat stream against what its strictest clients refuse: OpenAI's streaming helper and the AI SDK.

A stream is chunks, then possibly a chunk with the usage, then `[DONE]`. Or it ends with an error frame.
"""

import msgspec

from dragoman.dialects.interfaces import Json, Violation
from dragoman.dialects.stream_check_toolkit import Exactly, FieldRules, StreamChecker, fields, one_of

_CONSTANTS: FieldRules = {"id": "name", "created": "count", "model": "text"}
_CHUNK: FieldRules = {"object": Exactly("chat.completion.chunk"), **_CONSTANTS, "choices": "list"}
_USAGE = fields("prompt_tokens completion_tokens total_tokens", "count")
_ERROR: FieldRules = {**fields("message type", "text"), **fields("param code", ("text", None))}
_FINISH_REASONS = one_of("stop length tool_calls content_filter function_call")
#: Whether a finish reason needs calls (True) or excludes them (False).
_NEEDS_CALLS = {"tool_calls": True, "function_call": True, "stop": False}
#: The field of a call's arguments, by the call's type.
_ARGUMENTS = {"function": "arguments", "custom": "input"}
_MOVES = {
    "NEW": {"chunk": "OPEN", "error": "DONE"},
    "OPEN": {"chunk": "OPEN", "finish": "ENDING", "error": "DONE"},
    "ENDING": {"chunk": "ENDING", "finish": "ENDING", "usage": "COUNTED", "[DONE]": "DONE", "error": "DONE"},
    "COUNTED": {"[DONE]": "DONE", "error": "DONE"},
    "DONE": {},
}


class _OpenChoice(msgspec.Struct):
    """What one choice has sent so far."""

    call_types: list[str] = []
    has_function_call: bool = False
    is_finished: bool = False
    list_lengths: dict[str, int] = {}
    #: Fields that clients cannot assemble from pieces.
    sent_once: set[str] = set()


class ChatChecker(StreamChecker):
    """Checks one stream of chunks; see `StreamChecker`."""

    def __init__(self) -> None:
        super().__init__(_MOVES)
        self._constants: Json = {}
        self._choices: dict[int, _OpenChoice] = {}
        #: Whether chunks have a `usage` of null; None before the first chunk.
        self._has_null_usage: bool | None = None

    def check_frame(self, event: str, data: bytes) -> None:
        if data == b"[DONE]":
            self.move("[DONE]")
            return
        payload = self.decode(data)
        if payload is None:
            return
        if payload.get("error"):
            self.move("error")
            self.check_fields(payload, {"error": _ERROR})
        elif self.check_fields(payload, _CHUNK):
            for name in _CONSTANTS:
                is_same = self._constants.setdefault(name, payload[name]) == payload[name]
                self.require(is_same, f"{name} has changed")
            self._check_chunk(payload, self.require_objects(payload["choices"], "choices"))

    def check_end(self) -> None:
        self.require(self.state == "DONE", "the stream ends without [DONE] and without an error")

    def _check_chunk(self, chunk: Json, choices: list[Json]) -> None:
        if chunk.get("usage") is None:
            if self._has_null_usage is None:
                self._has_null_usage = "usage" in chunk
            is_same = self._has_null_usage == ("usage" in chunk)
            self.require(is_same, "usage is null in some chunks and missing in others")
            self.require(bool(choices), "a chunk without choices and without usage")
        elif self.require(not choices, "usage in a chunk with choices"):
            self._check_usage(chunk)
        if choices:
            self.move("finish" if any(choice.get("finish_reason") for choice in choices) else "chunk")
        for choice in choices:
            self._check_choice(choice)

    def _check_usage(self, chunk: Json) -> None:
        self.require(self._has_null_usage is not False, "a usage chunk, but earlier chunks have no usage")
        is_finished = all(state.is_finished for state in self._choices.values())
        self.require(is_finished, "usage before every choice has finished")
        self.move("usage")
        if self.check_fields(chunk, {"usage": _USAGE}) and isinstance(usage := chunk["usage"], dict):
            prompt, completion, total = (usage[name] for name in _USAGE)
            self.require(prompt + completion == total, "usage.total_tokens is not the sum")

    def _check_choice(self, choice: Json) -> None:
        index, delta, reason = (choice.get(name) for name in ("index", "delta", "finish_reason"))
        if type(index) is not int or not 0 <= index <= len(self._choices):
            self.report("a choice's index is missing or leaves a gap")
            return
        is_first = index not in self._choices
        state = self._choices.setdefault(index, _OpenChoice())
        if not isinstance(delta, dict):
            self.report("delta is not an object")
            return
        has_role = delta.get("role") == "assistant"
        self.require(has_role or not is_first, "the first chunk of a choice has no role")
        self.require(is_first or not has_role, "a later chunk of a choice repeats the role")
        self.require(not state.is_finished, "a choice continues after its finish reason")
        for name, value in delta.items():
            if value is not None and name != "role":
                self._check_delta(name, value, state)
        if reason is not None:
            state.is_finished = True
            self.require(str(reason) in _FINISH_REASONS, "finish_reason has a value that is not allowed")
            self.require(not delta, "the finish chunk has a delta")
            has_calls = bool(state.call_types) or state.has_function_call
            fits = _NEEDS_CALLS.get(str(reason), has_calls) == has_calls
            self.require(fits, f"finish_reason {reason} {'with' if has_calls else 'without'} calls")

    def _check_delta(self, name: str, value: object, state: _OpenChoice) -> None:
        if name in ("content", "refusal"):
            self.require(isinstance(value, str), f"{name} is not a string")
        elif name == "tool_calls":
            self.require(value != [], "tool_calls is empty")
            for fragment in self.require_objects(value, name):
                self._check_fragment(fragment, state.call_types)
        elif name == "function_call":
            self.check_fields({name: value}, {name: {"arguments": "text"}})
            has_name = isinstance(value, dict) and "name" in value
            fits = has_name != state.has_function_call
            self.require(fits, "function_call.name is not in the first piece only")
            state.has_function_call = True
        elif isinstance(value, list):
            self._check_list(name, value, state)
        elif not isinstance(value, str | dict):
            self.require(name not in state.sent_once, f"{name} comes again, and clients add the values")
            state.sent_once.add(name)

    def _check_fragment(self, fragment: Json, call_types: list[str]) -> None:
        index = fragment.get("index")
        if type(index) is not int or not 0 <= index <= len(call_types):
            self.report("a call's index is missing or leaves a gap")
            return
        path, is_first = f"tool_calls[{index}]", index == len(call_types)
        call_types += [str(fragment.get("type"))] if is_first else []
        kind = call_types[index]
        body: FieldRules = {_ARGUMENTS.get(kind, ""): "text"}
        if not self.require(kind in _ARGUMENTS, f"{path}.type is not allowed"):
            return
        if is_first:
            self.check_fields(fragment, {"id": "name", kind: {"name": "name", **body}}, path)
        elif self.check_fields(fragment, {kind: body}, path):
            inner = fragment[kind]
            repeats = {"id", "type"} & fragment.keys() or (isinstance(inner, dict) and "name" in inner)
            self.require(not repeats, f"{path} repeats id, type or name")

    def _check_list(self, name: str, value: list[object], state: _OpenChoice) -> None:
        """Check a list that OpenAI's stream helper does not know: it needs indexes, or comes once."""
        indexes = [entry.get("index") if isinstance(entry, dict) else None for entry in value]
        length = state.list_lengths.get(name, 0)
        if all(index is None for index in indexes):
            is_first = name not in state.sent_once and not length
            self.require(is_first, f"{name} comes again without indexes")
            state.sent_once.add(name)
            return
        for index in indexes:
            if not isinstance(index, int) or not 0 <= index <= length:
                self.report(f"an index of {name} is missing or leaves a gap")
            else:
                length = state.list_lengths[name] = max(length, index + 1)


def check_stream(stream: bytes) -> list[Violation]:
    """Everything in the stream that a strict client refuses, in order."""
    return ChatChecker().check_line_stream(stream, has_comments=True)
