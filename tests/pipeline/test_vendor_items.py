"""Items, blocks and fields that only one vendor has: the same within its API, text or a loss in others."""

from copy import deepcopy

import msgspec
import pytest

from dragoman.governance.settings import Governance
from dragoman.hub.errors import ClientProtocolError
from dragoman.pipeline import StreamTranslator, translate_reply, translate_request
from dragoman.pipeline.plan import RequestPlan
from tests.exchange.fakes import ask, provider
from tests.pipeline.asking import DIALECTS, asking

Json = dict[str, object]

SHELL_OUTPUT = [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]

#: Items of OpenAI, as its SDK declares them, and the text of each that other targets get, if any.
ITEMS: list[tuple[Json, str]] = [
    (
        {
            "id": "prog_1",
            "call_id": "call_p",
            "code": "await tools.Read({})",
            "fingerprint": "f1",
            "type": "program",
        },
        "await tools.Read({})",
    ),
    (
        {
            "id": "po_1",
            "call_id": "call_p",
            "result": "forty-two",
            "status": "completed",
            "type": "program_output",
        },
        "forty-two",
    ),
    (
        {
            "id": "sh_1",
            "call_id": "call_s",
            "type": "shell_call",
            "status": "completed",
            "action": {"commands": ["ls -l"], "timeout_ms": None, "max_output_length": None},
            "environment": {"type": "container_reference", "container_id": "cntr_1"},
            "caller": {"type": "program", "caller_id": "call_p"},
        },
        "ls -l",
    ),
    (
        {
            "id": "sho_1",
            "call_id": "call_s",
            "type": "shell_call_output",
            "status": "completed",
            "output": SHELL_OUTPUT,
            "max_output_length": 100,
        },
        "a.py",
    ),
    (
        {
            "id": "mcpl_1",
            "type": "mcp_list_tools",
            "server_label": "docs",
            "tools": [{"name": "read", "input_schema": {"type": "object"}, "annotations": None}],
            "error": None,
        },
        "",
    ),
    (
        {
            "id": "mcpr_1",
            "type": "mcp_approval_request",
            "server_label": "docs",
            "name": "read",
            "arguments": "{}",
        },
        "",
    ),
    (
        {
            "id": "mcp_1",
            "type": "mcp_call",
            "server_label": "docs",
            "name": "read_page",
            "arguments": "{}",
            "output": "the page",
            "error": None,
            "status": "completed",
            "approval_request_id": "mcpr_1",
        },
        "the page",
    ),
    ({"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA"}, ""),
    (
        {
            "id": "cu_1",
            "type": "computer_call",
            "call_id": "call_c",
            "status": "completed",
            "action": {"type": "screenshot"},
            "pending_safety_checks": [],
        },
        "",
    ),
]
#: Items that only a client sends.
INPUT_ITEMS: list[Json] = [
    {
        "id": "mcpa_1",
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_1",
        "approve": True,
        "reason": None,
    },
    {
        "type": "computer_call_output",
        "call_id": "call_c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA"},
    },
]
#: Calls for the client, which other targets get as calls, with their outputs.
CALLS: list[Json] = [
    {
        "id": "sh_2",
        "call_id": "call_l",
        "type": "shell_call",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": 9},
        "environment": {"type": "local"},
    },
    {
        "id": "apc_1",
        "call_id": "call_a",
        "type": "apply_patch_call",
        "status": "completed",
        "operation": {"type": "create_file", "path": "a", "diff": "+x"},
    },
]
OUTPUTS: list[Json] = [
    {
        "id": "sho_2",
        "call_id": "call_l",
        "type": "shell_call_output",
        "status": "completed",
        "output": SHELL_OUTPUT,
        "max_output_length": 9,
    },
    {
        "id": "apco_1",
        "call_id": "call_a",
        "type": "apply_patch_call_output",
        "status": "completed",
        "output": "Patched.",
    },
]

