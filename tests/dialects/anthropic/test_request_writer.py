"""Own requests are written as they came; requests of other dialects in the plainest legal spelling."""

import msgspec
import pytest

from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import (
    AnyBlock,
    CacheMark,
    Citation,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, OutputFormat, ReasoningSettings, Request, ToolChoice
from dragoman.providers.profile import Profile, build_target_facts

OWN = build_target_facts(Profile(dialect="anthropic"), "anthropic")
TARGET = build_target_facts(Profile(dialect="anthropic", model="claude-x"), "openai_chat")

MESSAGES: list[Json] = [{"role": "user", "content": "Hi."}]
BODY: Json = {"model": "m", "max_tokens": 10, "messages": MESSAGES}


def copy(value: Json) -> Json:
    again = msgspec.json.decode(msgspec.json.encode(value))
    assert isinstance(again, dict)
    return again


def user(*content: Json) -> Json:
    return {**BODY, "messages": [{"role": "user", "content": list(content)}]}


def assistant(*content: Json) -> Json:
    return {**BODY, "messages": [*MESSAGES, {"role": "assistant", "content": list(content)}]}


def answer(**fields: object) -> Json:
    return user({"type": "tool_result", "tool_use_id": "t", **fields})


WEB: Json = {
    "type": "web_search_result_location",
    "url": "https://e.org",
    "title": None,
    "cited_text": "",
    "encrypted_index": "x",
}
PAGE: Json = {
    "type": "page_location",
    "cited_text": "q",
    "document_index": 1,
    "document_title": "D",
    "start_page_number": 3,
    "end_page_number": 4,
}
SPELLINGS: dict[str, Json] = {
    "the least": BODY,
    "empty values": {
        **BODY,
        "system": "",
        "tools": [],
        "stop_sequences": [],
        "stream": False,
        "output_config": {},
    },
    "empty system": {**BODY, "system": []},
    "nulls": {
        **BODY,
        "system": None,
        "thinking": None,
        "stream": None,
        "metadata": None,
        "container": None,
        "temperature": None,
        "tool_choice": None,
        "cache_control": None,
        "output_config": None,
    },
    "nulls inside": {
        **BODY,
        "output_config": {"effort": None, "format": None},
        "metadata": {"user_id": None},
    },
    "empty metadata": {**BODY, "metadata": {}},
    "system as text": {**BODY, "system": "Be kind."},
    "system as blocks": {
        **BODY,
        "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    },
    "system as one plain block": {**BODY, "system": [{"type": "text", "text": "a"}]},
    "system messages": {
        **BODY,
        "system": "top",
        "messages": [
            {"role": "system", "content": "first"},
            *MESSAGES,
            {
                "role": "system",
                "content": [{"type": "text", "text": "b"}],
                "output_config": {"effort": "low"},
                "clear_at": "never",
            },
        ],
    },
    "a system message first": {**BODY, "messages": [{"role": "system", "content": "first"}, *MESSAGES]},
    "empty content": {**BODY, "messages": [{"role": "user", "content": []}, {"role": "user", "content": ""}]},
    "empty text": user({"type": "text", "text": ""}),
    "citations": assistant({"type": "text", "text": "a", "citations": [WEB, PAGE]}),
    "citations null": assistant({"type": "text", "text": "a", "citations": None}),
    "citations empty": assistant({"type": "text", "text": "a", "citations": []}),
    "result as text": answer(content="ok"),
    "result as empty text": answer(content=""),
    "result as blocks": answer(
        content=[{"type": "text", "text": "ok"}, {"type": "tool_reference", "tool_name": "a"}]
    ),
    "result as empty list": answer(content=[]),
    "result null": answer(content=None),
    "result absent": answer(),
    "result failed": answer(content="x", is_error=True, cache_control={"type": "ephemeral"}),
    "result not failed": answer(content="x", is_error=False),
    "result of a toolset": answer(content="x", toolset_name="computer"),
    "result with a search": answer(
        content=[{"type": "search_result", "source": "s", "title": "t", "content": []}]
    ),
    "a call": assistant(
        {
            "type": "tool_use",
            "id": "t",
            "name": "n",
            "input": {"a": [1, {"b": None}]},
            "caller": {"type": "direct"},
            "cache_control": {"type": "ephemeral"},
        }
    ),
    "thinking": assistant(
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "a"},
    ),
    "images": user(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        {"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}, "transformations": {}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "image", "source": {"type": "hologram", "depth": 2}},
    ),
    "documents": user(
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "w"},
            "title": "T",
            "context": "c",
            "citations": {"enabled": True},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "J"},
            "title": None,
        },
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
        {"type": "document", "source": {"type": "content", "content": "x"}, "title": "T"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": ""}},
    ),
    "server tools": assistant(
        {
            "type": "server_tool_use",
            "id": "s",
            "name": "web_search",
            "input": {"query": "q"},
            "caller": {"type": "direct"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        {"type": "mcp_tool_use", "id": "m", "name": "add", "server_name": "x", "input": {}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "m",
            "is_error": False,
            "content": "3",
            "cache_control": {"type": "ephemeral", "ttl": "5m"},
        },
    ),
    "unknown blocks": user({"type": "container_upload", "file_id": "f"}, {"type": "hologram", "x": {"y": 1}}),
    "compaction": assistant({"type": "compaction", "content": "So far.", "encrypted_content": None}),
    "a late tool": {
        **BODY,
        "messages": [
            *MESSAGES,
            {
                "role": "system",
                "content": [
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": {"name": "l", "input_schema": {}}},
                    },
                    {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "l"}},
                ],
            },
        ],
    },
    "tools": {
        **BODY,
        "tools": [
            {
                "name": "a",
                "input_schema": {"$schema": "x"},
                "type": "custom",
                "description": "",
                "strict": False,
            },
            {
                "name": "b",
                "input_schema": {"type": "object"},
                "type": None,
                "defer_loading": True,
                "description": None,
            },
            {"name": "c", "input_schema": {}, "defer_loading": False, "eager_input_streaming": True},
            {"type": "bash_20250124", "name": "bash"},
            {
                "type": "computer_20250124",
                "name": "computer",
                "display_width_px": 1,
                "cache_control": {"type": "ephemeral"},
            },
            {
                "type": "web_search_20260318",
                "name": "web_search",
                "max_uses": 3,
                "blocked_domains": ["e.org"],
            },
            {"type": "mcp_toolset", "mcp_server_name": "x", "default_config": {"defer_loading": True}},
        ],
    },
    "a choice": {**BODY, "tool_choice": {"type": "any", "disable_parallel_tool_use": False}},
    "a named choice": {
        **BODY,
        "tool_choice": {"type": "tool", "name": "a", "disable_parallel_tool_use": True},
    },
    "no choice": {**BODY, "tool_choice": {"type": "none"}},
    "an unknown choice": {**BODY, "tool_choice": {"type": "whim", "name": "a"}},
    "thinking by budget": {
        **BODY,
        "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "updates"},
    },
    "thinking as the model likes": {
        **BODY,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "xhigh"},
    },
    "thinking between tools": {**BODY, "thinking": {"type": "between_tools"}},
    "no thinking": {**BODY, "thinking": {"type": "disabled"}, "output_config": {"task_budget": {"total": 1}}},
    "thinking of an unknown type": {
        **BODY,
        "thinking": {"type": "dream"},
        "output_config": {"effort": "odd"},
    },
    "a schema": {**BODY, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    "an old schema": {**BODY, "output_format": {"type": "json_schema", "schema": {"type": "object"}, "x": 1}},
    "settings": {
        **BODY,
        "stop_sequences": ["a", "b"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 4,
        "stream": True,
        "service_tier": "standard_only",
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "metadata": {"user_id": "u"},
    },
    "server features": {
        **BODY,
        "context_management": {"edits": []},
        "mcp_servers": [],
        "speed": "fast",
        "container": {"id": "c"},
        "inference_geo": "eu",
        "thread": None,
    },
    "odd cache marks": user(
        {"type": "text", "text": "a", "cache_control": {"type": "eternal", "ttl": "9y", "x": 1}}
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_an_own_request_is_written_as_it_came(name: str) -> None:
    losses = Losses()
    request = DIALECT.read_request(copy(SPELLINGS[name]), losses)
    assert DIALECT.write_request(request, OWN, losses) == SPELLINGS[name]
    assert losses.as_tuple() == ()


def test_the_target_decides_the_model() -> None:
    request = DIALECT.read_request(copy(BODY), Losses())
    target = build_target_facts(Profile(dialect="anthropic", model="claude-y"), "anthropic")
    assert DIALECT.write_request(request, target, Losses())["model"] == "claude-y"


def foreign(*messages: Message, losses: Losses | None = None, **fields: object) -> Json:
    """The body for a request that came in another dialect."""
    request = msgspec.structs.replace(
        Request(
            dialect="openai_chat", model="gpt-x", max_tokens=10, messages=messages or (GO,), extras={"n": 1}
        ),
        **fields,
    )
    return DIALECT.write_request(request, TARGET, Losses() if losses is None else losses)


GO = Message(role="user", blocks=(Text(text="Go."),))


def contents(body: Json) -> list[list[Json]]:
    messages = body["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages]


def written(*blocks: AnyBlock, losses: Losses | None = None) -> list[Json]:
    """What becomes of blocks in the user's message."""
    return contents(foreign(Message(role="user", blocks=(*blocks, Text(text="."))), losses=losses))[0][:-1]


def test_a_foreign_request_carries_none_of_its_forms_and_extras() -> None:
    block = Text(text="Hi.", form="part", extras={"logprobs": 1})
    assert foreign(Message(role="user", blocks=(block,), form="string", extras={"name": "x"})) == {
        "model": "claude-x",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}],
    }


@pytest.mark.rule("H38", "H40")
def test_leading_system_messages_become_the_system_prompt() -> None:
    system = Message(role="system", blocks=(Text(text="a"),))
    developer = Message(role="developer", blocks=(Text(text="b"),))
    body = foreign(system, developer, GO)
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert len(contents(body)) == 1
    assert foreign(system, GO)["system"] == "a"


@pytest.mark.rule("H38")
def test_a_later_system_message_stays_where_it_is() -> None:
    body = foreign(GO, Message(role="system", blocks=(Text(text="b"),)))
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
    ]


def test_a_cache_mark_on_the_system_prompt_makes_it_a_list() -> None:
    marked = Text(text="a", cache=CacheMark(ttl="30m", extras={"mode": "explicit"}))
    assert foreign(Message(role="system", blocks=(marked,)), GO)["system"] == [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    ]


def test_the_system_prompt_takes_nothing_but_text() -> None:
    losses = Losses()
    image = Media(kind="image", url="https://e.org/a.png")
    body = foreign(
        Message(role="system", blocks=(image, Text(text="a")), at="messages[0]"), GO, losses=losses
    )
    assert body["system"] == "a"
    assert [loss.path for loss in losses] == ["messages[0]"]


@pytest.mark.rule("R34", "C4", "H19", "P37")
def test_results_come_first_in_their_message() -> None:
    results = (ToolResult(call_id="a", content=(Text(text="1"),)), ToolResult(call_id="b"))
    assert written(Text(text="And?"), *results) == [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b"},
        {"type": "text", "text": "And?"},
    ]


def test_results_in_a_message_of_their_own_are_written_by_the_user() -> None:
    body = foreign(GO, Message(role="tool", blocks=(ToolResult(call_id="a", is_error=True),)))
    answer_message = {"type": "tool_result", "tool_use_id": "a", "is_error": True}
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {"role": "user", "content": [answer_message]},
    ]


