"""A caller of Claude Code behind the gateway, on the OpenAI SDK; and the gateway that it calls.

One gateway serves all tests. It has a provider for each set of limits; each model's name leads to one.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import openai

from tests.e2e.environment import Environment
from tests.e2e.gateway import Gateway
from tests.e2e.upstream.conversation import Conversation
from tests.e2e.upstream.script import Grip, Step

Json = dict[str, Any]

MODEL = "custom-claude-4-sonnet"

#: Limits by the name of the model that leads to them.
LIMITS: dict[str, str] = {
    MODEL: "warm = 0",
    "hasty": "warm = 0\ncall_timeout = 0.3",
    "forgetful": "warm = 0\nidle = 0.3\npark = 0.3",
    "narrow": "warm = 0\nlimit = 1",
    "brief": "warm = 0\nmax_turns = 1",
    "prepared": "warm = 1",
}
PROVIDER = """
[providers.{name}]
dialect = "claude_code"
base_url = "{url}"
api_key = "inner-key"

[providers.{name}.sessions]
{limits}

[[routes]]
match = "{name}"
target = "{name}/inner-model"
"""


def config(url: str) -> str:
    return "".join(PROVIDER.format(name=name, url=url, limits=limits) for name, limits in LIMITS.items())


def tool(name: str, parameter: str) -> Json:
    properties = {parameter: {"type": "string", "description": f"The {parameter}."}}
    parameters = {"type": "object", "properties": properties, "required": [parameter]}
    about = {"name": name, "description": f"Does {name}.", "parameters": parameters}
    return {"type": "function", "function": about}


#: A picture of one point.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CALCULATE = tool("calculate", "expression")
LOOK_UP = tool("look_up", "key")
GRIPS = {
    "calculate": Grip(tool="calculate", argument="expression"),
    "look_up": Grip(tool="look_up", argument="key"),
    "strange": Grip(tool="look_up", about="Does mcp__other__look.up.", argument="key"),
    "shell": Grip(tool="Bash", argument="command", is_undeclared=True),
}


class CallerReply(msgspec.Struct, kw_only=True):
    """One reply, as the caller gets it."""

    content: str | None
    finish: str
    model: str
    calls: list[Any]
    usage: Any
    session: str
    #: What the gateway could not pass on.
    losses: str
    message: Any


class Caller:
    """Knows the gateway, and opens talks."""

    def __init__(self, environment: Environment, gateway: Gateway | None = None) -> None:
        self.environment = environment
        inner = environment.gateway_to("anthropic", keeps_model=True)
        self.gateway = gateway or environment.gateway("claude-code", config(inner.url))
        #: A client that stays open from one request to the next, for measurements of time.
        self.client: openai.OpenAI | None = None

    def talk(self, steps: Sequence[Step], *, model: str = MODEL, streams: bool = False) -> "Talk":
        conversation = self.environment.upstream.open(steps, GRIPS)
        return Talk(self, conversation, model, streams=streams)

    def new_client(self, api_key: str = "caller") -> openai.OpenAI:
        url = f"{self.gateway.url}/v1"
        return openai.OpenAI(base_url=url, api_key=api_key, max_retries=0, timeout=180)

    def counts(self, model: str = MODEL) -> dict[str, int]:
        """What the gateway has counted about a provider's sessions."""
        counts: dict[str, int] = self.admin("GET", "/admin/sessions")["counts"].get(model, {})
        return counts

    def admin(self, method: str, path: str) -> Any:
        return self.environment.run(_admin(self.gateway, method, path))


async def _admin(gateway: Gateway, method: str, path: str) -> Any:
    token = (Path(gateway.folder) / ".local/state/dragoman/admin-token").read_text("ascii").strip()
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, headers=headers) as reply,
    ):
        return await reply.json()


