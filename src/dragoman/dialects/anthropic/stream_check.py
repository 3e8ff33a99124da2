"""Checks a stream against the grammar of the Messages API, as strictly as its SDK and the AI SDK do."""

import re

from dragoman.dialects.interfaces import Json, Violation
from dragoman.dialects.stream_check_toolkit import Exactly, FieldRules, StreamChecker, fields, one_of
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode

_STOP_REASONS = one_of(
    "end_turn max_tokens stop_sequence tool_use pause_turn refusal compaction model_context_window_exceeded"
)
#: With these reasons a reply may end inside the arguments of a call.
_CUTTING_REASONS = one_of("max_tokens model_context_window_exceeded refusal")
_ERROR_TYPES = one_of(
    "invalid_request_error authentication_error billing_error permission_error not_found_error conflict_error"
    " request_too_large rate_limit_error api_error timeout_error overloaded_error"
)

_MESSAGE: FieldRules = {
    **fields("id model", "text"),
    "type": Exactly("message"),
    "role": Exactly("assistant"),
    "content": Exactly([]),
    **fields("stop_reason stop_sequence", Exactly(None)),
    "usage": fields("input_tokens output_tokens", "count"),
}
_EVENTS: dict[str, FieldRules] = {
    "message_start": {"message": _MESSAGE},
    "content_block_start": {"index": "count", "content_block": {"type": "text"}},
    "content_block_delta": {"index": "count", "delta": {"type": "text"}},
    "content_block_stop": {"index": "count"},
    "message_delta": {
        "delta": {"stop_reason": _STOP_REASONS, "stop_sequence": ("text", None)},
        "usage": {"output_tokens": "count"},
    },
    "message_stop": {},
    "ping": {},
    "error": {"error": {"type": _ERROR_TYPES, "message": "text"}},
}

#: What a block holds when it starts.
_CALL: FieldRules = {"id": "text", "name": "text", "input": Exactly({})}
_BLOCKS: dict[str, FieldRules] = {
    "text": {"text": Exactly("")},
    "thinking": {"thinking": Exactly(""), "signature": Exactly("")},
    "redacted_thinking": {"data": "text"},
    "tool_use": _CALL,
    "server_tool_use": _CALL,
    "mcp_tool_use": {**_CALL, "server_name": "text"},
}
_OTHER_BLOCK = re.compile("compaction|container_upload|fallback|mcp_tool_listing|.*_tool_result")
#: What a delta holds, and the types of the blocks that it may extend.
_DELTAS: dict[str, tuple[FieldRules, tuple[str, ...]]] = {
    "text_delta": ({"text": "text"}, ("text",)),
    "citations_delta": ({"citation": "object"}, ("text",)),
    "thinking_delta": ({"thinking": "text"}, ("thinking",)),
    "signature_delta": ({"signature": "text"}, ("thinking",)),
    "input_json_delta": ({"partial_json": "text"}, ("tool_use", "server_tool_use", "mcp_tool_use")),
    "compaction_delta": ({"content": "any"}, ("compaction",)),
}

_MOVES = {
    "NEW": {"message_start": "BODY", "error": "DONE"},
    "BODY": {"ping": "BODY", "content_block_start": "BLOCK", "message_delta": "ENDING", "error": "DONE"},
    "BLOCK": {"ping": "BLOCK", "content_block_delta": "BLOCK", "content_block_stop": "BODY", "error": "DONE"},
    "ENDING": {"ping": "ENDING", "message_stop": "DONE", "error": "DONE"},
    "DONE": {},
}


class AnthropicChecker(StreamChecker):
    """Checks one stream of the Messages API; see `StreamChecker`."""

    def __init__(self) -> None:
        super().__init__(_MOVES)
        self._index = 0
        self._block_type = ""
        self._arguments: list[str] = []
        self._is_signed = False
        self._has_calls = False
        self._has_cut_call = False

    def check_frame(self, event: str, data: bytes) -> None:
        payload = self.decode(data)
        if payload is None:
            return
        kind = str(payload.get("type"))
        self.require(kind == event, "the event's name is not the payload's type")
        if not self.require(kind in _EVENTS, "an event of an unknown type") or not self.move(kind):
            return
        if not self.check_fields(payload, _EVENTS[kind], kind):
            return
        self.require(payload.get("index", self._index) == self._index, f"{kind}.index is not {self._index}")
        match payload:
            case {"content_block": dict(block)}:
                self._start_block(block)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._extend_block(delta)
            case {"type": "content_block_stop"}:
                self._stop_block()
            case {"type": "message_delta", "delta": dict(delta)}:
                self._check_stop_reason(str(delta["stop_reason"]), delta["stop_sequence"])

    def check_end(self) -> None:
        self.require(self.state == "DONE", "the stream ends before message_stop or an error")

    def _start_block(self, block: Json) -> None:
        self._block_type = str(block["type"])
        is_known = self._block_type in _BLOCKS or _OTHER_BLOCK.fullmatch(self._block_type)
        self.require(bool(is_known), "a block of an unknown type")
        self.check_fields(block, _BLOCKS.get(self._block_type, {}), "content_block")
        self._has_calls = self._has_calls or self._block_type == "tool_use"
        self._arguments = []
        self._is_signed = False

    def _extend_block(self, delta: Json) -> None:
        kind = str(delta["type"])
        rules, block_types = _DELTAS.get(kind, ({}, ()))
        fits = self._block_type in block_types
        if not self.require(fits, f"{kind} does not fit a {self._block_type} block"):
            return
        self.check_fields(delta, rules, "delta")
        self.require(not self._is_signed, "a delta after the signature")
        self._is_signed = self._is_signed or kind == "signature_delta"
        self._arguments.append(str(delta.get("partial_json", "")))
        self.require(delta.get(kind.removesuffix("_delta")) != "", f"an empty {kind}")

    def _stop_block(self) -> None:
        self._index += 1
        is_signed = self._is_signed or self._block_type != "thinking"
        self.require(is_signed, "a thinking block without a signature")
        has_empty_piece = self._block_type == "tool_use" and "" in self._arguments[1:]
        self.require(not has_empty_piece, "an empty piece of arguments after the first")
        text = "".join(self._arguments)
        try:
            self.require(not text or isinstance(decode(text), dict), "arguments that are not a JSON object")
        except DragomanError:
            # Whether a call may be cut short depends on the stop reason, which follows.
            self._has_cut_call = True
            self.require(text.lstrip()[:1] == "{", "arguments that cannot become a JSON object")

    def _check_stop_reason(self, reason: str, sequence: object) -> None:
        self.require(sequence is None or reason == "stop_sequence", f"{reason} with a stop_sequence")
        self.require(self._has_calls or reason != "tool_use", f"{reason} without a tool_use block")
        is_answer = reason in ("end_turn", "stop_sequence")
        self.require(not (self._has_calls and is_answer), f"{reason} with a tool_use block")
        is_cut = reason in _CUTTING_REASONS
        self.require(is_cut or not self._has_cut_call, f"{reason} with a call whose arguments are broken")


def check_stream(stream: bytes) -> list[Violation]:
    """Everything in the stream that a strict client refuses, in order."""
    return AnthropicChecker().check_sse_stream(stream)
