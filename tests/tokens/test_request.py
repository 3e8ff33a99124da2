"""Everything in a request that reaches the model is counted, and recorded requests are counted well."""

import msgspec
import pytest

from dragoman.dialects.interfaces import Tokenizer
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolGrammar,
    ToolReference,
    ToolResult,
)
from dragoman.hub.request import Message, OutputFormat, Request, ToolChoice
from dragoman.tokens.request import estimate_from_samples, estimate_tokens, read_count_request
from dragoman.tokens.text import TOKENIZERS, estimate_text_tokens
from dragoman.tokens.tokenizers import OVERHEADS, find_tokenizer
from tests.pipeline.recordings import body_of, url_of
from tests.tokens.recorded import RECORDED
from tests.tokens.sample_texts import SAMPLES

WORDS = "seven words are enough to be counted"
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": WORDS},
        "mode": {"enum": ["fast", "thorough"]},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "more": {
            "anyOf": [{"type": "object", "properties": {"deep": {"type": "boolean"}}}, {"type": "null"}]
        },
    },
    "required": ["path"],
}
TOOL = Tool(name="read_file", description=WORDS, schema=SCHEMA)


def tokens(*blocks: AnyBlock, tokenizer: Tokenizer = "claude") -> int:
    message = Message(role="user", blocks=blocks)
    return estimate_tokens(Request(dialect="anthropic", model="m", messages=(message,)), tokenizer)


@pytest.mark.rule("R113", "H69")
@pytest.mark.parametrize(("dialect", "stem", "true"), RECORDED, ids=[stem for _, stem, _ in RECORDED])
def test_a_recorded_request_is_counted_within_a_tenth(dialect: str, stem: str, true: int) -> None:
    model = str(url_of(dialect, stem).get("model", ""))
    request = read_count_request(dialect, msgspec.json.encode(body_of(dialect, stem)), model)
    assert estimate_tokens(request, find_tokenizer(request.model, dialect)) == pytest.approx(true, rel=0.1)


@pytest.mark.rule("R113", "H69")
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_guess_is_near_the_count(tokenizer: Tokenizer) -> None:
    texts = [Text(text=text) for text in SAMPLES.values()] * 12
    messages = tuple(Message(role="user", blocks=(text,)) for text in texts)
    for some in (messages[:1], messages[:7], messages):
        request = Request(dialect="anthropic", model="m", messages=some, tools=(TOOL,) * 9)
        assert estimate_from_samples(request, tokenizer) == pytest.approx(
            estimate_tokens(request, tokenizer), rel=0.1
        )


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize(
    "block",
    [
        Text(text=WORDS),
        Refusal(text=WORDS),
        Reasoning(parts=(WORDS,)),
        ToolCall(id="1", name="x", arguments=WORDS),
        ToolResult(call_id="1", content=(Text(text=WORDS),)),
        HostedCall(id="1", tool="web_search", arguments=WORDS),
        HostedResult(call_id="1", tool="web_search", text=WORDS),
        Media(kind="document", text=WORDS),
        Opaque(kind="x", value={"words": WORDS}),
        Opaque(kind="x", value={}, text=WORDS),
        ToolDeclarations(tools=(TOOL,)),
    ],
    ids=lambda block: type(block).__name__,
)
def test_the_words_of_every_block_are_counted(block: AnyBlock, tokenizer: Tokenizer) -> None:
    without = tokens(tokenizer=tokenizer)
    assert tokens(block, tokenizer=tokenizer) >= without + int(estimate_text_tokens(WORDS, tokenizer))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_tools_are_counted_with_their_schemas(tokenizer: Tokenizer) -> None:
    bare = Request(dialect="anthropic", model="m")
    none = estimate_tokens(bare, tokenizer)
    named = estimate_tokens(msgspec.structs.replace(bare, tools=(Tool(name="read_file"),)), tokenizer)
    whole = estimate_tokens(msgspec.structs.replace(bare, tools=(TOOL,)), tokenizer)
    assert none < named
    assert named + 2 * int(estimate_text_tokens(WORDS, tokenizer)) < whole


