"""Judges a stream by Anthropic's grammar, as its strictest readers would: the vendor's SDK and the AI SDK.

Written from the documented grammar alone and sharing no code with our reader and writer, so that a mistake
there cannot hide here.
"""

from collections.abc import Callable
from enum import Enum, auto

from dragoman.dialects.base import Json, Violation
from dragoman.hub.errors import DragomanError
from dragoman.wire.fields import decode, json_type
from dragoman.wire.sse import SseReader


class State(Enum):
    NEW = auto()
    BODY = auto()
    BLOCK = auto()
    ENDING = auto()
    DONE = auto()


#: Which event may come in which state, and the state after it.
MOVES: dict[State, dict[str, State]] = {
    State.NEW: {"message_start": State.BODY, "error": State.DONE},
    State.BODY: {
        "ping": State.BODY,
        "content_block_start": State.BLOCK,
        "message_delta": State.ENDING,
        "error": State.DONE,
    },
    State.BLOCK: {
        "ping": State.BLOCK,
        "content_block_delta": State.BLOCK,
        "content_block_stop": State.BODY,
        "error": State.DONE,
    },
    State.ENDING: {"ping": State.ENDING, "message_stop": State.DONE, "error": State.DONE},
    State.DONE: {},
}

#: The deltas of each kind of block, and the field that each must hold with its JSON type.
DELTAS: dict[str, dict[str, tuple[str, type]]] = {
    "text": {"text_delta": ("text", str), "citations_delta": ("citation", dict)},
    "thinking": {"thinking_delta": ("thinking", str), "signature_delta": ("signature", str)},
    "redacted_thinking": {},
    "tool_use": {"input_json_delta": ("partial_json", str)},
    "server_tool_use": {"input_json_delta": ("partial_json", str)},
    "mcp_tool_use": {"input_json_delta": ("partial_json", str)},
    "compaction": {"compaction_delta": ("content", object)},
    "container_upload": {},
    "fallback": {},
    "mcp_tool_listing": {},
}

#: What a block must hold when it starts: a value that is fixed, or a type.
STARTS: dict[str, dict[str, object]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": {}},
    "server_tool_use": {"id": str, "name": str, "input": {}},
    "mcp_tool_use": {"id": str, "name": str, "input": {}, "server_name": str},
}

STOP_REASONS = frozenset(
    {
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "compaction",
    }
)
#: A reply that was stopped by force may break off inside the arguments of a call.
CUTTING_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
ERROR_TYPES = frozenset(
    {
        "invalid_request_error",
        "authentication_error",
        "billing_error",
        "permission_error",
        "not_found_error",
        "conflict_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "timeout_error",
        "overloaded_error",
    }
)


def check_stream(stream: bytes) -> list[Violation]:
    """Everything in the stream that a strict reader would refuse, in order."""
    reader = SseReader()
    judge = _Judge()
    for received in [*reader.feed(stream), *reader.close()]:
        judge.frame(received.event, received.data)
    judge.end()
    if reader.stray:
        judge.complain("bytes that belong to no event")
    return judge.violations


