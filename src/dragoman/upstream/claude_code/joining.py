"""The events of one turn as one reply: Claude Code's messages joined, stripped of what is not the caller's.

Claude Code may ask its model several times within a turn, when a call was denied. The caller sees one
message: blocks numbered through, usage added up, and only calls that it can answer.
"""

from typing import Any

import msgspec

from dragoman.upstream.claude_code.naming import outer_id, outer_name

Json = dict[str, Any]

#: Numbers that are added up over the messages of a turn.
_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def frame(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


class Call(msgspec.Struct, frozen=True):
    id: str
    #: As the caller declared it.
    name: str
    input: Json
    #: What Claude Code calls it.
    inner_id: str = ""

    @property
    def block(self) -> Json:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": self.input}


class _Block:
    """A block of the message that is coming in. `index` is its number in the reply; -1: it is not shown."""

    __slots__ = ("index", "inner_id", "pieces", "start")

    def __init__(self, start: Json, index: int, inner_id: str = "") -> None:
        self.start = start
        self.inner_id = inner_id
        self.index = index
        self.pieces: list[str] = []


class Joiner:
    """Fed with stream events. `shown` calls are the caller's now, `held` ones come later, one at a time."""

    def __init__(self, model: str, *, allows: frozenset[str], one_at_a_time: bool, last: bool) -> None:
        self._model = model
        self._allows = allows
        self._one_at_a_time = one_at_a_time
        #: No further calls may be made.
        self._last = last
        self._has_begun = False
        self._blocks: dict[int, _Block] = {}
        self._next = 0
        self._counted: dict[str, int] = {}
        self._now: dict[str, int] = {}
        self._stop: Json = {}
        #: What the reply says, for the history.
        self.said: list[Json] = []
        self.shown: list[Call] = []
        self.held: list[Call] = []
        #: Calls beyond the last round, and calls of tools that the caller has not declared, by id and name.
        self.beyond = 0
        self.denied: list[tuple[str, str]] = []

    @property
    def calls(self) -> list[Call]:
        return [*self.shown, *self.held]

    def feed(self, event: Json) -> bytes:
        match event.get("type"):
            case "message_start":
                return self._start(event["message"])
            case "content_block_start":
                return self._open(int(event["index"]), event["content_block"])
            case "content_block_delta":
                return self._delta(int(event["index"]), event["delta"])
            case "content_block_stop":
                return self._close(int(event["index"]))
            case "message_delta":
                self._stop = event.get("delta") or {}
                self._note(event.get("usage") or {})
            case "message_stop":
                self._add_up()
        return b""

    def finish(self) -> bytes:
        """The end: usage of all messages, and why it stopped."""
        self._add_up()
        usage = {name: self._counted.get(name, 0) for name in _COUNTS}
        reason = str(self._stop.get("stop_reason") or "end_turn")
        if (reason == "tool_use") != bool(self.shown):
            reason = "tool_use" if self.shown else "end_turn"
        begun = b"" if self._has_begun else self._start({"id": "msg_empty"})
        return begun + _message_end(
            {"stop_reason": reason, "stop_sequence": self._stop.get("stop_sequence")}, usage
        )

    def _start(self, message: Json) -> bytes:
        self._add_up()
        # A message that broke off is begun again; what was said of it has been said.
        out = b"".join([self._close(number) for number in list(self._blocks)])
        self._stop = {}
        self._note(message.get("usage") or {})
        if self._has_begun:
            return out
        self._has_begun = True
        usage = {name: self._now.get(name, 0) for name in _COUNTS}
        return out + _message_start(str(message.get("id")), self._model, usage)

    def _open(self, number: int, start: Json) -> bytes:
        if start.get("type") == "tool_use":
            return self._open_call(number, start)
        return self._opened(number, start)

    def _opened(self, number: int, start: Json, inner_id: str = "") -> bytes:
        self._blocks[number] = _Block(start, self._next, inner_id)
        self._next += 1
        return frame({"type": "content_block_start", "index": self._next - 1, "content_block": start})

    def _open_call(self, number: int, start: Json) -> bytes:
        name, inner_id = outer_name(str(start.get("name"))), str(start.get("id"))
        if name is None or name not in self._allows:
            self.denied.append((inner_id, str(start.get("name"))))
            self._blocks[number] = _Block({"type": "hidden"}, -1)
            return b""
        start = {**start, "name": name, "id": outer_id(inner_id)}
        if self._last:
            self.beyond += 1
            self._blocks[number] = _Block({"type": "hidden"}, -1)
            return b""
        if self._one_at_a_time and (self.calls or self._has_open_call()):
            self._blocks[number] = _Block(start, -1, inner_id)
            return b""
        return self._opened(number, start, inner_id)

    def _has_open_call(self) -> bool:
        return any(block.start.get("type") == "tool_use" for block in self._blocks.values())

    def _delta(self, number: int, delta: Json) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            return b""
        block.pieces.append(str(delta.get("text") or delta.get("partial_json") or ""))
        if block.index < 0:
            return b""
        return frame({"type": "content_block_delta", "index": block.index, "delta": delta})

    def _close(self, number: int) -> bytes:
        block = self._blocks.pop(number, None)
        if block is None:
            return b""
        kind, text = block.start.get("type"), "".join(block.pieces)
        if kind == "text":
            self.said.append({"type": "text", "text": text})
        elif kind == "tool_use":
            arguments = _arguments(text, block.start)
            call = Call(str(block.start["id"]), str(block.start["name"]), arguments, block.inner_id)
            if block.index < 0:
                self.held.append(call)
            else:
                self.shown.append(call)
                self.said.append(call.block)
        return b"" if block.index < 0 else frame({"type": "content_block_stop", "index": block.index})

    def _note(self, usage: Json) -> None:
        """Each message tells its numbers so far."""
        self._now |= {name: usage[name] for name in _COUNTS if isinstance(usage.get(name), int)}

    def _add_up(self) -> None:
        for name, count in self._now.items():
            self._counted[name] = self._counted.get(name, 0) + count
        self._now = {}


def asked_again(calls: list[Call], model: str, message_id: str) -> bytes:
    """A reply that asks for calls again, or for the next; nobody was asked, so it costs no tokens."""
    usage = dict.fromkeys(_COUNTS, 0)
    out = [_message_start(message_id, model, usage)]
    for index, call in enumerate(calls):
        arguments = msgspec.json.encode(call.input).decode()
        delta = {"type": "input_json_delta", "partial_json": arguments}
        out += [
            frame(
                {"type": "content_block_start", "index": index, "content_block": {**call.block, "input": {}}}
            ),
            frame({"type": "content_block_delta", "index": index, "delta": delta}),
            frame({"type": "content_block_stop", "index": index}),
        ]
    return b"".join((*out, _message_end({"stop_reason": "tool_use", "stop_sequence": None}, usage)))


def _message_start(message_id: str, model: str, usage: Json) -> bytes:
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
    return frame({"type": "message_start", "message": message})


def _message_end(delta: Json, usage: Json) -> bytes:
    end = {"type": "message_delta", "delta": delta, "usage": usage}
    return frame(end) + frame({"type": "message_stop"})


def _arguments(text: str, start: Json) -> Json:
    try:
        value = msgspec.json.decode(text) if text.strip() else start.get("input")
    except msgspec.DecodeError:
        value = None
    return value if isinstance(value, dict) else {}
