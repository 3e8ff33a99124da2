"""Turns whole replies into streams and back, so that both take one path through the hub."""

from collections.abc import Iterable, Iterator

from dragoman.dialects.base import Json
from dragoman.dialects.errors import find_messages
from dragoman.dialects.openai_chat.accumulate import ChoiceAccumulator
from dragoman.dialects.openai_chat.chunks import DONE
from dragoman.dialects.openai_chat.errors import write_error
from dragoman.hub.errors import DragomanError, Failure, UpstreamProtocolError
from dragoman.wire.fields import decode, encode
from dragoman.wire.sse import Frame, Frames, join_frames

#: Fields of a whole reply that have another form in chunks.
REPLY_FIELDS = frozenset(("object", "choices", "usage"))


def explode(body: Json) -> Frames:
    """The frames of the stream with the same content as a whole reply. A body without choices is an error."""
    choices = body.get("choices")
    if body.get("error") or not isinstance(choices, list) or not choices:
        return _frame(_build_error(body))
    head = {name: value for name, value in body.items() if name not in REPLY_FIELDS}
    head["object"] = "chat.completion.chunk"
    frames = [
        _frame({**head, "choices": [piece]})
        for position, choice in enumerate(choices)
        if isinstance(choice, dict)
        for piece in explode_choice(choice, position)
    ]
    if isinstance(body.get("usage"), dict):
        frames.append(_frame({**head, "choices": [], "usage": body["usage"]}))
    return join_frames((*frames, DONE))


def _frame(payload: Json) -> Frames:
    return (Frame("", encode(payload, blame=UpstreamProtocolError)),)


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
    if delta:
        yield {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
    rest = {name: value for name, value in choice.items() if name not in ("index", "message")}
    yield {"index": index, "delta": {}, "finish_reason": "stop", **rest}


def collect(frames: Iterable[Frame]) -> Json:
    """The whole reply that a client accumulates from a stream, or the error body if the stream failed."""
    head: Json = {}
    usage: object = None
    choices_by_index: dict[int, ChoiceAccumulator] = {}
    for frame in frames:
        if frame.data.strip() == b"[DONE]":
            break
        chunk = decode(frame.data, blame=UpstreamProtocolError)
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
