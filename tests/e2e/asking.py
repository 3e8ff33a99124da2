"""A bare client for each dialect: sends one request over HTTP and tells exactly what came back.

It does not retry, does not forgive and does not guess, so that a test can say what the gateway did.
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


class Told(msgspec.Struct, kw_only=True):
    """What the client was told."""

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
    #: Whether the reply's closing words were said.
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


async def ask(dialect: str, url: str, model: str, prompt: str, *, stream: bool = True) -> Told:
    path, body = request(dialect, model, prompt, stream=stream)
    told = Told()
    headers = {"authorization": f"Bearer {CLIENT_KEY}", "anthropic-version": "2023-06-01"}
    if dialect == "gemini":
        headers = {"x-goog-api-key": CLIENT_KEY}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session:
        try:
            async with session.post(url + path, json=body, headers=headers) as response:
                told.status = response.status
                told.headers = {name.lower(): value for name, value in response.headers.items()}
                async for piece in response.content.iter_any():
                    told.raw += piece
        except aiohttp.ClientError:
            told.broke = True
    understand(dialect, told, stream=stream)
    return told


def understand(dialect: str, told: Told, *, stream: bool) -> None:
    if told.status == 200 and stream:
        for value in frames(told):
            _READERS[dialect](told, value)
        if dialect == "openai_chat":
            told.is_finished = told.is_finished and b"data: [DONE]" in told.raw
        return
    try:
        body = msgspec.json.decode(told.raw)
    except msgspec.DecodeError:
        told.error = f"status {told.status} and a body that is no JSON: {told.raw[:200]!r}"
        return
    if told.status == 200:
        _WHOLES[dialect](told, body)
    else:
        _error(told, body)


def frames(told: Told) -> Iterator[Json]:
    """The JSON objects of a stream."""
    for frame in told.raw.replace(b"\r\n", b"\n").split(b"\n\n"):
        for line in frame.split(b"\n"):
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            try:
                yield msgspec.json.decode(line[6:])
            except msgspec.DecodeError:
                told.garbled = [*told.garbled, line.decode()]


def _error(told: Told, body: Json) -> None:
    error = body["error"]
    told.error = str(error["message"]) or "an error without a message"
    told.error_kind = str(error.get("status") or error.get("code") or error.get("type"))


def _read_anthropic(told: Told, event: Json) -> None:
    match event["type"]:
        case "content_block_start" if event["content_block"]["type"] == "tool_use":
            told.calls = [*told.calls, (event["content_block"]["name"], {})]
        case "content_block_delta" if event["delta"]["type"] == "text_delta":
            told.text += event["delta"]["text"]
        case "message_delta":
            told.stop = event["delta"]["stop_reason"]
        case "message_stop":
            told.is_finished = True
        case "error":
            _error(told, event)


def _read_chat(told: Told, chunk: Json) -> None:
    if "error" in chunk:
        return _error(told, chunk)
    for choice in chunk["choices"]:
        told.text += choice["delta"].get("content") or ""
        for entry in choice["delta"].get("tool_calls") or []:
            if entry.get("id"):
                told.calls = [*told.calls, (entry["function"]["name"], {})]
        if choice["finish_reason"]:
            told.stop = choice["finish_reason"]
            told.is_finished = True
    return None


def _read_responses(told: Told, event: Json) -> None:
    match event["type"]:
        case "response.output_text.delta":
            told.text += event["delta"]
        case "response.output_item.done" if event["item"]["type"] == "function_call":
            item = event["item"]
            told.calls = [*told.calls, (item["name"], msgspec.json.decode(item["arguments"]))]
        case "response.completed" | "response.incomplete":
            told.is_finished = True
            details = event["response"]["incomplete_details"] or {}
            told.stop = details.get("reason", "completed")
        case "response.failed":
            _error(told, event["response"])
        case "error":
            _error(told, {"error": event})


def _read_gemini(told: Told, chunk: Json) -> None:
    if "error" in chunk:
        return _error(told, chunk)
    for candidate in chunk.get("candidates", []):
        for part in (candidate.get("content") or {}).get("parts") or []:
            if "functionCall" in part:
                told.calls = [*told.calls, (part["functionCall"]["name"], part["functionCall"]["args"])]
            elif not part.get("thought"):
                told.text += part.get("text", "")
        if candidate.get("finishReason"):
            told.stop = candidate["finishReason"]
            told.is_finished = True
    return None


_READERS: dict[str, Callable[[Told, Json], None]] = {
    "anthropic": _read_anthropic,
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "gemini": _read_gemini,
}


def _whole_anthropic(told: Told, body: Json) -> None:
    told.text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
    told.stop, told.is_finished = body["stop_reason"], True


def _whole_chat(told: Told, body: Json) -> None:
    choice = body["choices"][0]
    told.text = choice["message"]["content"] or ""
    told.stop, told.is_finished = choice["finish_reason"], True


def _whole_responses(told: Told, body: Json) -> None:
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    told.text = "".join(part["text"] for part in parts)
    told.stop, told.is_finished = body["status"], body["status"] == "completed"


def _whole_gemini(told: Told, body: Json) -> None:
    _read_gemini(told, body)


_WHOLES: dict[str, Callable[[Told, Json], None]] = {
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