def test_a_forced_call_has_its_own_price() -> None:
    request = Request(dialect="anthropic", model="m", tools=(TOOL,))
    forced = msgspec.structs.replace(request, tool_choice=ToolChoice(mode="required"))
    auto, required = OVERHEADS["claude"].tools
    assert estimate_tokens(forced, "claude") - estimate_tokens(request, "claude") == required - auto


def test_tools_that_are_not_loaded_are_not_counted() -> None:
    deferred = msgspec.structs.replace(TOOL, deferred=True)
    request = Request(dialect="anthropic", model="m", tools=(deferred,))
    assert estimate_tokens(request, "claude") == estimate_tokens(
        msgspec.structs.replace(request, tools=()), "claude"
    )
    result = ToolResult(call_id="1", content=(ToolReference(name="read_file"),))
    loaded = msgspec.structs.replace(request, messages=(Message(role="user", blocks=(result,)),))
    without = msgspec.structs.replace(loaded, tools=())
    assert estimate_tokens(loaded, "claude") > estimate_tokens(without, "claude") + 200


def test_tools_of_the_vendor_have_a_price_of_their_own() -> None:
    request = Request(dialect="anthropic", model="m", tools=(Tool(name="bash", kind="typed"),))
    plain = msgspec.structs.replace(request, tools=(Tool(name="bash"),))
    assert estimate_tokens(request, "claude") > estimate_tokens(plain, "claude") + 200


def test_the_grammar_of_a_free_text_tool_is_counted() -> None:
    custom = Tool(name="patch", kind="custom", grammar=ToolGrammar(syntax="lark", definition=WORDS))
    request = Request(dialect="openai_responses", model="m", tools=(custom,))
    plain = msgspec.structs.replace(request, tools=(Tool(name="patch", kind="custom"),))
    assert estimate_tokens(request, "gpt") >= estimate_tokens(plain, "gpt") + int(
        estimate_text_tokens(WORDS, "gpt")
    )


def test_the_schema_of_the_answer_is_counted() -> None:
    request = Request(dialect="anthropic", model="m")
    bound = msgspec.structs.replace(request, output=OutputFormat(kind="json_schema", schema=SCHEMA))
    assert estimate_tokens(bound, "claude") > estimate_tokens(request, "claude") + 40


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_picture_costs_the_same_however_large_its_data(tokenizer: Tokenizer) -> None:
    small, large = (Media(kind="image", data="x" * size) for size in (10, 1_000_000))
    assert tokens(small, tokenizer=tokenizer) == tokens(large, tokenizer=tokenizer)
    assert tokens(small, tokenizer=tokenizer) - tokens(tokenizer=tokenizer) == pytest.approx(
        OVERHEADS[tokenizer].media["image"], abs=5
    )


def test_a_picture_in_low_detail_costs_less() -> None:
    low = tokens(Media(kind="image", url="u", detail="low"), tokenizer="gpt")
    assert low < tokens(Media(kind="image", url="u"), tokenizer="gpt") - 500


def test_a_document_costs_more_the_larger_it_is() -> None:
    small, large = (Media(kind="document", data="x" * size) for size in (10, 800_000))
    assert tokens(large) > 5 * tokens(small)


def test_every_message_costs_something() -> None:
    one = Request(dialect="anthropic", model="m", messages=(Message(role="user"),))
    two = msgspec.structs.replace(one, messages=(*one.messages, Message(role="assistant")))
    assert estimate_tokens(two, "claude") - estimate_tokens(one, "claude") == OVERHEADS["claude"].message


def test_an_empty_request_is_one_token_at_least() -> None:
    assert estimate_tokens(Request(dialect="gemini", model="m"), "gemini") == 1


def test_a_schema_without_end_is_counted() -> None:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"inner": schema}}
    request = Request(dialect="openai_responses", model="m", tools=(Tool(name="x", schema=schema),))
    assert estimate_tokens(request, "gpt") > 10
