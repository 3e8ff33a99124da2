"""A local model with bad manners, behind a Chat endpoint: its calls are nearly right, each in another way.

It goes through a list of slips, one for each request that offers tools, and then sends its last text. Each
slip is meant to run one command in whatever shell tool the client has.
"""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from tests.e2e.upstream.script import Grip

Json = dict[str, Any]
KEY = re.compile(rb"job-\d{4}x")
LAST_WORDS = "The job is done."
#: Characters to a piece: small enough to cut every marker somewhere.
PIECE = 3


class IntendedCall(msgspec.Struct, frozen=True):
    """The call that a well-behaved model would make."""

    tool: str
    argument: str
    command: str

    @property
    def arguments(self) -> str:
        return msgspec.json.encode({self.argument: self.command}).decode()


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """What it sends instead."""

    text: str = ""
    #: Names and arguments, as they are written.
    calls: tuple[tuple[str, str], ...] = ()
    #: The connection breaks in the middle of the last call.
    dies: bool = False


Slip = Callable[[IntendedCall], ModelReply]


def single_quotes(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, f"{{'{call.argument}': '{call.command}',}}"),))


def unfinished(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, call.arguments[:-1]),))


def doubled(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, call.arguments), (call.tool, call.arguments)))


def wrong_case(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool.swapcase(), call.arguments),))


def fenced(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, f"```json\n{call.arguments}\n```"),))


def proper(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, call.arguments),))


def dies(call: IntendedCall) -> ModelReply:
    return ModelReply(calls=((call.tool, call.arguments),), dies=True)


class Job:
    """One agent's run: what the model will do, and how far it is."""

    def __init__(self, key: str, slips: Sequence[Slip], commands: Sequence[str], grip: Grip) -> None:
        self.key = key
        self._steps = iter(zip(slips, commands, strict=True))
        self._grip = grip
        self.turns = 0

    def next(self, body: Json) -> ModelReply:
        tools = [tool["function"]["name"] for tool in body.get("tools") or [] if tool["type"] == "function"]
        tools += _told_of(body)
        if not tools:
            return ModelReply(text="A short answer will do.")
        self.turns += 1
        step = next(self._steps, None)
        if step is None:
            return ModelReply(text=LAST_WORDS)
        slip, command = step
        assert self._grip.tool in tools
        return slip(IntendedCall(self._grip.tool, self._grip.argument, command))


class BadModel:
    def __init__(self) -> None:
        self._jobs: dict[bytes, Job] = {}
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def hire(self, slips: Sequence[Slip], commands: Sequence[str], grips: Mapping[str, Grip]) -> Job:
        """A job, with a key that its prompt must hold."""
        job = Job(f"job-{next(self._numbers):04d}x", slips, commands, grips["run"])
        self._jobs[job.key.encode()] = job
        return job

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        key = KEY.search(raw)
        if key is None:
            return web.json_response({"error": {"message": "whose job is this?"}}, status=400)
        body = msgspec.json.decode(raw)
        reply = self._jobs[key[0]].next(body)
        if not body.get("stream"):
            return web.json_response(_whole(reply))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        async for chunk in _chunks(reply):
            await response.write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
        if reply.dies:
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write(b"data: [DONE]\n\n")
        return response


def _told_of(body: Json) -> list[str]:
    """The tools that the system text describes, one a line, for a model that knows no function calling."""
    system = "\n".join(str(message["content"]) for message in body["messages"] if message["role"] == "system")
    described = [line for line in system.splitlines() if line.startswith('{"name":')]
    return [msgspec.json.decode(line)["name"] for line in described]


def _choice(delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "bad", "choices": [choice]}


async def _chunks(reply: ModelReply) -> AsyncIterator[Json]:
    yield _choice({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield _choice({"content": piece})
    for index, (name, arguments) in enumerate(reply.calls):
        call = {"index": index, "id": f"call_{index}", "type": "function"}
        yield _choice({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        pieces = _pieces(arguments)
        for piece in pieces[: len(pieces) * 2 // 3] if reply.dies else pieces:
            yield _choice({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if reply.dies:
        # What is under way arrives before the end does.
        await asyncio.sleep(0.05)
        return
    yield _choice({}, _finish(reply))


def _whole(reply: ModelReply) -> Json:
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "bad", "choices": [choice]}


def _finish(reply: ModelReply) -> str:
    return "tool_calls" if reply.calls else "stop"


def _pieces(text: str) -> list[str]:
    return [text[place : place + PIECE] for place in range(0, len(text), PIECE)]