def processes(folder: Path) -> list[int]:
    """Claude Code's processes of the gateway that keeps its state in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line and b"stream-json" in line:
            found.append(int(path.parent.name))
    return found


class Talk:
    """One conversation: the history as the caller keeps it."""

    def __init__(self, caller: Caller, conversation: Conversation, model: str, *, streams: bool) -> None:
        self.caller = caller
        self.conversation = conversation
        self.model = model
        self._streams = streams
        self.history: list[Json] = []
        self.api_key = "caller"

    @property
    def key(self) -> str:
        return self.conversation.key

    @property
    def problems(self) -> list[str]:
        return self.conversation.refusals + self.conversation.problems

    @property
    def received(self) -> list[list[Json]]:
        """The messages of each request that reached the model."""
        return [received.body["messages"] for received in self.conversation.turns]

    @property
    def last_received(self) -> str:
        """The last request that reached the model, as a text to look for things in."""
        return self.conversation.turns[-1].raw.decode()

    @property
    def tools_received(self) -> set[str]:
        """The tools that the model was last offered, by the caller's names."""
        return {
            tool["name"].removeprefix("mcp__gateway__") for tool in self.conversation.turns[-1].body["tools"]
        }

    def result_received(self, call: Any) -> str:
        """The last result of a call that the model received."""
        for message in self.received[-1]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block.get("tool_use_id") == call.id:
                    content = block["content"]
                    return content if isinstance(content, str) else str(content[0]["text"]).rstrip("\n")
        return ""

    def wait_until(self, counted: str, count: int) -> None:
        """Until the gateway has counted so many of something."""
        for _ in range(200):
            if self.caller.counts(self.model)[counted] >= count:
                return
            self.caller.environment.wait(0.05)
        raise AssertionError(f"{counted} never came to {count}")

    def say(self, text: str, **options: Any) -> CallerReply:
        key = "" if self.history else f"{self.key}: "
        self.history.append({"role": "user", "content": f"{key}{text}"})
        return self.send(**options)

    def result(self, call: Any, content: str) -> None:
        self.history.append({"role": "tool", "tool_call_id": call.id, "content": content})

    async def raw_stream(self, tools: list[Json]) -> str:
        """The bytes of a streamed reply to the history as it stands."""
        body = {"model": self.model, "messages": self.history, "tools": tools, "stream": True}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.caller.gateway.url}/v1/chat/completions", json=body) as reply,
        ):
            return await reply.text()

    def leave_early(self, tools: list[Json], after: float = 0.0) -> None:
        """Send the history, take the first words of the reply, and hang up some seconds later."""
        with self._client() as client:
            asked: Any = {"model": self.model, "messages": self.history, "tools": tools}
            with client.chat.completions.create(stream=True, **asked) as stream:
                next(chunk for chunk in stream if chunk.choices and chunk.choices[0].delta.content)
                time.sleep(after)

    def send(self, *, tools: list[Json] | None = None, session: str = "", **more: Any) -> CallerReply:
        """Send the history as it stands; the reply becomes part of it."""
        headers = {"x-session-id": session} if session else {}
        asked: Json = {"model": self.model, "messages": self.history, "extra_headers": headers, **more}
        if tools is not None:
            asked["tools"] = tools
        with self._client() as client:
            reply = (self._streamed if self._streams else self._whole)(client, asked)
        self.history.append(reply.message.to_dict())
        return reply

    def _client(self) -> AbstractContextManager[openai.OpenAI]:
        if self.caller.client is not None:
            return nullcontext(self.caller.client)
        return self.caller.new_client(self.api_key)

    def _whole(self, client: openai.OpenAI, asked: Json) -> CallerReply:
        raw = client.chat.completions.with_raw_response.create(**asked)
        return _build_reply(raw.parse(), raw.headers)

    def _streamed(self, client: openai.OpenAI, asked: Json) -> CallerReply:
        asked["stream_options"] = {"include_usage": True}
        with client.chat.completions.stream(**asked) as stream:
            for _ in stream:
                pass
            return _build_reply(stream.get_final_completion(), stream._response.headers)


def _build_reply(completion: Any, headers: Any) -> CallerReply:
    choice = completion.choices[0]
    return CallerReply(
        content=choice.message.content,
        finish=choice.finish_reason,
        model=completion.model,
        calls=choice.message.tool_calls or [],
        usage=completion.usage,
        session=headers["x-session-id"],
        losses=headers.get("x-dragoman-losses", ""),
        message=choice.message,
    )


class Host:
    """A gateway of a test's own, which it may end and start again on the same files."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        self._config = config(environment.gateway_to("anthropic", keeps_model=True).url)
        self.gateway = self._started()

    def _started(self) -> Gateway:
        gateway = Gateway(self._config, self._folder)
        self._environment.run(gateway.start())
        return gateway

    @property
    def caller(self) -> Caller:
        return Caller(self._environment, self.gateway)

    @property
    def processes(self) -> list[int]:
        return processes(self._folder)

    @property
    def folders(self) -> list[Path]:
        """Where gateways keep, or kept, their sessions."""
        return list(self._folder.glob(".local/state/dragoman/claude-code/gateway-*"))

    def restart(self, *, killed: bool = False) -> None:
        self._environment.run(self.gateway.kill() if killed else self.gateway.stop())
        self.gateway = self._started()

    def close(self) -> None:
        self._environment.run(self.gateway.stop())


def until(environment: Environment, holds: object) -> None:
    """Wait until something is the case."""
    assert callable(holds)
    for _ in range(200):
        if holds():
            return
        environment.wait(0.05)
    raise AssertionError("it never came to pass")