#: Blocks of Anthropic, and the text of each that other targets get, if any.
BLOCKS: list[tuple[Json, str]] = [
    (
        {
            "type": "compaction",
            "content": "What happened.",
            "encrypted_content": "e",
            "signature": "s",
            "tool_changes": [],
        },
        "What happened.",
    ),
    (
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1",
            "name": "read_page",
            "server_name": "docs",
            "input": {"a": 1},
        },
        "read_page",
    ),
    (
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1",
            "is_error": False,
            "content": [{"type": "text", "text": "the page"}],
        },
        "the page",
    ),
    (
        {
            "type": "mcp_tool_listing",
            "mcp_server_name": "docs",
            "tools": [{"name": "read", "description": "It.", "input_schema": {"type": "object"}}],
        },
        "",
    ),
    (
        {
            "type": "fallback",
            "from": {"model": "a"},
            "to": {"model": "b"},
            "trigger": {"type": "refusal"},
        },
        "",
    ),
]
#: Fields of an Anthropic request, and the paths of their losses elsewhere.
FIELDS: list[tuple[Json, list[str]]] = [
    ({"fallbacks": "default"}, ["fallbacks"]),
    ({"fallbacks": [{"model": "b", "max_tokens": 50}]}, ["fallbacks"]),
    ({"fallback_credit_token": "t"}, ["fallback_credit_token"]),
    ({"tags": {"team": "a"}}, ["tags"]),
    ({"diagnostics": {"previous_message_id": "m"}}, ["diagnostics"]),
    (
        {
            # Another vendor gets neither the address nor the token of the client's server.
            "mcp_servers": [
                {"type": "url", "name": "docs", "url": "https://example.org", "authorization_token": "t"}
            ],
            "tools": [
                {
                    "type": "mcp_toolset",
                    "mcp_server_name": "docs",
                    "default_config": {"enabled": True},
                    "configs": {"a": {"enabled": False}},
                    "tools": [{"name": "read", "input_schema": {"type": "object"}}],
                }
            ],
        },
        ["mcp_servers", "tools[0]"],
    ),
]


def conversation(block: Json) -> Json:
    """An Anthropic conversation with this block in the assistant's message."""
    answer = [block, {"type": "text", "text": "ok"}]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Go on"},
    ]
    return {"model": "m", "max_tokens": 100, "messages": messages}


def input_of(*items: Json) -> Json:
    """A Responses conversation with these items in the middle."""
    hello, more = {"role": "user", "content": "Hi"}, {"role": "user", "content": "Go on"}
    return {"model": "m", "store": False, "input": [hello, *items, more]}


ALL_ITEMS = [item for item, _ in ITEMS] + INPUT_ITEMS + CALLS + OUTPUTS
REQUESTS = [
    *(pytest.param("openai_responses", input_of(item), id=str(item["type"])) for item in ALL_ITEMS),
    *(pytest.param("anthropic", conversation(block), id=str(block["type"])) for block, _ in BLOCKS),
    *(pytest.param("anthropic", asking("anthropic") | fields, id=str(list(fields))) for fields, _ in FIELDS),
]


@pytest.mark.rule("F16")
@pytest.mark.parametrize(("dialect", "body"), REQUESTS)
def test_within_its_dialect_a_request_stays_the_same(dialect: str, body: Json) -> None:
    sent = msgspec.json.encode(body)
    forwarded = RequestPlan(ask(dialect).metadata, sent).build_target_request(
        msgspec.structs.replace(provider("up"), dialect=dialect), "any"
    )
    assert forwarded.lane in ("forward", "patch")
    found = translate_request(deepcopy(body), source=dialect, target=dialect)
    assert (found.body, found.losses) == (body, ())


@pytest.mark.rule("F16")
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini"])
@pytest.mark.parametrize(("item", "text"), ITEMS, ids=[str(item["type"]) for item, _ in ITEMS])
def test_an_item_is_text_or_a_loss_elsewhere(item: Json, text: str, target: str) -> None:
    calls = [each for each, _ in ITEMS if each.get("call_id") == item.get("call_id") and each is not item]
    before = calls if str(item["type"]).endswith("_output") else []
    found = translate_request(input_of(*before, item), source="openai_responses", target=target, model="m")
    assert text in str(found.body)
    place = f"input[{1 + len(before)}]"
    assert place in {loss.path for loss in found.losses}
    assert "unknown tool call" not in str(found.body)


@pytest.mark.rule("F16")
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini"])
@pytest.mark.parametrize("item", INPUT_ITEMS, ids=lambda item: str(item["type"]))
def test_an_item_of_the_client_without_an_equivalent_is_a_loss(item: Json, target: str) -> None:
    found = translate_request(input_of(item), source="openai_responses", target=target, model="m")
    assert "input[1]" in {loss.path for loss in found.losses}


