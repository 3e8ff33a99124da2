"""Scripted models with one defect each. All wrap the embedded model, which follows its instructions."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from dragoman.upstream.embedded.upstream import EmbeddedReply, EmbeddedUpstream
from dragoman.upstream.port import UpstreamRequest

Body = dict[str, Any]
#: Why a request is refused; nothing if it is not.
Refuse = Callable[[Body], str]
#: Changes a whole reply in place.
Spoil = Callable[[Body], None]


class Scripted:
    """A Chat server that does all it is asked, but for its defect."""

    def __init__(
        self,
        *,
        refuses: Refuse = lambda body: "",
        spoils: Spoil = lambda reply: None,
        streams: bool = True,
        stops: bool = True,
        status: int = 400,
    ) -> None:
        self._refuses = refuses
        self._spoils = spoils
        self._streams = streams
        self._stops = stops
        self._status = status
        self._seen: set[str] = set()
        self.bodies: list[Body] = []

    async def send(self, call: UpstreamRequest) -> EmbeddedReply:
        body: Body = msgspec.json.decode(call.body)
        self.bodies.append(body)
        why = self._refuses(body)
        if why:
            return refusal(self._status, why)
        if body["model"] != "mock":
            return refusal(404, f"the model {body['model']} does not exist")
        reply = await self._thought(body, call)
        self._spoils(reply)
        if not call.stream or not self._streams:
            return EmbeddedReply(200, "application/json", iter((msgspec.json.encode(reply),)))
        tells = bool(body.get("stream_options"))
        return EmbeddedReply(200, "text/event-stream", _stream(reply, tells=tells))

    async def close(self) -> None:
        """Nothing is open."""

    async def _thought(self, body: Body, call: UpstreamRequest) -> Body:
        whole = await EmbeddedUpstream().send(
            msgspec.structs.replace(call, body=msgspec.json.encode({**body, "stream": False}), stream=False)
        )
        reply: Body = msgspec.json.decode(b"".join([piece async for piece in whole.pieces()]))
        message = reply["choices"][0]["message"]
        if has_picture(body):
            message["content"] = "Red."
        if self._stops and message["content"]:
            for stop in body.get("stop") or ():
                message["content"] = message["content"].partition(stop)[0]
        prompt = str(body["messages"])
        cached = reply["usage"]["prompt_tokens"] if prompt in self._seen else 0
        self._seen.add(prompt)
        reply["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
        return reply


def refusal(status: int, why: str, content_type: str = "application/json") -> EmbeddedReply:
    error = {"error": {"message": why, "type": "invalid_request_error"}}
    body = msgspec.json.encode(error) if content_type == "application/json" else why.encode()
    return EmbeddedReply(status, content_type, iter((body,)))


def has_picture(body: Body) -> bool:
    return "image_url" in str(body["messages"])


def _stream(reply: Body, *, tells: bool) -> Iterator[bytes]:
    (choice,) = reply["choices"]
    message = choice["message"]
    deltas: list[Body] = [{"role": "assistant"}]
    if message.get("reasoning_content"):
        deltas.append({"reasoning_content": message["reasoning_content"]})
    text = message.get("content") or ""
    deltas += [{"content": text[start : start + 8]} for start in range(0, len(text), 8)]
    deltas += [
        {"tool_calls": [{"index": index, **call}]}
        for index, call in enumerate(message.get("tool_calls") or ())
    ]
    head = {"id": reply["id"], "object": "chat.completion.chunk", "created": 5, "model": reply["model"]}
    for delta in deltas:
        yield _frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _frame({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if tells and "usage" in reply:
        yield _frame({**head, "choices": [], "usage": reply["usage"]})
    yield b"data: [DONE]\n\n"


def _frame(value: object) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def message_of(reply: Body) -> Body:
    message: Body = reply["choices"][0]["message"]
    return message


def writes_calls_as_text(reply: Body) -> None:
    message = message_of(reply)
    for call in message.pop("tool_calls", ()):
        function = call["function"]
        body = {"name": function["name"], "arguments": msgspec.json.decode(function["arguments"])}
        message["content"] = f"<tool_call>\n{msgspec.json.encode(body).decode()}\n</tool_call>"
    reply["choices"][0]["finish_reason"] = "stop"


def makes_one_call(reply: Body) -> None:
    message = message_of(reply)
    if "tool_calls" in message:
        del message["tool_calls"][1:]


def breaks_long_arguments(reply: Body) -> None:
    """Line ends stand in the string as they are, which JSON forbids."""
    for call in message_of(reply).get("tool_calls", ()):
        function = call["function"]
        if len(function["arguments"]) > 200:
            ((name, text),) = msgspec.json.decode(function["arguments"]).items()
            lines = [msgspec.json.encode(line).decode()[1:-1] for line in text.split("\n")]
            function["arguments"] = f'{{"{name}": "{chr(10).join(lines)}"}}'


def ends_with_stop(reply: Body) -> None:
    reply["choices"][0]["finish_reason"] = "stop"


def counts_nothing(reply: Body) -> None:
    del reply["usage"]


def thinks_aloud(reply: Body) -> None:
    message = message_of(reply)
    thought = message.pop("reasoning_content", "")
    if thought:
        message["content"] = f"<think>\n{thought}\n</think>\n\n{message['content'] or ''}"


def never_thinks(reply: Body) -> None:
    message_of(reply).pop("reasoning_content", None)


def needs_its_reasoning(body: Body) -> str:
    calling = [message for message in body["messages"] if message.get("tool_calls")]
    missing = any(not message.get("reasoning_content") for message in calling)
    return "reasoning_content must be passed back" if "reasoning_effort" in body and missing else ""


def knows_no(member: str) -> Refuse:
    return lambda body: f"unknown argument: {member}" if member in body else ""


def takes_no_forced_call(body: Body) -> str:
    return "tool_choice must be auto" if body.get("tool_choice", "auto") != "auto" else ""


def takes_no_pictures(body: Body) -> str:
    return "this model takes text only" if has_picture(body) else ""


def calls_nothing(reply: Body) -> None:
    message = message_of(reply)
    if message.pop("tool_calls", None):
        message["content"] = "I would rather not."
    ends_with_stop(reply)


def calls_elsewhere(reply: Body) -> None:
    for call in message_of(reply).get("tool_calls", ()):
        call["function"]["arguments"] = call["function"]["arguments"].replace("Paris", "Oslo")


def forgets_results(reply: Body) -> None:
    message = message_of(reply)
    if "degrees" in (message["content"] or ""):
        message["content"] = "How nice."


def leaves_out_content(reply: Body) -> None:
    message_of(reply)["content"] = None


def hides_its_reasoning(reply: Body) -> None:
    if message_of(reply).pop("reasoning_content", ""):
        reply["usage"]["completion_tokens_details"] = {"reasoning_tokens": 7}


def changes_long_arguments(reply: Body) -> None:
    for call in message_of(reply).get("tool_calls", ()):
        call["function"]["arguments"] = call["function"]["arguments"].replace("7:\\t", "7: ")


def calls_the_first_tool(reply: Body) -> None:
    for call in message_of(reply).get("tool_calls", ()):
        if len(call["function"]["arguments"]) < 200:
            call["function"]["name"] = "get_weather"


def caches_nothing(reply: Body) -> None:
    reply["usage"]["prompt_tokens_details"] = {"cached_tokens": 0}
