"""Tools of MCP servers that only the gateway knows, over both transports of the official SDK."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.settings import Secret
from dragoman.config.tools import McpServerSettings, ToolsSettings, WebSearchSettings
from dragoman.gateway_tools import mcp_servers
from dragoman.gateway_tools.mcp import McpTool, build_mcp_tool, find_functions
from dragoman.gateway_tools.mcp_servers import McpFunction, McpServer
from dragoman.gateway_tools.memory import ToolMemory
from dragoman.gateway_tools.tool import ToolFailed, ToolOutcome, ToolRun
from dragoman.gateway_tools.toolbox import build_toolbox
from dragoman.hub.blocks import Media, Text, Tool, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.fold import Reply
from dragoman.hub.request import Message, OutputFormat, Request
from dragoman.hub.usage import Usage
from dragoman.providers.profile import Profile, build_target_facts
from tests.cases.essence import read_essence
from tests.exchange.fakes import Bench, ScriptedUpstream
from tests.exchange.governing import question, script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import events_of_round, read_asked, texts_of_results

pytest.importorskip("mcp", reason="the extra mcp comes with the clients")

PROGRAM = str(Path(__file__).parent / "mcp_program.py")
FACTS = build_target_facts(Profile(dialect="openai_chat"), "anthropic")
SECONDS = 60.0
NAMES = ["notes__lookup", "notes__picture", "notes__wait", "notes__end"]


def stdio(*arguments: str, **more: Any) -> McpServerSettings:
    return McpServerSettings(command=(sys.executable, PROGRAM, *arguments), **more)


async def ask_nothing(name: str, request: Request) -> Reply:
    raise AssertionError


def asked(**more: Any) -> Request:
    return Request(
        dialect="anthropic", model="m", messages=(Message(role="user", blocks=(Text(text="Hi"),)),), **more
    )


def use(
    work: Callable[[McpTool], Coroutine[Any, Any, Any]],
    *,
    search_above: int = 30,
    **servers: McpServerSettings,
) -> Any:
    """Run some work with connected servers, and close them."""

    async def scenario() -> Any:
        tool = build_mcp_tool(servers, search_above)
        try:
            async with asyncio.timeout(SECONDS):
                await tool.prepare()
                return await work(tool)
        finally:
            await tool.close()

    return asyncio.run(scenario())


async def call(tool: McpTool, name: str, /, **arguments: object) -> ToolOutcome | str:
    offer = tool.offer(asked(), FACTS)
    assert offer is not None
    run = ToolRun(name=name, arguments=arguments, context=offer.context, ask_model=ask_nothing)
    return await tool.run(run)


def test_tools_of_a_program_are_offered_and_run() -> None:
    async def work(tool: McpTool) -> None:
        offer = tool.offer(asked(), FACTS)
        assert offer is not None
        assert [each.name for each in offer.functions] == NAMES
        assert offer.functions[0].schema is not None
        assert "key" in str(offer.functions[0].schema)
        found = await call(tool, "notes__lookup", key="k1")
        assert isinstance(found, ToolOutcome)
        assert found.content == (Text(text="The note k1 says: the code word is osprey."),)
        shown = await call(tool, "notes__picture")
        assert isinstance(shown, ToolOutcome)
        assert [type(block) for block in shown.content] == [Text, Media]
        broken = await call(tool, "notes__lookup", key="broken")
        assert isinstance(broken, ToolOutcome)
        assert broken.is_error

    use(work, notes=stdio(env={"CODE_WORD": Secret("osprey")}))


def test_a_run_that_is_cancelled_leaves_the_server_usable() -> None:
    async def work(tool: McpTool) -> None:
        began = asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await call(tool, "notes__wait")
        assert asyncio.get_running_loop().time() - began < 30
        assert isinstance(await call(tool, "notes__lookup", key="k2"), ToolOutcome)

    use(work, notes=stdio())


def test_a_server_over_http_is_used_with_its_headers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, PROGRAM, "http", str(port)), stderr=asyncio.subprocess.DEVNULL
        )
        settings = McpServerSettings(url=f"http://127.0.0.1:{port}/mcp", headers={"x-team": Secret("a")})
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    with suppress(OSError):
                        _, writer = await asyncio.open_connection("127.0.0.1", port)
                        writer.close()
                        break
                    await asyncio.sleep(0.1)
                tool = build_mcp_tool({"notes": settings}, 30)
                await tool.prepare()
                found = await call(tool, "notes__lookup", key="k3")
                assert isinstance(found, ToolOutcome)
                assert "The note k3" in str(found.content)
                await tool.close()
        finally:
            process.kill()
            await process.wait()

    asyncio.run(scenario())


def test_many_tools_are_found_by_a_search() -> None:
    async def work(tool: McpTool) -> None:
        offer = tool.offer(asked(), FACTS)
        assert offer is not None
        assert [each.name for each in offer.functions] == ["find_tools", "call_tool"]
        found = await call(tool, "find_tools", query="look up notes")
        assert isinstance(found, str)
        listed = msgspec.json.decode(found)
        assert listed[0]["name"] == "notes__lookup"
        assert "key" in listed[0]["schema"]["properties"]
        assert len(listed) <= 8
        called = await call(tool, "call_tool", name="notes__convert_unit_77", arguments={"text": "x"})
        assert isinstance(called, ToolOutcome)
        assert called.content[0] == Text(text="77: x")
        assert await call(tool, "find_tools", query="zzz") == "No tool matches. Try other words."

    use(work, notes=stdio("100"))


def test_the_configuration_selects_tools_by_pattern() -> None:
    async def work(tool: McpTool) -> None:
        offer = tool.offer(asked(), FACTS)
        assert offer is not None
        assert [each.name for each in offer.functions] == ["notes__lookup"]

    use(work, notes=stdio(tools=("look*",)))


def test_a_server_that_cannot_be_started_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def work(tool: McpTool) -> None:
        assert tool.offer(asked(), FACTS) is not None
        await tool.prepare()

    secret = Secret("hidden-value")
    use(work, notes=stdio(), gone=McpServerSettings(command=("/no/such/program",), env={"KEY": secret}))
    assert "the MCP server gone cannot be used: FileNotFoundError" in caplog.text
    assert "hidden-value" not in caplog.text


def list_names(tool: McpTool) -> list[str]:
    offer = tool.offer(asked(), FACTS)
    return [each.name for each in offer.functions] if offer else []


def test_a_server_that_ends_is_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(tool: McpTool) -> None:
        with pytest.raises(ToolFailed, match="the MCP server notes failed"):
            await call(tool, "notes__end")
        while list_names(tool):
            await asyncio.sleep(0)
        # A minute after its start.
        await tool.prepare()
        assert list_names(tool) == []
        monkeypatch.setattr(mcp_servers, "RETRY_SECONDS", 0.0)
        await tool.prepare()
        assert list_names(tool) == NAMES
        assert isinstance(await call(tool, "notes__lookup", key="k"), ToolOutcome)

    use(work, notes=stdio())
    assert "the connection to the MCP server notes is lost" in caplog.text


GROWING = """
import json, sys

