"""Joins the stream events of one turn into one Messages reply for the caller.

Claude Code may call its model several times within a turn, because a call was denied or a stream broke off.
The caller gets one message: blocks numbered through, usage summed up, and only the calls that it can answer.
Text is passed on as it comes. A call is sent when it is complete, with its arguments in one piece.
"""

from typing import Any

import msgspec

from dragoman.upstream.claude_code.tools import build_public_id, read_inner_name

Json = dict[str, Any]

#: Members of `usage` that are summed up over the messages of a turn.
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class CallerCall(msgspec.Struct, frozen=True):
    """A call of one of the caller's tools. `id` and `name` are the caller's, `inner_id` is Claude Code's."""

    id: str
    name: str
    input: Json
    inner_id: str = ""

    @property
    def block(self) -> Json:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.input}


class _JoinedBlock:
    """An open block. `index` is its number in the reply, or -1 if its events are not passed on."""

    __slots__ = ("index", "inner_id", "pieces", "start")

    def __init__(self, start: Json, index: int, inner_id: str = "") -> None:
        self.start = start
        self.inner_id = inner_id
        self.index = index
        self.pieces: list[str] = []


class ReplyJoiner:
    """Call `feed` with each stream event of the turn, then `finish` once. Both return server-sent events.

    `allowed` are the tools that may be called. With `one_at_a_time` the caller gets one call and the others
    are held. With `is_last` no call may be made.
    """

    def __init__(self, model: str, *, allowed: frozenset[str], one_at_a_time: bool, is_last: bool) -> None:
        self._model = model
        self._allowed = allowed
        self._one_at_a_time = one_at_a_time
        self._is_last = is_last
        self._has_begun = False
        self._open: dict[int, _JoinedBlock] = {}
        self._next_index = 0
        #: Usage of complete messages, and of the current one.
        self._usage: dict[str, int] = {}
        self._message_usage: dict[str, int] = {}
        self._stop: Json = {}
        #: The blocks of the reply, for the history.
        self.blocks: list[Json] = []
        #: Calls in the reply, and calls that are held.
        self.sent: list[CallerCall] = []
        self.held: list[CallerCall] = []
        #: Number of calls that were made although `is_last`.
        self.excess_calls = 0
        #: Id and name of calls of tools that are not allowed.
        self.denied: list[tuple[str, str]] = []

    @property
    def calls(self) -> list[CallerCall]:
        return [*self.sent, *self.held]

    def feed(self, event: Json) -> bytes:
        match event.get("type"):
            case "message_start":
                return self._start_message(event["message"])
            case "content_block_start":
                return self._start_block(int(event["index"]), event["content_block"])
            case "content_block_delta":
                return self._add_delta(int(event["index"]), event["delta"])
            case "content_block_stop":
                return self._stop_block(int(event["index"]))
            case "message_delta":
                self._stop = event.get("delta") or {}
                self._update_usage(event.get("usage") or {})
            case "message_stop":
                self._add_usage()
        return b""

    def finish(self) -> bytes:
        """Write the end of the reply: stop reason and the usage of all messages."""
        self._add_usage()
        usage = {name: self._usage.get(name, 0) for name in _COUNTS}
        reason = str(self._stop.get("stop_reason") or "end_turn")
        if (reason == "tool_use") != bool(self.sent):
            reason = "tool_use" if self.sent else "end_turn"
        start = b"" if self._has_begun else self._start_message({"id": "msg_empty"})
        stop = {"stop_reason": reason, "stop_sequence": self._stop.get("stop_sequence")}
        return start + _write_message_end(stop, usage)

    def _start_message(self, message: Json) -> bytes:
        self._add_usage()
        # Claude Code begins a message again after its stream broke off. Close the blocks that were sent, and
        # drop calls that are not complete.
        out = b"".join([self._stop_block(number) for number in list(self._open) if self._is_sent(number)])
        self._open.clear()
        self._stop = {}
        self._update_usage(message.get("usage") or {})
        if self._has_begun:
            return out
        self._has_begun = True
        usage = {name: self._message_usage.get(name, 0) for name in _COUNTS}
        return out + _write_message_start(str(message.get("id")), self._model, usage)

    def _start_block(self, number: int, start: Json) -> bytes:
        if start.get("type") == "tool_use":
            return self._start_call(number, start)
        return self._send_start(number, start)

    def _start_call(self, number: int, start: Json) -> bytes:
        name, inner_id = read_inner_name(str(start.get("name"))), str(start.get("id"))
        if name is None or name not in self._allowed:
            self.denied.append((inner_id, str(start.get("name"))))
            self._open[number] = _JoinedBlock({"type": "hidden"}, -1)
            return b""
        if self._is_last:
            self.excess_calls += 1
            self._open[number] = _JoinedBlock({"type": "hidden"}, -1)
            return b""
        start = {**start, "name": name, "id": build_public_id(inner_id)}
        self._open[number] = _JoinedBlock(start, -1, inner_id)
        return b""

    def _send_start(self, number: int, start: Json) -> bytes:
        index = self._take_index()
        self._open[number] = _JoinedBlock(start, index)
        return write_event({"type": "content_block_start", "index": index, "content_block": start})

    def _add_delta(self, number: int, delta: Json) -> bytes:
        block = self._open.get(number)
        if block is None:
            return b""
        block.pieces.append(str(delta.get("text") or delta.get("partial_json") or ""))
        if block.index < 0:
            return b""
        return write_event({"type": "content_block_delta", "index": block.index, "delta": delta})

    def _stop_block(self, number: int) -> bytes:
        block = self._open.pop(number, None)
        if block is None:
            return b""
        text = "".join(block.pieces)
        if block.start.get("type") == "tool_use":
            arguments = _read_arguments(text, block.start)
            return self._send_call(
                CallerCall(str(block.start["id"]), str(block.start["name"]), arguments, block.inner_id)
            )
        if block.start.get("type") == "text":
            self.blocks.append({"type": "text", "text": text})
        return b"" if block.index < 0 else write_event({"type": "content_block_stop", "index": block.index})

    def _send_call(self, call: CallerCall) -> bytes:
        """Send a complete call, or hold it if the caller takes one call at a time."""
        if self._one_at_a_time and self.sent:
            self.held.append(call)
            return b""
        self.sent.append(call)
        self.blocks.append(call.block)
        return _write_call(self._take_index(), call)

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def _is_sent(self, number: int) -> bool:
        return self._open[number].index >= 0

    def _update_usage(self, usage: Json) -> None:
        """Take the counts of the current message. Each event repeats the counts so far."""
        self._message_usage |= {name: usage[name] for name in _COUNTS if isinstance(usage.get(name), int)}

    def _add_usage(self) -> None:
        for name, count in self._message_usage.items():
            self._usage[name] = self._usage.get(name, 0) + count
        self._message_usage = {}