class _Judge:
    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._number = 0
        self._state = State.NEW
        self._index = 0
        self._kind = ""
        self._arguments: list[str] = []
        self._signed = False
        self._has_calls = False
        self._has_cut_call = False

    def complain(self, message: str) -> None:
        self.violations.append(Violation(self._number, message))

    def frame(self, event: str, data: bytes) -> None:
        self._number += 1
        try:
            payload = decode(data)
        except DragomanError:
            self.complain("the payload is not JSON")
            return
        if not isinstance(payload, dict):
            self.complain(f"the payload is {json_type(payload)}, not an object")
            return
        kind = payload.get("type")
        if kind != event:
            self.complain("the event's name is not the payload's type")
        if not isinstance(kind, str) or not any(kind in moves for moves in MOVES.values()):
            self.complain("an event of an unknown type")
            return
        after = MOVES[self._state].get(kind)
        if after is None:
            self.complain(f"{kind} where the reply is {self._state.name}")
            # However ill-timed, an error is the end.
            self._state = State.DONE if kind == "error" else self._state
            return
        self._state = after
        _EVENTS[kind](self, payload)

    def end(self) -> None:
        if self._state is not State.DONE:
            self.complain("the stream ends before message_stop or an error")

    def _expect(self, holder: Json, name: str, kind: type, where: str) -> object:
        """The value under the name, after a complaint if it is not of this type."""
        value = holder.get(name)
        fits = isinstance(value, kind)
        if kind is int:
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not fits:
            self.complain(f"{where}.{name} is {json_type(value) if name in holder else 'missing'}")
        return value

    def _object(self, holder: Json, name: str, where: str) -> Json:
        value = self._expect(holder, name, dict, where)
        return value if isinstance(value, dict) else {}

    def _message_start(self, payload: Json) -> None:
        message = self._object(payload, "message", "message_start")
        for name in ("id", "model"):
            self._expect(message, name, str, "message")
        fixed: Json = {"type": "message", "role": "assistant", "content": []}
        for name, value in {**fixed, "stop_reason": None, "stop_sequence": None}.items():
            if name not in message or message[name] != value:
                self.complain(f"message.{name} is not what a beginning has")
        usage = self._object(message, "usage", "message")
        self._expect(usage, "input_tokens", int, "message.usage")
        self._expect(usage, "output_tokens", int, "message.usage")

    def _block_start(self, payload: Json) -> None:
        if payload.get("index") != self._index:
            self.complain(f"content_block_start out of turn, expected index {self._index}")
        block = self._object(payload, "content_block", "content_block_start")
        kind = self._expect(block, "type", str, "content_block")
        self._kind = kind if isinstance(kind, str) else ""
        if self._kind not in DELTAS and not self._kind.endswith("_tool_result"):
            self.complain("a block of an unknown type")
        for name, wanted in STARTS.get(self._kind, {}).items():
            if isinstance(wanted, type):
                self._expect(block, name, wanted, "content_block")
            elif name not in block or block[name] != wanted:
                self.complain(f"content_block.{name} is not what a beginning has")
        self._has_calls = self._has_calls or self._kind == "tool_use"
        self._arguments = []
        self._signed = False

    def _block_delta(self, payload: Json) -> None:
        if payload.get("index") != self._index:
            self.complain(f"content_block_delta for a block that is not open, expected index {self._index}")
        delta = self._object(payload, "delta", "content_block_delta")
        kind = delta.get("type")
        wanted = DELTAS.get(self._kind, {}).get(kind) if isinstance(kind, str) else None
        if wanted is None:
            self.complain(f"a delta that does not fit a {self._kind or 'nameless'} block")
            return
        value = self._expect(delta, wanted[0], wanted[1], "delta")
        if self._signed:
            self.complain("a delta after the signature")
        if kind == "signature_delta":
            self._signed = True
            if value == "":
                self.complain("an empty signature")
        elif kind == "input_json_delta" and isinstance(value, str):
            self._arguments.append(value)
        elif kind in ("text_delta", "thinking_delta") and value == "":
            self.complain("an empty delta")

    def _block_stop(self, payload: Json) -> None:
        if payload.get("index") != self._index:
            self.complain(f"content_block_stop out of turn, expected index {self._index}")
        if self._kind == "thinking" and not self._signed:
            self.complain("a thinking block without a signature")
        if self._kind == "tool_use" and self._arguments[1:].count(""):
            self.complain("an empty piece of arguments after the first")
        self._judge_arguments("".join(self._arguments))
        self._index += 1

    def _judge_arguments(self, text: str) -> None:
        """A whole object or nothing; anything else is remembered until the reason of the stop is known."""
        if not text:
            return
        try:
            value = decode(text)
        except DragomanError:
            self._has_cut_call = True
            if text.lstrip()[:1] != "{":
                self.complain("arguments that cannot become a JSON object")
            return
        if not isinstance(value, dict):
            self.complain("arguments that are not a JSON object")

    def _message_delta(self, payload: Json) -> None:
        delta = self._object(payload, "delta", "message_delta")
        told = delta.get("stop_reason")
        reason = told if isinstance(told, str) else ""
        if reason not in STOP_REASONS:
            self.complain("delta.stop_reason is not a known reason")
        if "stop_sequence" not in delta:
            self.complain("delta.stop_sequence is missing")
        elif delta["stop_sequence"] is not None and reason != "stop_sequence":
            self.complain("delta.stop_sequence names a sequence that was not the reason")
        if reason == "tool_use" and not self._has_calls:
            self.complain("stopped for tool use without a tool_use block")
        if reason in ("end_turn", "stop_sequence") and self._has_calls:
            self.complain("stopped as an answer with a tool_use block")
        if self._has_cut_call and reason not in CUTTING_REASONS:
            self.complain("a call with broken arguments in a reply that claims to be whole")
        usage = self._object(payload, "usage", "message_delta")
        self._expect(usage, "output_tokens", int, "message_delta.usage")

    def _error(self, payload: Json) -> None:
        error = self._object(payload, "error", "error")
        self._expect(error, "message", str, "error")
        kind = error.get("type")
        if not isinstance(kind, str) or kind not in ERROR_TYPES:
            self.complain("error.type is not a known type")

    def _nothing(self, payload: Json) -> None:
        """The event's type says it all."""


_EVENTS: dict[str, Callable[[_Judge, Json], None]] = {
    "message_start": _Judge._message_start,
    "content_block_start": _Judge._block_start,
    "content_block_delta": _Judge._block_delta,
    "content_block_stop": _Judge._block_stop,
    "message_delta": _Judge._message_delta,
    "message_stop": _Judge._nothing,
    "ping": _Judge._nothing,
    "error": _Judge._error,
}