grown = False
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            info = {"name": "growing", "version": "1"}
            can = {"tools": {"listChanged": True}}
            result = {"protocolVersion": version, "capabilities": can, "serverInfo": info}
        case "tools/list":
            names = ["grow", "new"] if grown else ["grow"]
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        case "tools/call":
            grown = True
            if sys.argv[1:] == ["report"]:
                changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                print(json.dumps(changed), flush=True)
            result = {"content": [{"type": "text", "text": "grown"}]}
        case _ if "id" in asked:
            error = {"code": -32601, "message": "unknown"}
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
            continue
        case _:
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("reports", [True, False])
def test_tools_that_a_server_gets_later_are_offered(reports: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_servers, "LIST_SECONDS", SECONDS if reports else 0.0)
    arguments = ("report",) if reports else ()
    settings = McpServerSettings(command=(sys.executable, "-c", GROWING, *arguments))

    async def work(tool: McpTool) -> None:
        assert list_names(tool) == ["shop__grow"]
        assert isinstance(await call(tool, "shop__grow"), ToolOutcome)
        while list_names(tool) != ["shop__grow", "shop__new"]:
            if not reports:
                await tool.prepare()
            await asyncio.sleep(0.01)
        assert isinstance(await call(tool, "shop__new"), ToolOutcome)

    use(work, shop=settings)


