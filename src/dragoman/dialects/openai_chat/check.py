"""Judges a Chat stream by what its strictest readers refuse: OpenAI's streaming helper and the AI SDK.

Written from the specification, not from our reader or writer. A stream is chunks, perhaps a usage chunk, then
`[DONE]`; or it breaks off with an error frame. `MOVES` says which frame may follow which.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto

import msgspec

from dragoman.dialects.base import Json, Violation


class Phase(Enum):
    NEW = auto()
    TALKING = auto()
    FINISHED = auto()
    COUNTED = auto()
    DONE = auto()
    FAILED = auto()


MOVES: dict[Phase, dict[str, Phase]] = {
    Phase.NEW: {"chunk": Phase.TALKING, "error": Phase.FAILED},
    Phase.TALKING: {"chunk": Phase.TALKING, "finish": Phase.FINISHED, "error": Phase.FAILED},
    Phase.FINISHED: {
        "chunk": Phase.FINISHED,
        "finish": Phase.FINISHED,
        "usage": Phase.COUNTED,
        "done": Phase.DONE,
        "error": Phase.FAILED,
    },
    Phase.COUNTED: {"done": Phase.DONE, "error": Phase.FAILED},
    Phase.DONE: {},
    Phase.FAILED: {},
}

FINISH_REASONS = frozenset(("stop", "length", "tool_calls", "content_filter", "function_call"))
#: Finish reasons and whether calls must have come (True), must not have (False).
NEEDS_CALLS = {"tool_calls": True, "function_call": True, "stop": False}

CONSTANT_FIELDS: dict[str, type] = {"id": str, "created": int, "model": str}
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
ERROR_FIELDS: dict[str, tuple[type, ...]] = {
    "message": (str,),
    "type": (str,),
    "param": (str, type(None)),
    "code": (str, type(None)),
}
#: What the body of each kind of call is called, and the name of its arguments there.
CALL_BODIES = {"function": "arguments", "custom": "input"}

Complaints = Iterator[str]


class ChoiceState:
    """What has been said in one choice."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_function_call = False
        self.has_finished = False
        self.list_lengths: dict[str, int] = {}
        #: Fields that clients cannot put together from pieces.
        self.sent_once: set[str] = set()

    @property
    def has_calls(self) -> bool:
        return bool(self.calls) or self.has_function_call


def check_stream(stream: bytes) -> list[Violation]:
    """Everything that a strict reader would refuse, frame by frame."""
    judge = _Judge()
    violations: list[Violation] = []
    number = 0
    if stream and not stream.endswith(b"\n\n"):
        violations.append(
            Violation(stream.count(b"\n\n") + 1, "the last frame does not end with a blank line")
        )
    for part in stream.split(b"\n\n"):
        if not part or part.startswith(b":"):
            continue
        number += 1
        violations += [Violation(number, message) for message in judge.frame(part)]
    violations += [Violation(number, message) for message in judge.end()]
    return violations


class _Judge:
    def __init__(self) -> None:
        self._phase = Phase.NEW
        self._constants: Json = {}
        self._choices: dict[int, ChoiceState] = {}
        self._usage_key: bool | None = None

    def frame(self, part: bytes) -> Complaints:
        if part[:6] != b"data: " or b"\n" in part or b"\r" in part:
            yield "a frame must be one line that begins with 'data: '"
            return
        if part == b"data: [DONE]":
            yield from self._move("done")
            return
        try:
            payload = msgspec.json.decode(part[6:])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield "the payload is not JSON"
            return
        if not isinstance(payload, dict):
            yield "the payload is not an object"
        elif payload.get("error"):
            yield from self._move("error")
            yield from _error(payload["error"])
        else:
            yield from self._chunk(payload)

    def end(self) -> Complaints:
        if self._phase not in (Phase.DONE, Phase.FAILED):
            yield "the stream ends without [DONE] and without an error"

    def _move(self, kind: str) -> Complaints:
        following = MOVES[self._phase].get(kind)
        if following is None:
            yield f"{kind} while {self._phase.name}"
        else:
            self._phase = following

    def _chunk(self, chunk: Json) -> Complaints:
        if chunk.get("object") != "chat.completion.chunk":
            yield "object is not chat.completion.chunk"
        for name, kind in CONSTANT_FIELDS.items():
            value = chunk.get(name)
            if type(value) is not kind or (name == "id" and not value):
                yield f"{name} is missing or mistyped"
            elif self._constants.setdefault(name, value) != value:
                yield f"{name} has changed"
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield "choices is not a list"
            return
        yield from self._usage(chunk, choices)
        if choices:
            reasons = [c.get("finish_reason") for c in choices if isinstance(c, dict)]
            yield from self._move("finish" if any(reasons) else "chunk")
        for choice in choices:
            if isinstance(choice, dict):
                yield from self._choice(choice)
            else:
                yield "a choice is not an object"

    def _usage(self, chunk: Json, choices: list[object]) -> Complaints:
        usage = chunk.get("usage")
        if usage is None:
            if self._usage_key is None:
                self._usage_key = "usage" in chunk
            elif self._usage_key != ("usage" in chunk):
                yield "usage is null in some chunks and missing in others"
            if not choices:
                yield "a chunk without choices and without usage"
            return
        if choices:
            yield "usage in a chunk with choices"
            return
        if self._usage_key is False:
            yield "a usage chunk although earlier chunks have no usage"
        if any(not state.has_finished for state in self._choices.values()):
            yield "usage before every choice has finished"
        yield from self._move("usage")
        counts = [usage.get(name) if isinstance(usage, dict) else None for name in COUNTS]
        numbers = [count for count in counts if type(count) is int and count >= 0]
        if len(numbers) != len(COUNTS):
            yield "usage lacks a count"
        elif numbers[0] + numbers[1] != numbers[2]:
            yield "total_tokens is not the sum"

    def _choice(self, choice: Json) -> Complaints:
        index = choice.get("index")
        if type(index) is not int or not 0 <= index <= len(self._choices):
            yield "a choice's index is missing or leaves a gap"
            return
        is_first = index not in self._choices
        state = self._choices.setdefault(index, ChoiceState())
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            yield "delta is not an object"
            return
        if is_first != (delta.get("role") == "assistant"):
            yield "the role belongs into the first chunk of a choice" if is_first else "the role comes again"
        if state.has_finished:
            yield "a choice goes on after its finish reason"
        yield from self._delta(delta, state)
        reason = choice.get("finish_reason")
        if reason is not None:
            state.has_finished = True
            yield from _finish(reason, delta, state)

    def _delta(self, delta: Json, state: ChoiceState) -> Complaints:
        for name, value in delta.items():
            if value is None or name == "role":
                continue
            judge = DELTA_JUDGES.get(name)
            if judge is not None:
                yield from judge(value, state)
            elif isinstance(value, list):
                yield from _list(name, value, state)
            elif not isinstance(value, str | dict):
                if name in state.sent_once:
                    yield f"{name} comes again, and clients would add it up"
                state.sent_once.add(name)


