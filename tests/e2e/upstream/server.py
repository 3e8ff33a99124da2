"""A server on loopback with the four vendors' protocols, as strict as they are, from scripts.

Paths begin with a provider's name and a dialect: /first/anthropic/v1/messages. Requests that offer no tools
are side calls (titles, summaries, routing); they get a fixed answer and do not move the script on.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from tests.e2e.upstream.checks.rules import Refused
from tests.e2e.upstream.conversation import KEY, Conversation, Received
from tests.e2e.upstream.declared import NoSuchTool, call_for, declared
from tests.e2e.upstream.reply_writers.pieces import Reply
from tests.e2e.upstream.reply_writers.registry import VENDORS
from tests.e2e.upstream.script import Fault, Grip, Manner, Step, Turn
from tests.e2e.upstream.sending import Sender
from tests.e2e.upstream.vault import Vault

Json = dict[str, Any]
UPSTREAM_KEY = "upstream-key-0001"
SIDE_TEXT = "A short answer will do."
MAX_BODY = 64 * 1024 * 1024
TURN_PATHS = {
    "anthropic": re.compile(r"v1/messages"),
    "openai_chat": re.compile(r"v1/chat/completions"),
    "openai_responses": re.compile(r"v1/responses"),
    "gemini": re.compile(
        r"v1(?:beta)?/models/(?P<model>[^/:]+):(?P<verb>streamGenerateContent|generateContent)"
    ),
}


class Upstream:
    """The vendors, all on one port. Live on one event loop; conversations may be added from any thread."""

    def __init__(self) -> None:
        self._conversations: dict[bytes, Conversation] = {}
        self._vault = Vault()
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self.address = ""
        #: The keys that the vendors accept: that of the gateways, and logins of clients.
        self.keys = {UPSTREAM_KEY}
        #: Requests that belong to no conversation.
        self.strays: list[str] = []

    async def start(self) -> None:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{provider}/{dialect}/{rest:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def base_url(self, dialect: str, provider: str = "first") -> str:
        version = "/v1" if dialect.startswith("openai") else ""
        return f"{self.address}/{provider}/{dialect}{version}"

    def open(
        self,
        steps: Sequence[Step] | Mapping[str, Sequence[Step]],
        grips: Mapping[str, Grip],
        manner: Manner | None = None,
    ) -> Conversation:
        """A new conversation, with a key that its prompts must hold."""
        key = f"conversation-{next(self._keys):04d}x"
        conversation = Conversation(key, steps, grips, manner)
        self._conversations[key.encode()] = conversation
        return conversation

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        dialect = request.match_info["dialect"]
        conversation = self._conversation_of(raw)
        place = TURN_PATHS[dialect].fullmatch(request.match_info["rest"])
        if request.method != "POST" or place is None or conversation is None:
            return self._stray(request, raw, dialect)
        received = Received(
            provider=request.match_info["provider"],
            dialect=dialect,
            path=request.path_qs,
            headers={name.lower(): value for name, value in request.headers.items()},
            raw=raw,
            body=msgspec.json.decode(raw),
        )
        conversation.received.append(received)
        words = place.groupdict()
        streams = words.get("verb") == "streamGenerateContent" or received.body.get("stream") is True
        sender = Sender(request, received, VENDORS[dialect], conversation.manner, streams=streams)
        return await self._answer(conversation, received, sender, words.get("model", ""))

    def _conversation_of(self, raw: bytes) -> Conversation | None:
        for key in reversed(KEY.findall(raw)):
            if key in self._conversations:
                return self._conversations[key]
        return None

    def _stray(self, request: web.Request, raw: bytes, dialect: str) -> web.Response:
        """What a vendor answers beside the turns: counted tokens, or that there is no such thing."""
        if request.path.endswith("/count_tokens"):
            return web.json_response({"input_tokens": max(1, len(raw) // 4)})
        self.strays.append(f"{request.method} {request.path_qs}")
        return _json(404, VENDORS[dialect].error(404, f"{request.method} {request.path}: nothing here"))

    async def _answer(
        self, conversation: Conversation, received: Received, sender: Sender, model: str
    ) -> web.StreamResponse:
        vendor, body = VENDORS[received.dialect], received.body
        if _find_key(received.dialect, received.headers) not in self.keys:
            received.refusal = "the request does not show the provider's key"
            return _json(401, vendor.error(401, received.refusal))
        try:
            received.checked = vendor.check(body, received.headers, self._vault)
        except Refused as refused:
            received.refusal = str(refused)
            return _json(400, vendor.error(400, received.refusal))
        received.is_main = offers_tools(body)
        step = conversation.next_step(received.provider) if received.is_main else Turn(text=side_answer(body))
        turn = step.turn if isinstance(step, Fault) else step
        try:
            reply = self._reply(turn, conversation, received, model)
        except NoSuchTool as problem:
            conversation.problems.append(str(problem))
            return _json(400, vendor.error(400, f"the script cannot go on: {problem}"))
        return await sender.send(reply, step if isinstance(step, Fault) else None)

    def _reply(self, turn: Turn, conversation: Conversation, received: Received, model: str) -> Reply:
        tools = declared(received.dialect, received.body)
        return Reply(
            number=next(self._numbers),
            text=turn.text,
            reasoning=turn.reasoning,
            calls=tuple(call_for(use, conversation.grips, tools) for use in turn.uses),
            stop=turn.stop,
            request={"model": model, **received.body},
            vault=self._vault,
            input_tokens=max(100, len(received.raw) // 4),
        )


def _json(status: int, body: Json, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json", headers=headers
    )


def _find_key(dialect: str, headers: Mapping[str, str]) -> str:
    shown = headers.get("authorization", "").removeprefix("Bearer ")
    if dialect == "gemini":
        return headers.get("x-goog-api-key", "")
    return headers.get("x-api-key", shown) if dialect == "anthropic" else shown


def offers_tools(body: Json) -> bool:
    """Whether the model may call something: server tools alone are for searches on the side."""
    tools = body.get("tools") or []
    if any(item.get("type") == "additional_tools" for item in _items(body.get("input"))):
        return True
    return any("googleSearch" not in tool and "max_uses" not in tool for tool in tools)


def side_answer(body: Json) -> str:
    """Text, or JSON that fits where a schema is given: a client asks again for as long as it does not."""
    schema = next(_schemas(body), None)
    return msgspec.json.encode(_sample(schema)).decode() if schema else SIDE_TEXT


def _schemas(body: Json) -> Iterator[Json]:
    places = (
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "responseSchema"),
        ("output_config", "format", "schema"),
        ("text", "format", "schema"),
        ("response_format", "json_schema", "schema"),
    )
    for place in places:
        found: Any = body
        for name in place:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict):
            yield found


def _sample(schema: Json) -> object:
    match str(schema.get("type")).lower():
        case "object":
            return {name: _sample(inner) for name, inner in schema.get("properties", {}).items()}
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "array":
            return []
    return SIDE_TEXT


def _items(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