@pytest.mark.rule("H20")
def test_media_inside_a_result_stays_inside() -> None:
    image = Media(kind="image", media_type="image/png", data="AA")
    (result,) = written(ToolResult(call_id="a", content=(Text(text="see"), image, Text(text=""))))
    assert result["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "base64", "data": "AA", "media_type": "image/png"}},
    ]


@pytest.mark.rule("H43")
def test_empty_texts_and_empty_messages_are_left_out() -> None:
    body = foreign(GO, Message(role="assistant", blocks=(Text(text=""),)))
    assert len(contents(body)) == 1
    assert written(Text(text="")) == []


@pytest.mark.rule("R72", "H12")
def test_arguments_become_an_object() -> None:
    (call,) = written(ToolCall(id="t", name="n", arguments='{"b": 1, "a": [null]}'))
    assert call == {"type": "tool_use", "id": "t", "name": "n", "input": {"b": 1, "a": [None]}}


@pytest.mark.rule("H35")
def test_no_arguments_are_an_empty_object() -> None:
    assert written(ToolCall(id="t", name="n"))[0]["input"] == {}


@pytest.mark.rule("C15")
@pytest.mark.parametrize("arguments", ["ls -la", "[1]", "{'a': 1}", "null"])
def test_arguments_that_are_no_object_are_kept_where_they_can_be_seen(arguments: str) -> None:
    losses = Losses()
    (call,) = written(ToolCall(id="t", name="n", arguments=arguments, at="messages[1]"), losses=losses)
    assert call["input"] == {"text": arguments}
    assert [loss.path for loss in losses] == ["messages[1].arguments"]


