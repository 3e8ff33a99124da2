"""A bare client for each dialect: sends one request over HTTP and returns exactly what came back.

It does not retry, does not forgive and does not guess, so that a test sees what the gateway did.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Literal

import aiohttp
import msgspec

from tests.e2e.clients.client import CLIENT_KEY
from tests.e2e.clients.python_tools import functions

Json = dict[str, Any]
SECONDS = 20.0


class ClientReply(msgspec.Struct, kw_only=True):
    """What the client received."""

    status: int = 0
    headers: dict[str, str] = {}
    raw: bytes = b""
    #: The connection broke before the reply's end.
    broke: bool = False
    text: str = ""
    #: Whole calls only: name and arguments.
    calls: list[tuple[str, Json]] = []
    #: The vendor's word for why the reply stopped.
    stop: str = ""
    #: The error's message, wherever it stood.
    error: str = ""
    #: The vendor's word for the kind of error.
    error_kind: str = ""
    #: Frames that are no JSON, which no client can take.
    garbled: list[str] = []
    #: Whether the reply has its closing event.
    is_finished: bool = False

    def outcome(self) -> Literal["finished", "failed", "cut"]:
        if self.error or self.status >= 300 or self.broke:
            return "failed"
        return "finished" if self.is_finished else "cut"


def _anthropic_body(model: str, prompt: str) -> Json:
    return {
        "model": model,
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "messages": [{"role": "user", "content": prompt}],
        "tools": functions("input_schema"),
    }


def _chat_body(model: str, prompt: str) -> Json:
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "tools": [{"type": "function", "function": one} for one in functions("parameters")],
    }


def _responses_body(model: str, prompt: str) -> Json:
    return {
        "model": model,
        "input": [{"role": "user", "content": prompt}],
        "tools": [{"type": "function", "strict": False, **one} for one in functions("parameters")],
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }


def _gemini_body(model: str, prompt: str) -> Json:
    del model
    return {
        "contents": [{"role": "user", "parts": [{"text": prompt}]}],
        "tools": [{"functionDeclarations": functions("parametersJsonSchema")}],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
    }


BODIES = {
    "anthropic": _anthropic_body,
    "openai_chat": _chat_body,
    "openai_responses": _responses_body,
    "gemini": _gemini_body,
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
}


def request(dialect: str, model: str, prompt: str, *, stream: bool) -> tuple[str, Json]:
    """The path and the body of one turn."""
    body = BODIES[dialect](model, prompt)
    if dialect == "gemini":
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{model}:{verb}", body
    if stream:
        body["stream"] = True
    return PATHS[dialect], body


async def ask(dialect: str, url: str, model: str, prompt: str, *, stream: bool = True) -> ClientReply:
    path, body = request(dialect, model, prompt, stream=stream)
    reply = ClientReply()
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "anthropic-version": "2023-06-01"}
    if dialect == "gemini":
        headers = {"x-goog-api-key": CLIENT_KEY}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
        try:
            async with session.post(url + path, json=body, headers=headers) as response:
                reply.status = response.status
                reply.headers = {name.lower(): value for name, value in response.headers.items()}
                async for piece in response.content.iter_any():
                    reply.raw += piece
        except aiohttp.ClientError:
            reply.broke = True
    understand(dialect, reply, stream=stream)
    return reply


def understand(dialect: str, reply: ClientReply, *, stream: bool) -> None:
    if reply.status == 200 and stream:
        for value in frames(reply):
            _READERS[dialect](reply, value)
        if dialect == "openai_chat":
            reply.is_finished = reply.is_finished and b"data: [DONE]" in reply.raw
        return
    try:
        body = msgspec.json.decode(reply.raw)
    except msgspec.DecodeError:
        reply.error = f"status {reply.status} and a body that is no JSON: {reply.raw[:200]!r}"
        return
    if reply.status == 200:
        _WHOLES[dialect](reply, body)
    else:
        _error(reply, body)


def frames(reply: ClientReply) -> Iterator[Json]:
    """The JSON objects of a stream."""
    for frame in reply.raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        for line in frame.split(b"\n"):
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            try:
                yield msgspec.json.decode(line[6:])
            except msgspec.DecodeError:
                reply.garbled = [*reply.garbled, line.decode()]


def _error(reply: ClientReply, body: Json) -> None:
    error = body["error"]
    reply.error = str(error["message"]) or "an error without a message"
    reply.error_kind = str(error.get("status") or error.get("code") or error.get("type"))


def _read_anthropic(reply: ClientReply, event: Json) -> None:
    match event["type"]:
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            reply.calls = [*reply.calls, (event["content_block"]["name"], {})]
        case "content_block_delta" if event["delta"]["type"] == "text_delta":
            reply.text += event["delta"]["text"]
        case "message_delta":
            reply.stop = event["delta"]["stop_reason"]
        case "message_stop":
            reply.is_finished = True
        case "error":
            _error(reply, event)


def _read_chat(reply: ClientReply, chunk: Json) -> None:
    if "error" in chunk:
        return _error(reply, chunk)
    for choice in chunk["choices"]:
        reply.text += choice["delta"].get("content") or ""
        for entry in choice["delta"].get("tool_calls") or []:
            if entry.get("id"):
                reply.calls = [*reply.calls, (entry["function"]["name"], {})]
        if choice["finish_reason"]:
            reply.stop = choice["finish_reason"]
            reply.is_finished = True
    return None


def _read_responses(reply: ClientReply, event: Json) -> None:
    match event["type"]:
        case "response.output_text.delta":
            reply.text += event["delta"]
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            item = event["item"]
            reply.calls = [*reply.calls, (item["name"], msgspec.json.decode(item["arguments"]))]
        case "response.completed" | "response.incomplete":
            reply.is_finished = True
            details = event["response"]["incomplete_details"] or {}
            reply.stop = details.get("reason", "completed")
        case "response.failed":
            _error(reply, event["response"])
        case "error":
            _error(reply, {"error": event})


def _read_gemini(reply: ClientReply, chunk: Json) -> None:
    if "error" in chunk:
        return _error(reply, chunk)
    for candidate in chunk.get("candidates", []):
        for part in (candidate.get("content") or {}).get("parts") or []:
            if "functionCall" in part:
                reply.calls = [*reply.calls, (part["functionCall"]["name"], part["functionCall"]["args"])]
            elif not part.get("thought"):
                reply.text += part.get("text", "")
        if candidate.get("finishReason"):
            reply.stop = candidate["finishReason"]
            reply.is_finished = True
    return None


_READERS: dict[str, Callable[[ClientReply, Json], None]] = {
    "anthropic": _read_anthropic,
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "gemini": _read_gemini,
}


def _whole_anthropic(reply: ClientReply, body: Json) -> None:
    reply.text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    reply.stop, reply.is_finished = body["stop_reason"], True


def _whole_chat(reply: ClientReply, body: Json) -> None:
    choice = body["choices"][0]
    reply.text = choice["message"]["content"] or ""
    reply.stop, reply.is_finished = choice["finish_reason"], True


def _whole_responses(reply: ClientReply, body: Json) -> None:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    reply.text = "".join(part["text"] for part in parts)
    reply.stop, reply.is_finished = body["status"], body["status"] == "completed"


def _whole_gemini(reply: ClientReply, body: Json) -> None:
    _read_gemini(reply, body)


_WHOLES: dict[str, Callable[[ClientReply, Json], None]] = {
    "anthropic": _whole_anthropic,
    "openai_chat": _whole_chat,
    "openai_responses": _whole_responses,
    "gemini": _whole_gemini,
}


async def leave_early(dialect: str, url: str, model: str, prompt: str) -> bytes:
    """Ask, take the first piece of the reply, and hang up."""
    path, body = request(dialect, model, prompt, stream=True)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
        response = await session.post(url + path, json=body)
        first = await response.content.readany()
        response.close()
    await asyncio.sleep(0)
    return first
