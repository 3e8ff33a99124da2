"""A web search that the vendor ran: its query reaches clients of every dialect that has a place for it."""

import msgspec
import pytest

from dragoman import StreamTranslator, translate_reply, translate_request
from dragoman.dialects.registry import dialect_named
from dragoman.hub.ids import IdSource
from tests.sse import collect_sse, explode_sse

Json = dict[str, object]

QUERY = "dragoman history"
URL = "https://example.org/dragoman"
TEXT: Json = {"type": "output_text", "text": "An interpreter.", "annotations": []}
MESSAGE: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [TEXT],
}


def search(**action: object) -> Json:
    return {"type": "web_search_call", "id": "ws_0123456789", "status": "completed", "action": action}


def response(*items: Json) -> Json:
    return {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": list(items)}


ANTHROPIC: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": QUERY}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{"type": "web_search_result", "url": URL, "title": "D", "encrypted_content": "x"}],
        },
        {"type": "text", "text": "An interpreter."},
    ],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def grounded(*queries: str) -> Json:
    """A reply of Gemini, which reports its searches in the metadata at the end."""
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": [{"text": "An interpreter."}]},
        "finishReason": "STOP",
        "groundingMetadata": {"webSearchQueries": list(queries)},
    }
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}


#: The same search, as three upstreams report it.
SEARCHES: dict[str, tuple[str, Json]] = {
    "responses: query": ("openai_responses", response(search(type="search", query=QUERY), MESSAGE)),
    "responses: queries": ("openai_responses", response(search(type="search", queries=[QUERY]), MESSAGE)),
    "anthropic": ("anthropic", ANTHROPIC),
    "gemini": ("gemini", grounded(QUERY)),
}


def read_both(source: str, body: Json, client: str) -> list[Json]:
    """The reply as the client gets it whole, and as it accumulates it from a stream."""
    translator = StreamTranslator(source=source, target=client, ids=IdSource("seed"))
    stream = translator.feed(explode_sse(dialect_named(source), dict(body))) + translator.close()
    assert dialect_named(client).check_stream(stream) == []
    whole = translate_reply(body, source=source, target=client, ids=IdSource("seed")).body
    return [whole, collect_sse(dialect_named(client), stream)]


@pytest.mark.rule("F8")
@pytest.mark.parametrize("client", ["anthropic", "openai_responses", "gemini"])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_query_reaches_the_client(name: str, client: str) -> None:
    whole, streamed = read_both(*SEARCHES[name], client)
    assert whole == streamed
    assert QUERY.encode() in msgspec.json.encode(whole)


@pytest.mark.rule("F8")
@pytest.mark.parametrize("name", ["responses: query", "responses: queries"])
def test_an_anthropic_client_gets_a_call_and_its_result_before_the_text(name: str) -> None:
    content = read_both(*SEARCHES[name], "anthropic")[0]["content"]
    assert content == [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_0123456789",
            "name": "web_search",
            "input": {"query": QUERY},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_0123456789", "content": []},
        {"type": "text", "text": "An interpreter."},
    ]


@pytest.mark.rule("F8")
def test_the_pages_and_several_queries_of_a_search_are_written() -> None:
    sources = [{"type": "url", "url": URL}]
    found = search(type="search", queries=["one", "two"], sources=sources)
    content = read_both("openai_responses", response(found, MESSAGE), "anthropic")[0]["content"]
    assert isinstance(content, list)
    assert content[0]["input"] == {"query": "one; two"}
    (page,) = content[1]["content"]
    assert (page["type"], page["url"], page["encrypted_content"]) == ("web_search_result", URL, "")


@pytest.mark.rule("F8")
def test_a_failed_search_and_one_at_the_end_have_a_result_too() -> None:
    failed: Json = {**search(type="search", query=QUERY), "status": "failed"}
    content = read_both("openai_responses", response(failed), "anthropic")[0]["content"]
    assert isinstance(content, list)
    assert content[1]["content"]["type"] == "web_search_tool_result_error"
    last = read_both("openai_responses", response(MESSAGE, search(type="search", query=QUERY)), "anthropic")[
        0
    ]
    assert isinstance(last["content"], list)
    assert last["content"][-1]["type"] == "web_search_tool_result"


@pytest.mark.rule("F8")
def test_a_page_that_was_opened_is_no_query() -> None:
    body = response(search(type="open_page", url=URL), MESSAGE)
    translated = translate_reply(body, source="openai_responses", target="anthropic")
    assert translated.body["content"] == [{"type": "text", "text": "An interpreter."}]
    assert translated.losses


@pytest.mark.rule("F8")
def test_the_client_can_send_the_search_back() -> None:
    content = read_both(*SEARCHES["responses: query"], "anthropic")[0]["content"]
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
    body: Json = {
        "model": "m",
        "max_tokens": 9,
        "messages": [*messages, {"role": "user", "content": "And?"}],
    }
    again = translate_request(body, source="anthropic", target="openai_responses").body
    assert QUERY.encode() in msgspec.json.encode(again)


@pytest.mark.rule("F8")
@pytest.mark.parametrize("queries", [("one",), ("one", "two")])
def test_the_searches_of_gemini_are_calls_for_other_clients(queries: tuple[str, ...]) -> None:
    whole, _ = read_both("gemini", grounded(*queries), "anthropic")
    content = whole["content"]
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["text", "server_tool_use", "web_search_tool_result"]
    assert content[1]["input"] == {"query": "; ".join(queries)}
    whole, _ = read_both("gemini", grounded(*queries), "openai_responses")
    output = whole["output"]
    assert isinstance(output, list)
    assert [item["type"] for item in output] == ["message", "web_search_call"]
    assert (whole["status"], output[1]["status"]) == ("completed", "completed")


@pytest.mark.rule("F8")
def test_gemini_gets_its_own_searches_once_and_chat_a_loss() -> None:
    body = grounded(QUERY)
    for reply in read_both("gemini", body, "gemini"):
        assert msgspec.json.encode(reply).count(QUERY.encode()) == 1
        assert reply["candidates"] == body["candidates"]
    assert translate_reply(body, source="gemini", target="gemini").losses == ()
    assert translate_reply(body, source="gemini", target="openai_chat").losses


@pytest.mark.rule("F8")
def test_a_search_that_a_part_reports_is_not_reported_again() -> None:
    call = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": [QUERY]}, "id": "t1"}}
    body = grounded(QUERY)
    candidate = {
        "index": 0,
        "content": {"role": "model", "parts": [call, {"text": "An interpreter."}]},
        "finishReason": "STOP",
        "groundingMetadata": {"webSearchQueries": [QUERY]},
    }
    for reply in read_both("gemini", body | {"candidates": [candidate]}, "anthropic"):
        assert msgspec.json.encode(reply).count(QUERY.encode()) == 1
