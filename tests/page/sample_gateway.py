"""A gateway with two upstreams and sessions of several agents, for the tests and the pictures of the page."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from dragoman.config.load import load
from tests.server.running import Running, running
from tests.upstream.byte_server import eventually

CONFIG = """\
[server]
port = 0

[records]
record = "bodies"

[providers.local]
dialect = "openai_chat"
base_url = "{url}/v1"
api_key = "sk-upstream-key-of-the-page"
retries = 0

[providers.local.models."qwen3-coder"]
price_input = 0.4
price_output = 1.6
price_cache_read = 0.08

[providers.busy]
dialect = "anthropic"
base_url = "{url}/busy"
api_key = "sk-another-key-of-the-page"
retries = 0

[[rules]]
name = "large"
route = "claude-*"
when = {{ tokens_over = 60000 }}

[[routes]]
match = "claude-*"
target = ["busy/claude-opus-5", "local/qwen3-coder"]

[routes.governance]
tools = "hold"
guard = [{{ use = "git_destructive", tools = ["Bash"], paths = ["command"] }}]

[[routes]]
match = "*"
target = "local/qwen3-coder"

[routes.governance]
tools = "hold"
guard = [{{ use = "git_destructive", tools = ["Bash"], paths = ["command"] }}]
"""

BASH = {
    "name": "Bash",
    "description": "Run a command",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command"],
    },
}
SYSTEM = "You are a coding agent.\n" + "Work carefully and explain each step in one sentence. " * 60

#: The arguments of a call, in the pieces in which the model sends them.
Call = tuple[str, Sequence[str]]


class Say(msgspec.Struct, frozen=True):
    """One reply of the model: its text, its call, and its counts of tokens."""

    text: str = ""
    call: Call | None = None
    prompt: int = 4000
    cached: int = 0
    answer: int = 60


class Model:
    """An OpenAI-compatible server that sends the next reply of its list, piece by piece."""

    def __init__(self) -> None:
        self.says: list[Say] = []
        #: Closed while a reply waits in its middle.
        self.gate = asyncio.Event()
        self.gate.set()
        self.pause = 0.0
        self.url = ""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Model"]:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/busy/{tail:.*}", self._refuse)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[union-attr]  # it is set after `start`
        try:
            yield self
        finally:
            self.gate.set()
            await runner.cleanup()

    async def _refuse(self, request: web.Request) -> web.Response:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return web.json_response(error, status=529)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        say = self.says.pop(0) if self.says else Say(text="good day")
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for delta in _list_deltas(say):
            await response.write(_write({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
            await asyncio.sleep(self.pause)
            await self.gate.wait()
        reason = "tool_calls" if say.call else "stop"
        await response.write(_write({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
        usage: dict[str, object] = {"prompt_tokens": say.prompt, "completion_tokens": say.answer}
        usage |= {"prompt_tokens_details": {"cached_tokens": say.cached}}
        await response.write(_write({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response


def _write(members: dict[str, object]) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "qwen3-coder"}
    return b"data: " + msgspec.json.encode({**head, **members}) + b"\n\n"


def _list_deltas(say: Say) -> list[dict[str, object]]:
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": ""}]
    words = say.text.split(" ")
    deltas += [{"content": word if not number else f" {word}"} for number, word in enumerate(words) if word]
    if say.call is not None:
        name, pieces = say.call
        first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return deltas


class Agent:
    """A client with a growing conversation, as Claude Code sends it."""

    def __init__(
        self,
        gateway: Running,
        session: str,
        *,
        sub_agent: str = "",
        model: str = "qwen3-coder",
        key: str = "any",
    ) -> None:
        self._gateway = gateway
        self._model = model
        self._headers = {
            "user-agent": "claude-cli/2.1.325 (external, cli)",
            "x-claude-code-session-id": session,
            "x-api-key": key,
            **({"x-claude-code-agent-id": sub_agent} if sub_agent else {}),
        }
        self.messages: list[dict[str, object]] = []
        self.tools = [BASH]
        #: Further members of the requests.
        self.settings: dict[str, object] = {}

    async def say(self, text: str) -> int:
        """Send a message and keep the reply in the conversation. Returns the status."""
        self.messages.append({"role": "user", "content": text})
        system = f"{SYSTEM}\n<env>\nWorking directory: /srv/parser\n</env>"
        body = {"model": self._model, "max_tokens": 4096, "stream": True, "temperature": 1}
        body |= {"system": system, "tools": self.tools, "messages": self.messages, **self.settings}
        got = await self._gateway.ask("POST", "/v1/messages", body, self._headers)
        self.messages.append({"role": "assistant", "content": "I did that."})
        return got.status


@asynccontextmanager
async def run_sample_gateway(folder: Path) -> AsyncIterator[tuple[Running, Model]]:
    """A gateway that records, and the model behind it."""
    async with Model().serve() as model:
        file = folder / "dragoman.toml"
        text = CONFIG.format(url=model.url)
        file.write_text(text, "utf-8")
        config = load(text, str(file), {})
        async with running(config, lambda: config, state=folder / "state.db") as gateway:
            yield gateway, model


async def play(gateway: Running, model: Model) -> None:
    """A session with a failover, a repaired call, a denied call and a sub-agent; and two further sessions."""
    main = Agent(gateway, "4f7c1f0e-parser", model="claude-opus-5")
    model.says = [
        Say(
            "I look at the tests first.",
            ("Bash", ('{"command": "py', "test -q", '"}')),
            prompt=5200,
            answer=40,
        ),
        Say(
            "Two tests fail.",
            ("Bash", ('{"command": "grep -n', " 'def parse' src", '/parser.py"')),
            6900,
            5100,
            75,
        ),
        Say(
            "The parser drops the last token.",
            ("Bash", ("{command: 'sed -n 40,80p", " src/parser.py',}")),
            8200,
            6800,
            160,
        ),
        Say("I start again.", ("Bash", ('{"command": "git reset', ' --hard HEAD~3"}')), 9900, 8100, 48),
        Say("The fix is in place; all tests pass.", None, 11800, 9800, 120),
    ]
    helper = Agent(gateway, "4f7c1f0e-parser", sub_agent="explore-1", model="qwen3-coder")
    for number, text in enumerate(("Fix the parser.", "Go on.", "Which line?", "Start again.", "Finish.")):
        await main.say(text)
        if number == 1:
            model.says.insert(0, Say("The parser is in src/parser.py.", None, 2100, 0, 90))
            await helper.say("Find the parser.")
    other = Agent(gateway, "b21d9a44-docs")
    model.says = [
        Say("The page is written.", None, 3000 + 900 * each, 2800 * min(each, 1) + 700 * each, 300)
        for each in range(4)
    ]
    for text in ("Write a page.", "Shorter.", "Add an example.", "Thanks."):
        await other.say(text)
    codex = {"user-agent": "codex_cli_rs/0.166.0", "session-id": "019-codex", "authorization": "Bearer any"}
    body = {"model": "gpt-5.5", "stream": True, "input": "Explain this repository.", "instructions": SYSTEM}
    model.says = [Say("It is a parser.", None, 5400, 0, 210)]
    await gateway.ask("POST", "/v1/responses", body, codex)
    recorder = gateway.app.recorder
    assert recorder is not None
    await eventually(lambda: recorder.status.written >= 11, within=15)
