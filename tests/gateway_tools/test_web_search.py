"""Hosted web searches of every client, on a model that has none, through an engine."""

import asyncio
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.settings import Secret
from dragoman.config.tools import ToolsSettings, WebFetchSettings, WebSearchSettings
from dragoman.dialects.registry import dialect_named
from dragoman.gateway_tools.search_engines import search
from dragoman.gateway_tools.tool import ToolFailed, ToolRun
from dragoman.gateway_tools.toolbox import build_toolbox
from dragoman.gateway_tools.web_search import WebSearchTool
from dragoman.hub.blocks import Citation, SearchOptions, Text, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.usage import Usage
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import Ask, Bench, ExchangeResult, ScriptedUpstream, ask, provider
from tests.exchange.governing import script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import (
    check_history,
    events_of_round,
    read_asked,
    texts_of_results,
    use_tools,
)
from tests.gateway_tools.stub_server import StubServer, html_answer, json_answer, serve
from tests.sse import collect_sse

PAGES = [
    {"title": "Dragoman", "url": "https://example.org/dragoman", "content": "An interpreter."},
    {"title": "Blocked", "url": "https://blocked.example/x", "content": "No."},
    {"title": "No address", "url": "javascript:alert(1)", "content": "No."},
]
ANSWER = "A dragoman interprets [1]. Unknown [7]."

#: The declaration of a hosted search, and the choice that forces it.
HOSTED: dict[str, dict[str, object]] = {
    "anthropic": {
        "tools": [
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 2,
                "blocked_domains": ["blocked.example"],
            }
        ],
        "tool_choice": {"type": "tool", "name": "web_search"},
    },
    "openai_chat": {"web_search_options": {"search_context_size": "low"}},
    "openai_responses": {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
    "gemini": {"tools": [{"googleSearch": {}}]},
}


def call(name: str, number: int, **arguments: object) -> ToolCall:
    return ToolCall(id=f"call_{number}abcdefgh", name=name, arguments=msgspec.json.encode(arguments).decode())


def build_ask(client: str, *, stream: bool, **more: object) -> Ask:
    asked = ask(client, stream=stream, body={**HOSTED[client], **more})
    return asked


async def run_search(
    server: StubServer,
    asked: Ask,
    *rounds: list[ToolCall | Text],
    upstream: str = "openai_chat",
    stream: bool = True,
    fetches: bool = False,
    **settings: Any,
) -> tuple[ExchangeResult, ScriptedUpstream]:
    scripted = ScriptedUpstream(
        *(
            script(upstream, events_of_round(n, each, Usage(input=5, output=2)), stream=stream)
            for n, each in enumerate(rounds)
        )
    )
    fetch = WebFetchSettings(private=("127.0.0.1",)) if fetches else None
    tools = ToolsSettings(
        web_search=WebSearchSettings(engine="searxng", address=server.url, **settings), web_fetch=fetch
    )
    bench = Bench({"up": scripted}, [provider("up", upstream)])
    bench.gateway.snapshot.toolbox = build_toolbox(Config(tools=tools))
    result = await bench.run_exchange(asked)
    assert result.client.status == 200, result.client.body
    return result, scripted


@pytest.mark.rule("H28", "P40")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_hosted_search_works_on_a_model_without_one(client: str, stream: bool) -> None:
    async def scenario() -> tuple[ExchangeResult, ScriptedUpstream, StubServer]:
        async with serve({"/search": json_answer({"results": PAGES})}) as server:
            found = call("web_search", 1, query="dragoman & history")
            rounds: list[list[ToolCall | Text]] = [[found], [Text(text=ANSWER)]]
            asked = build_ask(client, stream=stream)
            # A Chat client is taken to know its Chat server's search, unless the file has another value.
            always = client == "openai_chat"
            return *await run_search(server, asked, *rounds, stream=stream, always=always), server

    result, scripted, server = asyncio.run(scenario())
    assert "q=dragoman+%26+history" in server.requests[0][0]
    dialect = dialect_named(client)
    assert not stream or dialect.check_stream(result.client.body) == []
    reply = collect_sse(dialect, result.client.body) if stream else result.client.json()
    assert ANSWER.encode() in msgspec.json.encode(reply)
    check_shown(client, reply)
    first, second = (read_asked("openai_chat", each) for each in scripted.calls)
    assert [tool.name for tool in first.tools] == ["web_search"]
    check_history(second)
    (text,) = texts_of_results(second)
    assert "[1] Dragoman\nhttps://example.org/dragoman\nAn interpreter." in text
    assert ("blocked.example" in text) == (client != "anthropic")
    assert "javascript" not in text
    assert second.tool_choice is None or second.tool_choice.mode == "auto"