def test_a_tool_that_was_found_runs_under_its_own_name() -> None:
    """Models call what `find_tools` returned directly, though the request does not declare it."""

    async def scenario() -> tuple[list[str], str, int]:
        rounds: list[list[Text | ToolCall]] = [
            [ToolCall(id="call_1abcdefgh", name="notes__lookup", arguments='{"key":"k"}')],
            [ToolCall(id="call_2abcdefgh", name="notes__none", arguments="{}")],
        ]
        scripted = ScriptedUpstream(
            *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
        )
        bench = Bench({"up": scripted})
        settings = ToolsSettings(mcp={"notes": stdio()}, search_above=2)
        bench.gateway.snapshot.toolbox = toolbox = build_toolbox(Config(tools=settings))
        assert toolbox is not None
        try:
            async with asyncio.timeout(SECONDS):
                result = await bench.run_exchange(question("anthropic", tools=("Read",)))
        finally:
            await toolbox.close()
        calls = [name for name, _ in read_essence("anthropic", result.client.body).calls]
        return calls, str(texts_of_results(read_asked("openai_chat", scripted.calls[1]))), len(scripted.calls)

    calls, results, count = asyncio.run(scenario())
    # A name that no tool has is the client's matter.
    assert (calls, count) == (["notes__none"], 2)
    assert "The note k says" in results


def test_an_error_answer_does_not_end_a_server() -> None:
    async def work(tool: McpTool) -> None:
        failed = await call(tool, "notes__lookup", wrong=1)
        assert isinstance(failed, ToolOutcome)
        assert failed.is_error
        assert list_names(tool) == NAMES

    use(work, notes=stdio())


def test_requests_do_not_wait_for_a_server_that_could_not_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_servers, "CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(mcp_servers, "RETRY_SECONDS", 0.0)
    silent = McpServerSettings(command=(sys.executable, "-c", "import sys; sys.stdin.read()"))

    async def work(tool: McpTool) -> None:
        monkeypatch.setattr(mcp_servers, "CONNECT_SECONDS", 2 * SECONDS)
        await tool.prepare()
        assert list_names(tool) == []

    use(work, silent=silent)


@pytest.mark.parametrize(
    "request_",
    [asked(max_tokens=1), asked(output=OutputFormat(kind="json_schema", schema={}))],
    ids=["probe", "title"],
)
def test_probes_and_titles_get_no_tools(request_: Request) -> None:
    async def work(tool: McpTool) -> None:
        assert tool.offer(request_, FACTS) is None

    use(work, notes=stdio())


def test_a_request_for_a_search_alone_gets_no_tools() -> None:
    async def scenario() -> None:
        search = WebSearchSettings(engine="searxng", address="http://127.0.0.1:1")
        toolbox = build_toolbox(Config(tools=ToolsSettings(mcp={"notes": stdio()}, web_search=search)))
        assert toolbox is not None
        try:
            tools = await toolbox.build_target_tools(
                None, ToolMemory(1000), owner="", ask_model=ask_nothing, has_budget=lambda: True
            )
            assert tools is not None
            hosted = Tool(name="web_search", kind="hosted", common_name="web_search")
            assert [tool.name for tool in tools.apply(asked(tools=(hosted,)), FACTS).tools] == ["web_search"]
            names = [tool.name for tool in tools.apply(asked(), FACTS).tools]
            assert names == NAMES
        finally:
            await toolbox.close()

    asyncio.run(scenario())


