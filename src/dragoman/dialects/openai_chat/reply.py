"""Turns whole replies into streams and back, so that both take one path through the hub."""

from collections.abc import Iterable, Iterator

from dragoman.dialects.errors import find_messages
from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_chat.errors import write_error
from dragoman.dialects.openai_chat.stream_blocks import DONE
from dragoman.hub.errors import DragomanError, Failure, UpstreamProtocolError
from dragoman.wire.fields import decode, encode
from dragoman.wire.sse import Frame, Frames, join_frames

#: Fields of a whole reply that have another form in chunks.
REPLY_FIELDS = frozenset(("object", "choices", "usage"))

DEPTH = 8
LIMIT = 256 * 1024 * 1024

#: Fields whose later value replaces the earlier one although it is a string.
SET_KEYS = frozenset(("index", "type", "role", "id", "name"))


def explode(body: Json) -> Frames:
    """The frames of the stream with the same content as a whole reply. A body without choices is an error."""
    choices = body.get("choices")
    if body.get("error") or not isinstance(choices, list) or not choices:
        return _build_frame(_build_error(body))
    head = {name: value for name, value in body.items() if name not in REPLY_FIELDS}
    head["object"] = "chat.completion.chunk"
    frames = [
        _build_frame({**head, "choices": [piece]})
        for position, choice in enumerate(choices)
        if isinstance(choice, dict)
        for piece in explode_choice(choice, position)
    ]
    if isinstance(body.get("usage"), dict):
        frames.append(_build_frame({**head, "choices": [], "usage": body["usage"]}))
    return join_frames((*frames, DONE))


def _build_frame(payload: Json) -> Frames:
    return (Frame("", encode(payload, error_class=UpstreamProtocolError)),)


def _build_error(body: Json) -> Json:
    if body.get("error") or any(find_messages(body)):
        return {"error": body.get("error") or body}
    return write_error(Failure(kind="server", status=502, message="the upstream's reply has no choices"))


def explode_choice(choice: Json, position: int) -> Iterator[Json]:
    """The entries of chunks that a client accumulates to this choice."""
    index = choice.get("index", position)
    message = choice.get("message")
    fields = dict(message) if isinstance(message, dict) else {}
    opening: Json = {"role": fields.pop("role", "assistant")}
    for name in ("content", "refusal"):
        if name in fields:
            empty = isinstance(fields[name], str)
            opening[name] = "" if empty else None
    if "refusal" in fields and fields.get("annotations") == []:
        del fields["annotations"]
    calls = fields.get("tool_calls")
    if isinstance(calls, list):
        fields["tool_calls"] = [
            {"index": number, **call} if isinstance(call, dict) else call for number, call in enumerate(calls)
        ]
    yield {"index": index, "delta": opening, "logprobs": None, "finish_reason": None}
    delta = {name: value for name, value in fields.items() if value is not None}
    rest = {name: value for name, value in choice.items() if name not in ("index", "message")}
    if delta:
        logprobs = rest.pop("logprobs", None)
        yield {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
    # A whole reply cannot be cut short. Without content and without a reason, it is no answer.
    reason = "stop" if any(delta.values()) else None
    yield {"index": index, "delta": {}, "finish_reason": reason, **rest}


def collect(frames: Iterable[Frame]) -> Json:
    """The whole reply that a client accumulates from a stream, or the error body if the stream failed."""
    head: Json = {}
    usage: object = None
    choices_by_index: dict[int, ChoiceAccumulator] = {}
    for frame in frames:
        if frame.data.strip() == b"[DONE]":
            break
        chunk = decode(frame.data, error_class=UpstreamProtocolError)
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error"):
            return {"error": chunk["error"]}
        head.update((name, value) for name, value in chunk.items() if name not in REPLY_FIELDS)
        usage = chunk.get("usage") or usage
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            index = choice.get("index", 0) if isinstance(choice, dict) else None
            if type(index) is int:
                choices_by_index.setdefault(index, ChoiceAccumulator(DragomanError)).feed(choice)
    head.pop("obfuscation", None)
    body: Json = {
        "object": "chat.completion",
        **head,
        "choices": [choices_by_index[index].result() for index in sorted(choices_by_index)],
    }
    if usage is not None:
        body["usage"] = usage
    return body


class TextPieces(list[str]):
    """A string in pieces, joined at the end."""


class IndexedList(dict[int, dict[str, object]]):
    """A list whose entries arrive in fragments with an index."""


class ChoiceAccumulator:
    """Builds one choice of a whole reply from its chunks, as clients of this API do.

    Strings are appended, indexed lists merged, other values replaced. The work is linear, and bounded in size
    and depth.
    """

    def __init__(self, error_class: type[DragomanError]) -> None:
        self._error_class = error_class
        self._choice: dict[str, object] = {}
        self._message: dict[str, object] = {}
        self._logprobs: dict[str, object] | None = None
        self._size = 0

    def feed(self, choice: Json) -> None:
        """Add one entry of the `choices` of a chunk."""
        for key, value in choice.items():
            if key == "delta":
                if isinstance(value, dict):
                    self._merge(self._message, value, 0)
            elif key == "logprobs" and isinstance(value, dict):
                if self._logprobs is None:
                    self._logprobs = {}
                self._merge(self._logprobs, value, 0)
            elif value is not None or key not in self._choice:
                self._choice[key] = value

    def result(self) -> Json:
        """The choice in the form of a whole reply."""
        message = to_json(self._message)
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    call.pop("index", None)
        if "refusal" in message:
            # OpenAI sends both fields or neither, but a stream omits the empty list.
            message.setdefault("annotations", [])
        whole: Json = {"index": 0, **self._choice, "message": message}
        if self._logprobs is not None:
            whole["logprobs"] = to_json(self._logprobs)
        return whole

    def _merge(self, known: dict[str, object], delta: Json, depth: int) -> None:
        for key, value in delta.items():
            old = known.get(key)
            if isinstance(value, str) and key not in SET_KEYS:
                self._grow(len(value))
                if isinstance(old, TextPieces):
                    old.append(value)
                else:
                    known[key] = TextPieces((value,))
            elif isinstance(value, list):
                known[key] = self._merge_list(old, value, depth)
            elif isinstance(value, dict) and depth < DEPTH:
                inner = old if type(old) is dict else {}
                self._merge(inner, value, depth + 1)
                known[key] = inner
            elif value is not None or key not in known:
                known[key] = value

    def _merge_list(self, old: object, value: list[object], depth: int) -> object:
        if (
            depth < DEPTH
            and value
            and all(isinstance(v, dict) and type(v.get("index")) is int for v in value)
        ):
            entries = old if isinstance(old, IndexedList) else IndexedList()
            for entry in value:
                if isinstance(entry, dict):
                    self._merge(entries.setdefault(entry["index"], {}), entry, depth + 1)
            return entries
        self._grow(len(encode(value, error_class=self._error_class)))
        if isinstance(old, list) and not isinstance(old, TextPieces):
            old.extend(value)
            return old
        return list(value)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > LIMIT:
            raise self._error_class(f"more than {LIMIT} characters in one choice")


def to_json(value: dict[str, object]) -> Json:
    """An accumulated object as plain JSON."""
    return {key: _to_json(inner) for key, inner in value.items()}


def _to_json(value: object) -> object:
    if isinstance(value, TextPieces):
        return "".join(value)
    if isinstance(value, IndexedList):
        return [to_json(value[index]) for index in sorted(value)]
    return to_json(value) if type(value) is dict else value