def check_shown(client: str, reply: Any) -> None:
    """The search and the citation, in the words of the client's API."""
    match client:
        case "anthropic":
            used, found, text = reply["content"]
            assert (used["type"], used["name"]) == ("server_tool_use", "web_search")
            assert used["input"] == {"query": "dragoman & history"}
            assert found["tool_use_id"] == used["id"]
            assert [(page["title"], page["url"]) for page in found["content"]] == [
                ("Dragoman", "https://example.org/dragoman")
            ]
            (cited,) = text["citations"]
            assert (cited["type"], cited["url"]) == ("web_search_result_location", PAGES[0]["url"])
            assert cited["cited_text"] == "An interpreter."
        case "openai_chat":
            (cited,) = reply["choices"][0]["message"]["annotations"]
            assert cited["url_citation"]["url"] == PAGES[0]["url"]
            place = slice(cited["url_citation"]["start_index"], cited["url_citation"]["end_index"])
            assert ANSWER[place] == "A dragoman interprets [1]"
        case "openai_responses":
            searched, message = reply["output"]
            assert (searched["type"], searched["action"]["query"]) == (
                "web_search_call",
                "dragoman & history",
            )
            (cited,) = message["content"][0]["annotations"]
            assert (cited["type"], cited["url"]) == ("url_citation", PAGES[0]["url"])
        case _:
            grounding = reply["candidates"][0]["groundingMetadata"]
            assert grounding["webSearchQueries"] == ["dragoman & history"]
            assert grounding["groundingChunks"][0]["web"]["uri"] == PAGES[0]["url"]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_a_server_of_the_clients_own_dialect_without_a_search_works_too(dialect: str) -> None:
    async def scenario() -> ExchangeResult:
        async with serve({"/search": json_answer({"results": PAGES})}) as server:
            found = call("web_search", 1, query="dragoman & history")
            asked = build_ask(dialect, stream=True)
            rounds: list[list[ToolCall | Text]] = [[found], [Text(text=ANSWER)]]
            return (await run_search(server, asked, *rounds, upstream=dialect, always=True))[0]

    result = asyncio.run(scenario())
    assert dialect_named(dialect).check_stream(result.client.body) == []
    check_shown(dialect, collect_sse(dialect_named(dialect), result.client.body))


def test_a_failed_search_and_too_many_are_errors_for_the_model() -> None:
    async def scenario() -> ScriptedUpstream:
        async with serve({"/search": (500, {}, b"secret trace")}) as server:
            calls = [call("web_search", n, query=f"q{n}") for n in range(3)]
            rounds: list[list[ToolCall | Text]] = [[*calls], [Text(text="No.")]]
            return (await run_search(server, build_ask("anthropic", stream=True), *rounds))[1]

    texts = texts_of_results(read_asked("openai_chat", asyncio.run(scenario()).calls[1]))
    assert all("the search engine answered with status 500" in text for text in texts[:2])
    assert "allows 2 searches" in texts[2]
    assert "secret trace" not in str(texts)


class Silent(WebSearchTool):
    """A search whose engine never answers."""

    async def _search(self, run: ToolRun, query: str, options: SearchOptions) -> tuple[list[Citation], str]:
        await asyncio.Event().wait()
        return [], ""


def search_in_vain(client: str, *calls: ToolCall) -> Any:
    rounds: list[list[ToolCall | Text]] = [[*calls], [Text(text="No.")]]
    scripts = [script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds)]
    tool = Silent(WebSearchSettings(engine="searxng", address="http://127.0.0.1:9", always=True))
    bench = use_tools(Bench({"up": ScriptedUpstream(*scripts)}), ToolsSettings(run_seconds=9), search=tool)
    result = run(bench.run_exchange(build_ask(client, stream=True)))
    dialect = dialect_named(client)
    assert dialect.check_stream(result.client.body) == []
    return collect_sse(dialect, result.client.body)


@pytest.mark.parametrize("client", DIALECTS)
def test_a_search_that_takes_too_long_is_shown_as_a_failed_search(client: str) -> None:
    reply = search_in_vain(client, call("web_search", 1, query="q"))
    if client == "anthropic":
        used, failed, text = reply["content"]
        assert (used["type"], used["input"]) == ("server_tool_use", {"query": "q"})
        assert failed["tool_use_id"] == used["id"]
        assert failed["content"] == {"type": "web_search_tool_result_error", "error_code": "unavailable"}
        assert text["text"] == "No."
    elif client == "openai_responses":
        used, message = reply["output"]
        assert used["type"] == "web_search_call"
        assert message["content"][0]["text"] == "No."