SELECTIONS = {
    (): [],
    ("mcp",): ["notes__lookup", "other__lookup"],
    ("mcp.notes",): ["notes__lookup"],
    ("mcp.other",): ["other__lookup"],
    ("mcp.other", "mcp.notes"): ["notes__lookup", "other__lookup"],
    ("mcp.notes", "mcp"): ["notes__lookup", "other__lookup"],
    ("mcp.gone",): [],
}


@pytest.mark.parametrize("names", SELECTIONS)
def test_a_route_selects_some_of_the_servers(names: tuple[str, ...]) -> None:
    async def scenario() -> None:
        notes = stdio(tools=("lookup",))
        toolbox = build_toolbox(Config(tools=ToolsSettings(mcp={"notes": notes, "other": notes})))
        assert toolbox is not None
        try:
            tools = await toolbox.build_target_tools(
                names, ToolMemory(1000), owner="", ask_model=ask_nothing, has_budget=lambda: True
            )
            found = [tool.name for tool in tools.apply(asked(), FACTS).tools] if tools else []
            assert found == SELECTIONS[names]
        finally:
            await toolbox.close()

    asyncio.run(scenario())


def test_a_route_names_only_servers_that_are_configured() -> None:
    text = """
        [providers.up]
        dialect = "openai_chat"
        base_url = "http://127.0.0.1:9/v1"
        [tools.mcp.notes]
        command = "notes"
        [[routes]]
        match = "*"
        target = "up"
        tools = ["mcp.%s"]
    """
    variables = dict(os.environ)
    assert load(text % "notes", "dragoman.toml", variables).routes[0].tools == ("mcp.notes",)
    with pytest.raises(ConfigError, match=r'no tool "mcp.other" is configured'):
        load(text % "other", "dragoman.toml", variables)


@pytest.mark.rule("R77", "R78")
@pytest.mark.parametrize("client", DIALECTS)
def test_every_client_uses_a_tool_that_only_the_gateway_knows(client: str) -> None:
    async def scenario() -> None:
        lookup = ToolCall(id="call_1abcdefgh", name="notes__lookup", arguments='{"key":"k1"}')
        upstream = ScriptedUpstream(
            script("openai_chat", events_of_round(0, [lookup], Usage())),
            script("openai_chat", events_of_round(1, [Text(text="Heron.")], Usage())),
        )
        bench = Bench({"up": upstream})
        bench.gateway.snapshot.toolbox = toolbox = build_toolbox(
            Config(tools=ToolsSettings(mcp={"notes": stdio()}))
        )
        assert toolbox is not None
        try:
            result = await bench.run_exchange(question(client))
        finally:
            await toolbox.close()
        assert read_essence(client, result.client.body).text == "Heron."
        assert "heron" in str(texts_of_results(read_asked("openai_chat", upstream.calls[1])))
        assert b"notes__lookup" not in result.client.body

    asyncio.run(scenario())


def test_long_and_similar_names_stay_different() -> None:
    server = McpServer("s", stdio())
    names = ("a.b", "a_b", "x" * 70 + "1", "x" * 70 + "2")
    server.functions = tuple(McpFunction(server="s", name=name, description="", schema={}) for name in names)
    offer = McpTool({"s": server}, 30).offer(asked(), FACTS)
    assert offer is not None
    assert len({each.name for each in offer.functions}) == len(names)
    assert all(len(each.name) <= 64 for each in offer.functions)
    assert isinstance(offer.context, dict)
    assert sorted(each.name for each in offer.context.values()) == sorted(names)


def test_a_search_prefers_words_of_the_name() -> None:
    functions = {
        name: McpFunction(server="s", name=name, description=about, schema={})
        for name, about in (
            ("s__readFile", "Gets it."),
            ("s__other", "Reads a file."),
            ("s__none", "Nothing."),
        )
    }
    assert [name for name, _ in find_functions(functions, "read files")] == ["s__readFile", "s__other"]


