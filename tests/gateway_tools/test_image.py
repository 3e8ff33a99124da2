"""Pictures for a model that sees none: references, and a model that looks at them."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.config.tools import ImageToolSettings, ToolsSettings
from dragoman.dialects.registry import dialect_named
from dragoman.gateway_tools.image import ImageTool, Pictures
from dragoman.gateway_tools.target_tools import MAX_PICTURE
from dragoman.gateway_tools.tool import ToolOutcome, ToolRun
from dragoman.gateway_tools.toolbox import build_toolbox
from dragoman.hub.blocks import Media, Text, ToolCall
from dragoman.hub.errors import ConfigError
from dragoman.hub.fold import Reply, fold
from dragoman.hub.request import Request
from dragoman.hub.usage import Usage
from tests.cases.essence import read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import Ask, Bench, ExchangeResult, ScriptedUpstream, ask, provider
from tests.exchange.governing import question, script
from tests.exchange.sample_replies import DIALECTS
from tests.gateway_tools.running import (
    NAME,
    LookUp,
    check_history,
    events_of_round,
    read_asked,
    texts_of_results,
    use_tools,
)
from tests.gateway_tools.test_rounds import OWN, answer_calls
from tests.sse import collect_sse, explode_sse

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n picture").decode()
SEEN = "A red circle."


def shown_picture(client: str) -> Ask:
    """A question about a picture, in the words of the API."""
    asked = ask(client)
    body: Any = msgspec.json.decode(asked.body)
    url = f"data:image/png;base64,{PICTURE}"
    match client:
        case "anthropic":
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            result = {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "image", "source": source}],
            }
            body["messages"] = [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": source}, {"type": "text", "text": "What?"}],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {}}],
                },
                {"role": "user", "content": [result]},
            ]
        case "openai_chat":
            body["messages"][0]["content"] = [{"type": "image_url", "image_url": {"url": url}}]
        case "openai_responses":
            body["input"] = [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
        case _:
            body["contents"][0]["parts"].append({"inlineData": {"mimeType": "image/png", "data": PICTURE}})
    asked.body = msgspec.json.encode(body)
    return asked


def look(number: int, **arguments: object) -> ToolCall:
    encoded = msgspec.json.encode(arguments).decode()
    return ToolCall(id=f"call_{number}abcdefgh", name="look_at_image", arguments=encoded)


def build_pair(
    rounds: Sequence[Sequence[ToolCall | Text]], *, stream: bool = True
) -> tuple[Bench, ScriptedUpstream, ScriptedUpstream]:
    """A gateway with a model without pictures, which answers with these rounds, and one that sees them."""
    usage = Usage(input=1, output=1)
    scripts = (
        script("openai_chat", events_of_round(n, list(each), usage), stream=stream)
        for n, each in enumerate(rounds)
    )
    answer = events_of_round(9, [Text(text=SEEN)], Usage(input=7, output=3))
    blind = ScriptedUpstream(*scripts)
    seeing = ScriptedUpstream(script("anthropic", answer, stream=False))
    providers = [
        msgspec.structs.replace(provider("up"), models={"*": {"images": False}}),
        provider("eye", "anthropic"),
    ]
    return Bench({"up": blind, "eye": seeing}, providers), blind, seeing


def run_blind(
    asked: Ask, *rounds: list[ToolCall | Text]
) -> tuple[ExchangeResult, ScriptedUpstream, ScriptedUpstream]:
    """Ask a model that sees no pictures, beside one that does."""
    bench, blind, seeing = build_pair(rounds)
    settings = ToolsSettings(image=ImageToolSettings(target="eye/seer"))
    bench.gateway.snapshot.toolbox = build_toolbox(Config(tools=settings))
    return run(bench.run_exchange(asked)), blind, seeing


@pytest.mark.parametrize("client", ["anthropic", "openai_responses"])
def test_a_picture_by_file_id_is_left_out_and_reported(client: str) -> None:
    asked = ask(client)
    body: Any = msgspec.json.decode(asked.body)
    if client == "anthropic":
        image = {"type": "image", "source": {"type": "file", "file_id": "file-a"}}
        body["messages"] = [{"role": "user", "content": [image]}]
    else:
        body["input"] = [{"role": "user", "content": [{"type": "input_image", "file_id": "file-a"}]}]
    asked.body = msgspec.json.encode(body)
    result, blind, _ = run_blind(asked, [Text(text="I see none.")])
    assert b"[image left out]" in blind.calls[0].body
    assert b"look_at_image" not in blind.calls[0].body
    assert "takes no image" in result.client.headers["x-dragoman-losses"]


@pytest.mark.rule("R77", "R78", "H46")
@pytest.mark.parametrize("client", DIALECTS)
def test_a_blind_model_answers_from_the_words_of_a_seeing_one(client: str) -> None:
    rounds: list[list[ToolCall | Text]] = [
        [look(1, image=1, question="What is it?")],
        [Text(text="It is red.")],
    ]
    result, blind, seeing = run_blind(shown_picture(client), *rounds)
    assert dialect_named(client).check_stream(result.client.body) == []
    assert read_essence(client, result.client.body).text == "It is red."
    assert PICTURE.encode() not in blind.calls[0].body
    assert b"[Image #1: call look_at_image with image=1 to see it.]" in blind.calls[0].body
    # The same picture has the same number wherever it stands.
    assert b"Image #2" not in blind.calls[0].body
    request = read_asked("openai_chat", blind.calls[1])
    check_history(request)
    assert SEEN in texts_of_results(request)
    (asked,) = seeing.calls
    body = msgspec.json.decode(asked.body)
    assert body["model"] == "seer"
    image, text = body["messages"][0]["content"]
    assert image["source"]["data"] == PICTURE
    assert text["text"].startswith("What is it?")


def test_a_region_is_named_and_the_same_question_is_asked_once() -> None:
    region = {"left": 50, "top": 0, "width": 60, "height": 25}
    question = {"image": 1, "question": "What?", "region": region}
    rounds: list[list[ToolCall | Text]] = [[look(1, **question)], [look(2, **question)], [Text(text="So.")]]
    _, _, seeing = run_blind(shown_picture("anthropic"), *rounds)
    (asked,) = seeing.calls
    assert b"from 50 % to 100 % of its width" in asked.body
    assert b"from 0 % to 25 % of its height" in asked.body


def test_an_answer_is_kept_for_one_caller() -> None:
    """Another caller's key may not allow the model that looks, and has a budget of its own."""
    asked: list[str] = []

    async def ask_model(name: str, request: Request) -> Reply:
        asked.append(name)
        return fold(events_of_round(1, [Text(text=SEEN)], Usage()))

    async def scenario() -> None:
        tool, pictures = ImageTool(ImageToolSettings(target="eye/seer")), Pictures()
        pictures.found.append(Media(kind="image", media_type="image/png", data=PICTURE))
        arguments: dict[str, object] = {"image": 1, "question": "What?"}
        for owner in ("ann", "ann", "ben"):
            call = ToolRun(
                name="look_at_image", owner=owner, arguments=arguments, context=pictures, ask_model=ask_model
            )
            assert await tool.run(call) == SEEN

    asyncio.run(scenario())
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"image": 2, "question": "?"}, "a number from 1 to 1"),
        ({"image": "1", "question": "?"}, "a number from 1 to 1"),
        ({"image": 1}, "`question` must be a text"),
        ({"image": 1, "question": "?", "region": {"left": 1}}, "left, top, width and height"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], expected: str) -> None:
    rounds: list[list[ToolCall | Text]] = [[look(1, **arguments)], [Text(text="So.")]]
    _, blind, seeing = run_blind(shown_picture("anthropic"), *rounds)
    assert expected in str(texts_of_results(read_asked("openai_chat", blind.calls[1])))
    assert not seeing.calls