def test_searches_beyond_the_clients_limit_are_shown_as_failed() -> None:
    reply = search_in_vain("anthropic", *(call("web_search", n, query=f"q{n}") for n in range(3)))
    kinds = [block["type"] for block in reply["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result"] * 3 + ["text"]


def test_a_page_that_was_found_can_be_read() -> None:
    async def scenario(live: bool) -> tuple[ExchangeResult, ScriptedUpstream]:
        answers = {"/search": json_answer({"results": PAGES}), "/page": html_answer("<p>All about it.</p>")}
        async with serve(answers) as server:
            asked = build_ask("openai_responses", stream=True, tool_choice="auto")
            body = msgspec.json.decode(asked.body)
            body["tools"] = [{"type": "web_search", "external_web_access": live}]
            asked.body = msgspec.json.encode(body)
            rounds: list[list[ToolCall | Text]] = [
                [call("web_fetch", 1, url=f"{server.url}/page")],
                [Text(text="Read [1].")],
            ]
            return await run_search(server, asked, *rounds, fetches=True)

    result, scripted = asyncio.run(scenario(True))
    reply: Any = collect_sse(dialect_named("openai_responses"), result.client.body)
    assert reply["output"][0]["action"]["type"] == "open_page"
    assert "All about it." in str(texts_of_results(read_asked("openai_chat", scripted.calls[1])))
    # A client that allows stored pages only gets no fetch.
    _, scripted = asyncio.run(scenario(False))
    assert b"web_fetch" not in scripted.calls[0].body


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
def test_a_hosted_fetch_works_on_a_model_without_one(client: str) -> None:
    tools: dict[str, list[object]] = {
        "anthropic": [{"type": "web_fetch_20250910", "name": "web_fetch"}],
        "gemini": [{"urlContext": {}}],
    }

    async def scenario() -> ExchangeResult:
        async with serve({"/page": html_answer("<p>All about it.</p>")}) as server:
            asked = ask(client, body={"tools": tools[client]})
            rounds: list[list[ToolCall | Text]] = [
                [call("web_fetch", 1, url=f"{server.url}/page")],
                [Text(text="Read [1].")],
            ]
            return (await run_search(server, asked, *rounds, fetches=True))[0]

    result = asyncio.run(scenario())
    assert dialect_named(client).check_stream(result.client.body) == []
    assert read_essence(client, result.client.body).text == "Read [1]."
    if client == "anthropic":
        reply: Any = collect_sse(dialect_named(client), result.client.body)
        used, fetched, _ = reply["content"]
        assert (used["name"], fetched["type"]) == ("web_fetch", "web_fetch_tool_result")
        assert fetched["content"]["content"]["source"]["data"] == "All about it."


@pytest.mark.rule("H28", "P40")
@pytest.mark.parametrize("client", ["anthropic", "openai_responses", "gemini"])
def test_a_request_for_a_search_alone_is_refused_if_nothing_can_search(client: str) -> None:
    upstream = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Invented.")], Usage())))
    result = asyncio.run(Bench({"up": upstream}).run_exchange(build_ask(client, stream=True)))
    assert result.client.status == 400
    assert b"[tools.web_search]" in result.client.body
    assert not upstream.calls


def test_a_search_beside_other_tools_is_left_out_if_nothing_can_search() -> None:
    upstream = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Hi.")], Usage())))
    tools: list[object] = [
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "Read", "input_schema": {"type": "object"}},
    ]
    result = asyncio.run(Bench({"up": upstream}).run_exchange(ask("anthropic", body={"tools": tools})))
    assert result.client.status == 200
    assert "web_search" in result.client.headers["x-dragoman-losses"]