def write_event(event: Json) -> bytes:
    """Write one server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


def write_calls(calls: list[CallerCall], model: str, message_id: str) -> bytes:
    """Write a reply with these tool calls, without calling a model (usage 0)."""
    usage = dict.fromkeys(_COUNTS, 0)
    out = [_write_message_start(message_id, model, usage)]
    out += [_write_call(index, call) for index, call in enumerate(calls)]
    return b"".join((*out, _write_message_end({"stop_reason": "tool_use", "stop_sequence": None}, usage)))


def _write_call(index: int, call: CallerCall) -> bytes:
    start = {**call.block, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": msgspec.json.encode(call.input).decode()}
    return b"".join(
        (
            write_event({"type": "content_block_start", "index": index, "content_block": start}),
            write_event({"type": "content_block_delta", "index": index, "delta": delta}),
            write_event({"type": "content_block_stop", "index": index}),
        )
    )


def _write_message_start(message_id: str, model: str, usage: Json) -> bytes:
    message: Json = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return write_event({"type": "message_start", "message": message})


def _write_message_end(delta: Json, usage: Json) -> bytes:
    end = {"type": "message_delta", "delta": delta, "usage": usage}
    return write_event(end) + write_event({"type": "message_stop"})


def _read_arguments(text: str, start: Json) -> Json:
    try:
        value = msgspec.json.decode(text) if text.strip() else start.get("input")
    except msgspec.DecodeError:
        value = None
    return value if isinstance(value, dict) else {}