def test_free_text_arguments_are_wrapped() -> None:
    call = ToolCall(id="t", name="n", kind="custom", arguments="*** Begin")
    assert written(call)[0]["input"] == {"input": "*** Begin"}


def test_a_refusal_is_written_as_text() -> None:
    assert written(Refusal(text="No.")) == [{"type": "text", "text": "No."}]


MEDIA: list[tuple[Media, Json]] = [
    (Media(kind="image", url="https://e.org/a.png"), {"type": "url", "url": "https://e.org/a.png"}),
    (Media(kind="image", file_id="f"), {"type": "file", "file_id": "f"}),
    (
        Media(kind="document", media_type="application/pdf", data="JV", title="T"),
        {"type": "base64", "data": "JV", "media_type": "application/pdf"},
    ),
    (Media(kind="document", text="w"), {"type": "text", "media_type": "text/plain", "data": "w"}),
]


@pytest.mark.rule("R130", "H45", "H46")
@pytest.mark.parametrize(("media", "source"), MEDIA)
def test_images_and_documents_have_their_sources(media: Media, source: Json) -> None:
    (block,) = written(media)
    assert (block["type"], block["source"]) == (media.kind, source)
    assert block.get("title") == (media.title or None)


UNSAYABLE: list[AnyBlock] = [
    Media(kind="audio", media_type="audio/wav", data="AA", at="x"),
    HostedCall(id="ws_1", tool="web_search", at="x"),
    HostedResult(call_id="ws_1", tool="web_search", text="found", at="x"),
    Opaque(kind="item_reference", value={"type": "item_reference"}, at="x"),
    ToolDeclarations(tools=(Tool(name="late"),), at="x"),
]