ENGINES: dict[str, tuple[object, str]] = {
    "searxng": ({"results": PAGES}, "/search"),
    "brave": ({"web": {"results": [{**PAGES[0], "description": "An interpreter."}]}}, "/"),
    "tavily": ({"results": PAGES}, "/"),
    "exa": ({"results": [{**PAGES[0], "text": "An interpreter."}]}, "/"),
    "json": ({"results": PAGES}, "/"),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_asked_and_read(engine: Any) -> None:
    answer, path = ENGINES[engine]

    async def scenario() -> tuple[list[Any], str, bytes]:
        async with serve({path: json_answer(answer)}) as server:
            settings = WebSearchSettings(engine=engine, address=server.url, api_key=Secret("k1"), results=1)
            pages = await search(settings, "what?")
            return pages, *server.requests[0]

    pages, head, body = asyncio.run(scenario())
    assert [(page.url, page.title, page.quote) for page in pages] == [
        ("https://example.org/dragoman", "Dragoman", "An interpreter.")
    ]
    sent = msgspec.json.decode(body) if body else head
    assert ("what?" in str(sent)) or ("q=what%3F" in str(sent))
    headers = {
        "brave": "x-subscription-token: k1",
        "tavily": "authorization: Bearer k1",
        "exa": "x-api-key: k1",
    }
    assert headers.get(engine, "") in head
    assert ("k1" in head) == (engine in headers)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"results": 3}', b"{}"])
def test_an_answer_in_another_form_is_named(answer: bytes) -> None:
    async def scenario() -> None:
        async with serve({"/search": (200, {}, answer)}) as server:
            await search(WebSearchSettings(engine="searxng", address=server.url), "q")

    with pytest.raises(ToolFailed, match="search engine"):
        asyncio.run(scenario())


def test_a_model_that_searches_can_be_the_engine() -> None:
    cited = {
        "type": "web_search_result_location",
        "url": PAGES[0]["url"],
        "title": "Dragoman",
        "cited_text": "x",
        "encrypted_index": "",
    }
    found = {
        "type": "web_search_result",
        "url": "https://example.org/2",
        "title": "Two",
        "encrypted_content": "",
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "s",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [found]},
            {"type": "text", "text": "It interprets.", "citations": [cited]},
        ],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 50, "output_tokens": 5},
    }

    async def scenario() -> tuple[ExchangeResult, ScriptedUpstream, ScriptedUpstream]:
        searching = ScriptedUpstream(
            msgspec.structs.replace(
                script("anthropic", events_of_round(0, [], Usage()), stream=False),
                pieces=(msgspec.json.encode(message),),
            )
        )
        rounds: list[list[ToolCall | Text]] = [[call("web_search", 1, query="q")], [Text(text="So [2].")]]
        scripted = ScriptedUpstream(
            *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
        )
        bench = Bench({"up": scripted, "search": searching}, [provider("search", "anthropic")])
        settings = WebSearchSettings(engine="model", target="search/s")
        bench.gateway.snapshot.toolbox = build_toolbox(Config(tools=ToolsSettings(web_search=settings)))
        records: list[Any] = []
        bench.gateway.observers.append(records.append)
        result = await bench.run_exchange(build_ask("anthropic", stream=True))
        assert [str(record.target) for record in records] == ["search/s", "up/model"]
        return result, scripted, searching

    result, scripted, searching = asyncio.run(scenario())
    asked = msgspec.json.decode(searching.calls[0].body)
    assert asked["model"] == "s"
    assert asked["tools"][0]["type"].startswith("web_search")
    (text,) = texts_of_results(read_asked("openai_chat", scripted.calls[1]))[:1]
    assert "It interprets." in str(texts_of_results(read_asked("openai_chat", scripted.calls[1])))
    assert "[2] Dragoman" in text or "[1] Two" in text
    assert b"https://example.org/" in result.client.body


PROVIDER = '[providers.up]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\n'


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('[tools.web_search]\naddress = "http://127.0.0.1:1"\n', "expected `engine`"),
        ('[tools.web_search]\nengine = "searxng"\n', "needs `address`"),
        ('[tools.web_search]\nengine = "model"\n', "expected `target`"),
        ('[tools.web_search]\nengine = "model"\ntarget = "nowhere/m"\n', 'no provider "nowhere"'),
        ('[tools.web_search]\nengine = "bing"\n', '"bing"'),
    ],
)
def test_mistakes_in_the_file_are_named(table: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(PROVIDER + table, "dragoman.toml", {})
    assert expected in str(caught.value)


def test_the_tables_build_the_tools() -> None:
    text = '[tools.web_search]\nengine = "brave"\napi_key = "k"\n[tools.web_fetch]\n'
    config = load(PROVIDER + text, "dragoman.toml", {})
    assert config.tools.list_names() == ("web_search", "web_fetch")
    assert config.tools.web_search is not None
    assert config.tools.web_search.api_key == Secret("k")
    assert build_toolbox(config) is not None