def test_a_model_that_sees_gets_the_picture_itself() -> None:
    asked = shown_picture("anthropic")
    upstream = ScriptedUpstream(script("openai_chat", events_of_round(0, [Text(text="Red.")], Usage())))
    bench = Bench({"up": upstream, "eye": upstream}, [provider("up"), provider("eye")])
    settings = ToolsSettings(image=ImageToolSettings(target="eye/seer"))
    bench.gateway.snapshot.toolbox = build_toolbox(Config(tools=settings))
    run(bench.run_exchange(asked))
    assert PICTURE.encode() in upstream.calls[0].body
    assert b"look_at_image" not in upstream.calls[0].body


def test_the_table_needs_a_target() -> None:
    text = '[providers.up]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\n[tools.image]\n'
    for more, expected in (
        ("", "expected `target`"),
        ('target = "up"\n', "expected `target`"),
        ('target = "x/y"\n', "no provider"),
    ):
        with pytest.raises(ConfigError, match=expected):
            load(text + more, "dragoman.toml", {})


class Camera(LookUp):
    """A tool whose results hold a picture."""

    returns_pictures = True

    def __init__(self) -> None:
        picture = Media(kind="image", media_type="image/png", data=PICTURE)
        super().__init__(ToolOutcome(content=(Text(text="Here:"), picture)))