def _finish(reason: object, delta: Json, state: ChoiceState) -> Complaints:
    if reason not in FINISH_REASONS:
        yield "finish_reason is not one of the known words"
    if delta:
        yield "the finish chunk has a delta"
    needed = NEEDS_CALLS.get(str(reason))
    if needed is not None and needed != state.has_calls:
        yield f"finish_reason {reason} {'without' if needed else 'in spite of'} calls"


def _text(value: object, state: ChoiceState) -> Complaints:
    if not isinstance(value, str):
        yield "content or refusal is not a string"


def _list(name: str, value: list[object], state: ChoiceState) -> Complaints:
    """A list of a helper-unknown field: indexed without gaps, or sent once."""
    indexes = [entry.get("index") if isinstance(entry, dict) else None for entry in value]
    if all(index is None for index in indexes):
        if name in state.sent_once or state.list_lengths.get(name):
            yield f"{name} comes again without indexes"
        state.sent_once.add(name)
        return
    for index in indexes:
        length = state.list_lengths.get(name, 0)
        if type(index) is not int or not 0 <= index <= length:
            yield f"an index of {name} is missing or leaves a gap"
        else:
            state.list_lengths[name] = max(length, index + 1)


def _calls(value: object, state: ChoiceState) -> Complaints:
    if not isinstance(value, list) or not value:
        yield "tool_calls is not a list of fragments"
        return
    for fragment in value:
        index = fragment.get("index") if isinstance(fragment, dict) else None
        if type(index) is not int or not 0 <= index <= len(state.calls):
            yield "a call's index is missing or leaves a gap"
        elif index == len(state.calls):
            yield from _first_fragment(fragment, state)
        else:
            yield from _later_fragment(fragment, state.calls[index])


def _first_fragment(fragment: Json, state: ChoiceState) -> Complaints:
    kind = fragment.get("type")
    argument_name = CALL_BODIES.get(kind) if isinstance(kind, str) else None
    state.calls.append(str(kind))
    if argument_name is None:
        yield "a call's first fragment has no known type"
        return
    if not isinstance(fragment.get("id"), str) or not fragment["id"]:
        yield "a call's first fragment has no id"
    body = fragment.get(str(kind))
    if not isinstance(body, dict) or not isinstance(body.get("name"), str) or not body["name"]:
        yield "a call's first fragment has no name"
    elif not isinstance(body.get(argument_name), str):
        yield f"a call's first fragment has no {argument_name}"


def _later_fragment(fragment: Json, kind: str) -> Complaints:
    if "id" in fragment or "type" in fragment:
        yield "a later fragment repeats id or type"
    body = fragment.get(kind)
    if not isinstance(body, dict) or not isinstance(body.get(CALL_BODIES.get(kind, "")), str):
        yield "a later fragment has no arguments"
    elif "name" in body:
        yield "a later fragment repeats the name"


def _function_call(value: object, state: ChoiceState) -> Complaints:
    if not isinstance(value, dict) or not isinstance(value.get("arguments"), str):
        yield "function_call has no arguments"
        return
    if state.has_function_call == ("name" in value):
        yield "the name of a function_call must come once, at first"
    state.has_function_call = True


def _error(error: object) -> Complaints:
    if not isinstance(error, dict):
        yield "error is not an object"
        return
    for name, kinds in ERROR_FIELDS.items():
        if name not in error or not isinstance(error[name], kinds):
            yield f"error.{name} is missing or mistyped"


DELTA_JUDGES: dict[str, Callable[[object, ChoiceState], Complaints]] = {
    "content": _text,
    "refusal": _text,
    "tool_calls": _calls,
    "function_call": _function_call,
}
