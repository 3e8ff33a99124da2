"""A model of the Chat API without eyes and without a web search: it calls tools, and repeats their results.

What it does follows from the last user message and from the tools that it is offered; its answer is the last
result word by word. So a client can only know what a tool of the gateway found out if the tool really ran.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

Json = dict[str, Any]
#: What each word of a prompt makes the model call, in this order: the first tool that is offered.
PLANS: Mapping[str, tuple[tuple[str, Json], ...]] = {
    "PICTURE": (("look_at_image", {"image": 1, "question": "What does it show?"}),),
    "SEARCH": (
        ("web_search", {"query": "dragoman history"}),
        ("WebSearch", {"query": "dragoman history"}),
        ("google_web_search", {"query": "dragoman history"}),
        # Claude Code shows its own search only on demand.
        ("ToolSearch", {"query": "select:WebSearch", "max_results": 1}),
    ),
    "NOTE": (("notes__lookup", {"key": "k1"}),),
}
#: Results that lead to another call: a picture that the model cannot see, and a tool that is there now.
GO_ON = ("[Image #", "WebSearch")
_PATH = re.compile(r"\S+/pixel\.png")


class TextOnlyModel:
    """The server of the model; `requests` are the bodies that it got."""

    def __init__(self) -> None:
        self.requests: list[Json] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._handle)
        app.router.add_post("/v1/messages", self._look)
        app.router.add_get("/search", self._search)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _look(self, request: web.Request) -> web.Response:
        """The model that sees pictures: an Anthropic server."""
        body = await request.json()
        kinds = [part["type"] for part in body["messages"][0]["content"]]
        assert kinds == ["image", "text"], kinds
        content = [{"type": "text", "text": "The picture shows a purple heron."}]
        usage = {"input_tokens": 9, "output_tokens": 9}
        return web.json_response(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": body["model"],
                "content": content,
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": usage,
            }
        )

    async def _search(self, request: web.Request) -> web.Response:
        """The search engine, as SearXNG answers."""
        page = {"title": "Dragomans", "url": "https://example.org/dragoman", "content": request.query["q"]}
        return web.json_response({"results": [page]})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = msgspec.json.decode(await request.read(), type=dict)
        self.requests.append(body)
        message = self._answer(body)
        if not body.get("stream"):
            finish = "tool_calls" if "tool_calls" in message else "stop"
            choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
            return web.json_response({**_head("chat.completion"), "choices": [choice], "usage": _USAGE})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for chunk in _chunks(message):
            await response.write(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    def _answer(self, body: Json) -> Json:
        messages = body["messages"]
        offered = [tool["function"]["name"] for tool in body.get("tools") or ()]
        last = messages[-1]
        is_over = not any(mark in _text(last) for mark in GO_ON)
        if last["role"] == "tool" and is_over:
            return {"content": f"It says: {_text(last)} [1]"}
        prompt = "\n".join(_text(each) for each in messages if each["role"] == "user")
        word = next((word for word in PLANS if word in prompt), "PICTURE" if "[Image #" in prompt else "")
        # The client's own way to a picture, if the conversation has none yet.
        if word == "PICTURE" and "[Image #" not in str(messages) and "Read" in offered:
            found = _PATH.search(prompt)
            return _call("Read", {"file_path": found[0] if found else "pixel.png"})
        for name, arguments in PLANS.get(word, ()):
            if name in offered:
                return _call(name, arguments)
        # The inner request of an agent's own search offers nothing else.
        if "web_search" in offered and set(offered) <= {"web_search", "web_fetch"}:
            return _call("web_search", {"query": "dragoman history"})
        return {"content": "Nothing to do."}


_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _head(kind: str) -> Json:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "text-only"}


def _text(message: Json) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _call(name: str, arguments: Json) -> Json:
    function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
    return {
        "content": None,
        "tool_calls": [{"index": 0, "id": "call_0123456789", "type": "function", "function": function}],
    }


def _chunks(message: Json) -> list[Json]:
    head = _head("chat.completion.chunk")
    finish = "tool_calls" if "tool_calls" in message else "stop"
    deltas = [{"role": "assistant", "content": ""}, {key: value for key, value in message.items() if value}]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return [*chunks, {**head, "choices": [], "usage": _USAGE}]