@pytest.mark.rule("F16", "H26")
@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini"])
def test_shells_and_patches_of_the_client_are_calls_with_results(target: str) -> None:
    found = translate_request(input_of(*CALLS, *OUTPUTS), source="openai_responses", target=target, model="m")
    written = msgspec.json.encode(found.body).decode()
    for part in ("call_l", "call_a", "ls", "a.py", "create_file", "Patched."):
        assert part in written
    assert not [loss for loss in found.losses if "call" in loss.reason]


@pytest.mark.rule("F16")
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(("block", "text"), BLOCKS, ids=[str(block["type"]) for block, _ in BLOCKS])
def test_a_block_is_text_or_a_loss_elsewhere(block: Json, text: str, target: str) -> None:
    found = translate_request(conversation(block), source="anthropic", target=target)
    lost = [loss.path for loss in found.losses]
    assert text in str(found.body)
    # No model sees a fallback, and the text of a summary is all of it.
    is_complete = block["type"] in ("compaction", "fallback")
    assert lost == ([] if is_complete else ["messages[1].content[0]"])


@pytest.mark.rule("F16")
def test_a_summary_does_not_run_into_the_text_behind_it() -> None:
    found = translate_request(conversation(BLOCKS[0][0]), source="anthropic", target="openai_chat")
    messages = found.body["messages"]
    assert isinstance(messages, list)
    assert messages[1]["content"] == "\nWhat happened.\nok"


@pytest.mark.rule("F16", "H30")
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini"])
@pytest.mark.parametrize(("fields", "paths"), FIELDS)
def test_a_field_without_an_equivalent_is_a_loss(fields: Json, paths: list[str], target: str) -> None:
    found = translate_request(asking("anthropic") | fields, source="anthropic", target=target)
    assert [loss.path for loss in found.losses] == paths
    assert "example.org" not in str(found.body)


@pytest.mark.rule("F16")
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "gemini"])
def test_a_request_for_a_summary_alone_is_refused_elsewhere(target: str) -> None:
    """Without the field another model would answer the conversation instead of summarizing it."""
    body = asking("anthropic") | {"compaction": {"type": "summarize"}}
    assert translate_request(deepcopy(body), source="anthropic", target="anthropic").body == body
    with pytest.raises(ClientProtocolError) as caught:
        translate_request(body, source="anthropic", target=target)
    assert (caught.value.status, caught.value.path) == (400, "compaction")


RESPONSE: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [*(item for item, _ in ITEMS), *CALLS, *OUTPUTS],
}
MESSAGE: Json = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [*(block for block, _ in BLOCKS), {"type": "text", "text": "x"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


@pytest.mark.rule("F16")
@pytest.mark.parametrize("governance", [None, Governance(tools="hold")], ids=["plain", "governed"])
@pytest.mark.parametrize(
    ("dialect", "reply", "field"),
    [("openai_responses", RESPONSE, "output"), ("anthropic", MESSAGE, "content")],
)
def test_within_its_dialect_a_reply_keeps_every_item(
    dialect: str, reply: Json, field: str, governance: Governance | None
) -> None:
    found = translate_reply(
        deepcopy(reply), source=dialect, target=dialect, request=asking(dialect), governance=governance
    )
    assert found.body[field] == reply[field]


def stream_of(response: Json) -> bytes:
    """A stream that has only finished items, as some servers send it."""
    items = response["output"]
    assert isinstance(items, list)
    events: list[Json] = [{"type": "response.created", "response": {**response, "output": []}}]
    events += [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(items)
    ]
    events.append({"type": "response.completed", "response": response})
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))
        for event in events
    )


@pytest.mark.rule("F16")
def test_an_output_in_a_stream_is_not_taken_for_its_call() -> None:
    translator = StreamTranslator(
        source="openai_responses",
        target="openai_responses",
        request=asking("openai_responses"),
        governance=Governance(tools="hold"),
    )
    assert not translator.is_forwarded
    written = translator.feed(stream_of(RESPONSE)) + translator.close()
    last = written.rpartition(b"event: response.completed\ndata: ")[2].partition(b"\n")[0]
    assert msgspec.json.decode(last)["response"]["output"] == RESPONSE["output"]


@pytest.mark.rule("F16")
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize(("source", "reply"), [("openai_responses", RESPONSE), ("anthropic", MESSAGE)])
def test_a_reply_with_them_is_legal_elsewhere_and_has_losses(source: str, reply: Json, target: str) -> None:
    found = translate_reply(deepcopy(reply), source=source, target=target, request=asking(target))
    assert "error" not in found.body or found.body["error"] is None
    assert bool(found.losses) == (source != target)