async def refuse(
    status: int, serves: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """An MCP server over HTTP that answers with an error status, to all, or to calls alone."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            asked = msgspec.json.decode(body) if body else {}
            results = {
                "initialize": {
                    "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                },
                "tools/list": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]},
            }
            result = results.get(asked.get("method", "")) if serves else None
            if result is not None:
                answer = msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "result": result})
                line = b"200 OK"
            elif asked.get("method", "").startswith("notifications/") and serves:
                answer, line = b"", b"202 Accepted"
            elif head.startswith(b"GET"):
                answer, line = b"", b"405 No"
            else:
                answer, line = b"oops", b"%d Refused" % status
            fields = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer)
            writer.write(b"HTTP/1.1 " + line + b"\r\n" + fields + answer)
    writer.close()


def use_refusing(status: int, serves: bool, work: Callable[[McpTool], Coroutine[Any, Any, Any]]) -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(partial(refuse, status, serves), "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        tool = build_mcp_tool({"s": McpServerSettings(url=address, headers={"x-key": Secret("hidden")})}, 30)
        try:
            async with asyncio.timeout(SECONDS):
                await tool.prepare()
                await work(tool)
        finally:
            await tool.close()
            server.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("status", "hint"), [(401, "; check `headers`"), (500, "")])
def test_the_log_has_the_status_of_a_server_that_refuses(
    status: int, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(tool: McpTool) -> None:
        assert tool.offer(asked(), FACTS) is None

    use_refusing(status, False, work)
    expected = f"the MCP server s cannot be used: it answered with the status {status}{hint}"
    assert expected in [each.getMessage() for each in caplog.records]
    assert "hidden" not in caplog.text


@pytest.mark.parametrize("status", [401, 429, 500])
def test_the_model_gets_the_status_of_a_call_that_is_refused(status: int) -> None:
    async def work(tool: McpTool) -> None:
        with pytest.raises(ToolFailed, match=f"server s failed: it answered with the status {status}"):
            await call(tool, "s__do")
        # The next call may work.
        assert list_names(tool) == ["s__do"]

    use_refusing(status, True, work)


APPS = ("github", "jira", "slack", "drive", "billing")
VERBS = ("create", "get", "list", "update", "delete", "search", "archive", "export", "import", "share")
NOUNS = (
    *("issue", "pull_request", "branch", "commit", "release", "milestone", "label", "team", "project"),
    *("calendar_event", "contact", "invoice", "order", "customer", "message", "channel", "file", "folder"),
    *("page", "dashboard"),
)
#: A thousand tools, whose descriptions share most of their words.
MANY = {
    f"{app}__{verb}_{noun}": McpFunction(
        server=app,
        name=f"{verb}_{noun}",
        description=f"Use it to {verb} a {noun} in {app}. The result is a list of all of the ids.",
        schema={"type": "object", "properties": {"id": {"type": "string"}}},
    )
    for app in APPS
    for verb in VERBS
    for noun in NOUNS
}


@pytest.mark.rule("R77")
@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("query", ["{verb} the {noun}s in {app}", "a tool to {verb} all {noun}s of {app}"])
def test_the_right_one_of_a_thousand_tools_is_found_first(query: str, app: str) -> None:
    for verb, noun in product(VERBS, NOUNS):
        words = query.format(verb=verb, noun=noun.replace("_", " "), app=app)
        assert find_functions(MANY, words)[0][0] == f"{app}__{verb}_{noun}", words


@pytest.mark.parametrize("table", ["", 'command = "a"\nurl = "http://127.0.0.1:1/mcp"\n'])
def test_a_server_has_a_command_or_an_address(table: str) -> None:
    with pytest.raises(ConfigError, match="either `command` or `url`"):
        load(f"[tools.mcp.s]\n{table}", "dragoman.toml", dict(os.environ))