@pytest.mark.rule("R77", "H46")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("client", DIALECTS)
def test_a_picture_that_another_tool_returns_becomes_a_reference(client: str, stream: bool) -> None:
    rounds: list[list[ToolCall | Text]] = [
        [ToolCall(id="call_0abcdefgh", name=NAME, arguments='{"query":"q"}')],
        [look(1, image=1, question="What?")],
        [Text(text="It is red.")],
    ]
    bench, blind, seeing = build_pair(rounds, stream=stream)
    image = ImageToolSettings(target="eye/seer")
    use_tools(bench, image=ImageTool(image), camera=Camera())
    asked = question(client, tools=(OWN,), stream=stream)
    result = run(bench.run_exchange(asked))
    body = result.client.body if stream else explode_sse(dialect_named(client), result.client.json())
    assert read_essence(client, body).text == "It is red."
    reference = "[Image #1: call look_at_image with image=1 to see it.]"
    results = texts_of_results(read_asked("openai_chat", blind.calls[2]))
    assert reference in str(results)
    assert SEEN in str(results)
    assert len(seeing.calls) == 1
    # The next request begins with the same texts, and the same functions: the server's cache stays valid.
    reply = collect_sse(dialect_named(client), body)
    again = answer_calls(client, msgspec.json.decode(asked.body), reply)
    run(bench.run_exchange(Ask(metadata=asked.metadata, body=msgspec.json.encode(again))))
    before, after = (msgspec.json.decode(blind.calls[place].body) for place in (2, 3))
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert after["tools"] == before["tools"]


def test_a_picture_that_is_too_large_is_left_out() -> None:
    picture = Media(kind="image", media_type="image/png", data="A" * (MAX_PICTURE + 1))
    tool = LookUp(ToolOutcome(content=(Text(text="Here:"), picture)))
    rounds: list[list[ToolCall | Text]] = [
        [ToolCall(id="call_0abcdefgh", name=NAME, arguments='{"query":"q"}')],
        [Text(text="So.")],
    ]
    scripted = ScriptedUpstream(
        *(script("openai_chat", events_of_round(n, each, Usage())) for n, each in enumerate(rounds))
    )
    bench = use_tools(Bench({"up": scripted}), tool=tool)
    run(bench.run_exchange(question("anthropic", tools=(OWN,))))
    assert "the picture is too large" in str(texts_of_results(read_asked("openai_chat", scripted.calls[1])))