@pytest.mark.rule("H47", "H28")
@pytest.mark.parametrize("block", UNSAYABLE)
def test_what_anthropic_does_not_take_is_a_loss_with_its_place(block: AnyBlock) -> None:
    losses = Losses()
    assert written(block, losses=losses) == []
    assert [loss.path for loss in losses] == ["x"]


def test_an_unknown_block_is_reported_by_its_text() -> None:
    assert written(Opaque(kind="odd", value={}, text="said otherwise")) == [
        {"type": "text", "text": "said otherwise"}
    ]


def test_a_text_goes_without_the_citations_of_others() -> None:
    cited = Text(text="a", citations=(Citation(url="https://e.org"),), at="x")
    assert written(cited) == [{"type": "text", "text": "a"}]


def test_a_reference_to_a_tool_is_written() -> None:
    (result,) = written(ToolResult(call_id="a", content=(ToolReference(name="late"),)))
    assert result["content"] == [{"type": "tool_reference", "tool_name": "late"}]


def tools_of(*tools: Tool, losses: Losses | None = None, **fields: object) -> object:
    return foreign(tools=tools, losses=losses, **fields).get("tools")


@pytest.mark.rule("R12", "H34", "H35")
def test_a_function_always_has_a_schema_of_an_object() -> None:
    bare = Tool(name="a", description="d", strict=True, form="x", extras={"y": 1})
    untyped = Tool(name="b", schema={"properties": {"p": {}}}, deferred=True, cache=CacheMark(ttl="1h"))
    assert tools_of(bare, untyped) == [
        {
            "name": "a",
            "description": "d",
            "strict": True,
            "input_schema": {"type": "object", "properties": {}},
        },
        {
            "name": "b",
            "input_schema": {"type": "object", "properties": {"p": {}}},
            "defer_loading": True,
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
    ]


@pytest.mark.rule("H28")
def test_server_tools_are_named_in_a_version_that_all_models_take() -> None:
    search = Tool(name="web_search", kind="hosted", common_name="web_search")
    assert tools_of(search) == [{"type": "web_search_20250305", "name": "web_search"}]


@pytest.mark.parametrize("kind", ["custom", "local_shell", "typed", "hosted"])
def test_a_tool_that_anthropic_does_not_know_is_a_loss(kind: str) -> None:
    losses = Losses()
    tool = msgspec.convert({"name": "x", "kind": kind, "common_name": "file_search", "at": "tools[0]"}, Tool)
    assert tools_of(tool, losses=losses) is None
    assert [loss.path for loss in losses] == ["tools[0]"]


CHOICES: list[tuple[ToolChoice | None, bool | None, Json | None]] = [
    (None, None, None),
    (None, True, None),
    (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
    (ToolChoice(mode="auto"), None, {"type": "auto"}),
    (ToolChoice(mode="required"), False, {"type": "any", "disable_parallel_tool_use": True}),
    (ToolChoice(mode="named", name="a"), True, {"type": "tool", "name": "a"}),
    (ToolChoice(mode="none", extras={"x": 1}), False, {"type": "none"}),
    (ToolChoice(mode="allowed", allowed=("a",), allowed_mode="required"), None, {"type": "any"}),
]


@pytest.mark.rule("R15", "R16", "C5", "H31", "H32")
@pytest.mark.parametrize(("choice", "parallel", "expected"), CHOICES)
def test_the_choice_among_tools_is_written(
    choice: ToolChoice | None, parallel: bool | None, expected: Json | None
) -> None:
    body = foreign(tools=(Tool(name="a"),), tool_choice=choice, parallel_calls=parallel)
    assert body.get("tool_choice") == expected


@pytest.mark.rule("R14")
def test_without_tools_there_is_no_choice() -> None:
    body = foreign(tool_choice=ToolChoice(mode="auto"), parallel_calls=False)
    assert "tool_choice" not in body
    assert "tools" not in body


WISHES: list[tuple[ReasoningSettings, Json | None, Json | None]] = [
    (ReasoningSettings(effort="high"), {"type": "adaptive"}, {"effort": "high"}),
    (ReasoningSettings(mode="adaptive", effort="low"), {"type": "adaptive"}, {"effort": "low"}),
    (ReasoningSettings(mode="on", budget=2048), {"type": "enabled", "budget_tokens": 2048}, None),
    (ReasoningSettings(budget=2048), {"type": "enabled", "budget_tokens": 2048}, None),
    (ReasoningSettings(mode="on"), {"type": "adaptive"}, None),
    (ReasoningSettings(mode="off", budget=0), {"type": "disabled"}, None),
    (ReasoningSettings(effort="none"), {"type": "disabled"}, None),
    (ReasoningSettings(effort="minimal"), {"type": "adaptive"}, None),
    (ReasoningSettings(mode="adaptive", show=True), {"type": "adaptive", "display": "summarized"}, None),
    (ReasoningSettings(mode="adaptive", show=False), {"type": "adaptive", "display": "omitted"}, None),
    (ReasoningSettings(), None, None),
]


@pytest.mark.rule("R129", "H10", "H11")
@pytest.mark.parametrize(("wish", "thinking", "output"), WISHES)
def test_the_wish_to_think_is_written(
    wish: ReasoningSettings, thinking: Json | None, output: Json | None
) -> None:
    body = foreign(reasoning=wish)
    assert (body.get("thinking"), body.get("output_config")) == (thinking, output)


def same_dialect(**fields: object) -> Json:
    """An own body after a pass has changed fields of the request."""
    request = DIALECT.read_request(copy(SPELLINGS["thinking between tools"]), Losses())
    return DIALECT.write_request(msgspec.structs.replace(request, **fields), OWN, Losses())


def test_an_own_wish_that_was_changed_is_written_as_changed() -> None:
    between: dict[str, object] = {"type": "between_tools"}
    assert same_dialect(reasoning=ReasoningSettings(mode="on", budget=1024, extras=between))["thinking"] == {
        "type": "enabled",
        "budget_tokens": 1024,
    }
    assert same_dialect(reasoning=ReasoningSettings(mode="off", budget=0, extras=between))["thinking"] == {
        "type": "disabled"
    }
    assert same_dialect(reasoning=None).get("thinking") is None


@pytest.mark.rule("H57")
def test_a_schema_for_the_answer_is_written() -> None:
    wanted = OutputFormat(kind="json_schema", schema={"type": "object"}, name="n", strict=True)
    assert foreign(output=wanted)["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}}
    }


def test_json_of_any_shape_is_a_loss_and_plain_text_is_the_rule() -> None:
    losses = Losses()
    assert "output_config" not in foreign(output=OutputFormat(kind="json_object"), losses=losses)
    assert len(losses) == 1
    assert "output_config" not in foreign(output=OutputFormat(kind="text"), losses=losses)
    assert len(losses) == 1


@pytest.mark.rule("H68", "H55", "H54", "H67")
def test_settings_are_written_under_their_names() -> None:
    body = foreign(
        stream=True,
        stop=("END",),
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        service_tier="auto",
        user="u-1",
        metadata={"team": "x"},
        cache=CacheMark(),
    )
    del body["model"], body["max_tokens"], body["messages"]
    assert body == {
        "stream": True,
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "service_tier": "auto",
        "metadata": {"user_id": "u-1"},
        "cache_control": {"type": "ephemeral"},
    }
