"""Every finding of translation (F1 to F22) as a rule, in all 16 directions, streamed and whole.

`FINDINGS` has a check for each number, and the directions in which the rule has no meaning, with the reason.
A direction is a client's dialect, an upstream's dialect and the form of the reply. Rules of requests alone
hold for both forms. What needs the gateway (F15, F18, F19, F21) is tested there.
"""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import StreamTranslator, translate_reply, translate_request
from dragoman.dialects.registry import dialect_named
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Losses
from dragoman.providers.profile import Profile
from tests.pipeline.asking import DIALECTS, asking, chat_reply_with_call
from tests.pipeline.findings import (
    ALTERNATING,
    COMPLETED_LATER,
    EMPTY_REPLIES,
    HISTORIES,
    LOGPROBS,
    MALFORMED,
    REFUSED,
    SEARCHES,
    STORED,
    VENDOR_BLOCKS,
    Json,
    explode,
    find_calls,
    has_failed,
    name_tool,
)
from tests.sse import collect_sse

ANTHROPIC, CHAT, RESPONSES, GEMINI = DIALECTS
#: The pattern that each vendor has for names of functions.
NAMES = dict.fromkeys(DIALECTS, r"[A-Za-z0-9_-]{1,64}") | {GEMINI: r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}"}


class Direction(msgspec.Struct, frozen=True):
    client: str
    upstream: str
    is_stream: bool

    def __str__(self) -> str:
        return f"{self.client} -> {self.upstream}, {'streamed' if self.is_stream else 'whole'}"

    def request(self, body: Json, **facts: object) -> Json:
        """The body that the upstream gets."""
        profile = Profile(dialect=self.upstream, **facts)  # type: ignore[arg-type]  # a fact by its name
        copy = msgspec.json.decode(msgspec.json.encode(body))
        return translate_request(
            copy, source=self.client, target=self.upstream, model="m", profile=profile, stream=self.is_stream
        ).body

    def list_losses(self, body: Json) -> list[str]:
        translated = translate_request(
            body, source=self.client, target=self.upstream, model="m", stream=self.is_stream
        )
        return [loss.path for loss in translated.losses]

    def reply(self, body: Json, stream: bytes = b"", request: Json | None = None) -> Json:
        """The reply as the client has it at its end. `stream`: another form of the upstream's stream."""
        ids = IdSource("seed")
        if not self.is_stream:
            return translate_reply(
                body, source=self.upstream, target=self.client, ids=ids, model="m", request=request
            ).body
        translator = StreamTranslator(
            source=self.upstream, target=self.client, ids=ids, model="m", request=request
        )
        written = translator.feed(stream or explode(self.upstream, body)) + translator.close()
        assert dialect_named(self.client).check_stream(written) == []
        return collect_sse(dialect_named(self.client), written)


ALL = [Direction(*each) for each in product(DIALECTS, DIALECTS, (True, False))]
Check = Callable[[Direction], None]
#: Why a rule has no meaning in a direction; empty if it has one.
Reason = Callable[[Direction], str]


def everywhere(direction: Direction) -> str:
    return ""


def only(reason: str, *, upstream: tuple[str, ...] = DIALECTS, client: tuple[str, ...] = DIALECTS) -> Reason:
    """The rule has a meaning only for these upstreams and clients."""
    return lambda each: "" if each.upstream in upstream and each.client in client else reason


def streamed(reason: str, *, upstream: tuple[str, ...] = DIALECTS) -> Reason:
    return lambda each: "" if each.is_stream and each.upstream in upstream else reason


def elsewhere(direction: Direction) -> str:
    return "its own server decides" if direction.client == direction.upstream else ""


def check_unanswered(direction: Direction) -> None:
    """F1."""
    assert has_failed(lambda: direction.reply(*EMPTY_REPLIES[direction.upstream]))


def check_malformed(direction: Direction) -> None:
    """F17."""
    assert has_failed(lambda: direction.reply(MALFORMED[direction.upstream]))


def check_completed_later(direction: Direction) -> None:
    """F2."""
    reply = direction.reply({}, COMPLETED_LATER[direction.upstream])
    assert find_calls(direction.client, reply) == [("ls", {"path": "/srv", "all": True})]


def check_alternating(direction: Direction) -> None:
    """F3 and F9: each call is whole, has its own id, and calls keep the order of the server."""
    reply = direction.reply({}, ALTERNATING[direction.upstream])
    assert find_calls(direction.client, reply) == [("ls", {"path": "/a"}), ("cat", {"path": "/b"})]
    if direction.client != GEMINI:
        # A client of Gemini need not have an id.
        assert b"call_a" in msgspec.json.encode(reply)
        assert b"call_b" in msgspec.json.encode(reply)


def check_bare_signature(direction: Direction) -> None:
    """F4."""
    parts: list[Json] = [{"text": "Hm.", "thought": True}, {"thoughtSignature": "c2VhbA=="}, {"text": "Yes."}]
    body: Json = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    thinking: Json = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
    reply = direction.reply(body, request=asking(GEMINI) | thinking if direction.client == GEMINI else None)
    assert len(_list_blocks(direction.client, reply)) == 2
    assert b"redacted_thinking" not in msgspec.json.encode(reply)


def _list_blocks(client: str, reply: Json) -> list[object]:
    """The thoughts and texts of a reply."""
    body: dict[str, Any] = reply
    match client:
        case "anthropic":
            return list(body["content"])
        case "openai_responses":
            return list(body["output"])
        case "openai_chat":
            message = body["choices"][0]["message"]
            return [message[name] for name in ("reasoning_content", "content") if message[name]]
        case _:
            return [part for part in body["candidates"][0]["content"]["parts"] if part.get("text")]


def check_replayed_reasoning(direction: Direction) -> None:
    """F5."""
    body = asking(direction.client, tools=["Read"]) | HISTORIES[direction.client]
    sent = msgspec.json.encode(direction.request(body, replay_reasoning=True))
    assert b"I look." in sent
    assert b"That is it." in sent


def check_strict(direction: Direction) -> None:
    """F6."""
    schema: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    body = asking(direction.client) | {"tools": name_tool(direction.client, "Read", schema, strict=True)}
    tool = msgspec.json.encode(direction.request(body)["tools"])
    assert b'"strict":true' in tool
    assert b'"additionalProperties":false' in tool or direction.client == direction.upstream


def check_names(direction: Direction) -> None:
    """F7: the name is readable and legal at the target, and the client gets its own name back."""
    request = asking(direction.client, tools=["repo.log"])
    (name,) = (
        tool.name
        for tool in dialect_named(direction.upstream)
        .read_request(direction.request(request), Losses(), model="m", stream=False)
        .tools
    )
    if direction.client != direction.upstream:
        assert re.fullmatch(NAMES[direction.upstream], name)
    assert re.fullmatch(r"repo[._]log", name)
    reply = direction.reply(*_call(direction.upstream, name), request=request)
    assert [found for found, _ in find_calls(direction.client, reply)] == ["repo.log"]


def _call(dialect: str, name: str) -> tuple[Json]:
    chat = chat_reply_with_call(name, "{}", "call_a")
    return (chat if dialect == CHAT else translate_reply(chat, source=CHAT, target=dialect, model="m").body,)


def check_search(direction: Direction) -> None:
    """F8."""
    assert b"dragoman history" in msgspec.json.encode(direction.reply(SEARCHES[direction.upstream]))


def check_refusals(direction: Direction) -> None:
    """F10."""
    for added, field in REFUSED[direction.client]:
        with pytest.raises(ClientProtocolError) as caught:
            direction.request({**asking(direction.client), **added})
        assert (caught.value.status, caught.value.path) == (400, field)


def check_schemas(direction: Direction) -> None:
    """F11."""
    schema: Json = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["gone"]}
    body = asking(direction.client) | {"tools": name_tool(direction.client, "Read", schema)}
    sent = msgspec.json.encode(direction.request(body)["tools"])
    if direction.upstream == ANTHROPIC:
        # It takes every legal JSON Schema, and this is one.
        assert msgspec.json.encode(schema) in sent
        return
    assert b"gone" not in sent
    if direction.upstream in (CHAT, RESPONSES):
        assert sent.count(b'"properties"') == 2
    assert direction.list_losses(body)


def check_files(direction: Direction) -> None:
    """F12: in a message and in a result. A target that does not store the file gets no id."""
    body = asking(direction.client) | STORED[direction.client]
    sent = msgspec.json.encode(direction.request(body))
    if direction.upstream == RESPONSES or direction.client == direction.upstream:
        assert sent.count(b'"file-1"') == 2
        return
    assert len(direction.list_losses(body)) == 2
    assert b"file-1" not in sent
    # Most servers of Chat are not OpenAI's. A provider can state that its files are the same.
    shared = msgspec.json.encode(direction.request(body, shared_files=(direction.client,)))
    assert b'"file-1"' in shared or direction.upstream == GEMINI


def check_stored_state(direction: Direction) -> None:
    """F13 and F14: what only the client's vendor has or does is refused by name."""
    fields: dict[str, dict[str, object]] = {
        ANTHROPIC: {
            "thread": {"type": "continue", "previous_message_id": "msg_1"},
            "safeguards": [{"type": "prompt_injection"}],
            "compaction": {"type": "summarize"},
        },
        RESPONSES: {"conversation": "conv_1", "prompt": {"id": "pmpt_1"}, "previous_response_id": "resp_1"},
        GEMINI: {"cachedContent": "cachedContents/1"},
    }
    for name, value in fields[direction.client].items():
        with pytest.raises(ClientProtocolError) as caught:
            direction.request({**asking(direction.client), name: value})
        assert (caught.value.status, caught.value.path) == (400, name)


def check_vendor_blocks(direction: Direction) -> None:
    """F16."""
    body = asking(direction.client) | VENDOR_BLOCKS[direction.client]
    if direction.client == direction.upstream:
        assert direction.request(body) == body | direction.request(asking(direction.client)) | body
        return
    sent = msgspec.json.encode(direction.request(body))
    assert b"vendor-marker" in sent or direction.list_losses(body)


def check_paths(direction: Direction) -> None:
    """F20: a model's name with a slash is one segment of a path, or a member of the body."""
    api = dialect_named(direction.upstream).http_api
    path = api.build_upstream_path("openai/gpt-4o", stream=direction.is_stream).path
    assert "openai/gpt-4o" not in path
    assert ("openai%2Fgpt-4o" in path) == (direction.upstream == GEMINI)


def check_logprobs(direction: Direction) -> None:
    """F22."""
    reply = direction.reply(LOGPROBS[direction.upstream], request=_request_logprobs(direction.client))
    assert b"-0.25" in msgspec.json.encode(reply)


def _request_logprobs(dialect: str) -> Json:
    added: dict[str, Json] = {
        CHAT: {"logprobs": True, "top_logprobs": 1},
        RESPONSES: {"include": ["message.output_text.logprobs"], "top_logprobs": 1},
        GEMINI: {"generationConfig": {"responseLogprobs": True, "logprobs": 1}},
    }
    return asking(dialect) | added[dialect]


#: The check of each finding, and where it has no meaning.
FINDINGS: dict[str, tuple[Check, Reason]] = {
    "F1": (check_unanswered, everywhere),
    "F2": (check_completed_later, streamed("a whole reply has every call once")),
    "F3": (
        check_alternating,
        streamed(
            "a whole reply has every call at one place, and pieces of Gemini's calls have no number",
            upstream=(ANTHROPIC, CHAT, RESPONSES),
        ),
    ),
    "F4": (
        check_bare_signature,
        only("only Gemini has parts with nothing but a signature", upstream=(GEMINI,)),
    ),
    "F5": (check_replayed_reasoning, everywhere),
    "F6": (
        check_strict,
        only(
            "Gemini has no strict tools: `tests/fit/test_tools.py` has the loss",
            upstream=(ANTHROPIC, CHAT, RESPONSES),
            client=(ANTHROPIC, CHAT, RESPONSES),
        ),
    ),
    "F7": (check_names, everywhere),
    "F8": (
        check_search,
        only(
            "Chat has no place for a search: `tests/pipeline/test_hosted_search.py` has the loss",
            upstream=(ANTHROPIC, RESPONSES, GEMINI),
            client=(ANTHROPIC, RESPONSES, GEMINI),
        ),
    ),
    "F9": (check_alternating, streamed("only Chat has ids and indexes apart from names", upstream=(CHAT,))),
    "F10": (check_refusals, elsewhere),
    "F11": (check_schemas, elsewhere),
    "F12": (
        check_files,
        only("files are stored at OpenAI for both of its APIs alone", client=(CHAT, RESPONSES)),
    ),
    "F13": (
        check_stored_state,
        lambda each: elsewhere(each) or ("Chat stores nothing" if each.client == CHAT else ""),
    ),
    "F14": (
        check_stored_state,
        lambda each: elsewhere(each) or ("" if each.client == ANTHROPIC else "a field of Anthropic's API"),
    ),
    "F16": (check_vendor_blocks, everywhere),
    "F17": (check_malformed, everywhere),
    "F20": (check_paths, everywhere),
    "F22": (
        check_logprobs,
        only(
            "Anthropic has no probabilities",
            upstream=(CHAT, RESPONSES, GEMINI),
            client=(CHAT, RESPONSES, GEMINI),
        ),
    ),
}
#: What the gateway does and the library cannot: the tests of these rules run it.
IN_THE_GATEWAY = {
    "F15": "tests/healing/test_refused_seals.py",
    "F18": "tests/server/test_app.py",
    "F19": "tests/server/test_app.py",
    "F21": "tests/responses/test_http.py",
}
CHECKED = [
    pytest.param(number, each, id=f"{number}: {each}")
    for number, (_, find_reason) in FINDINGS.items()
    for each in ALL
    if not find_reason(each)
]


@pytest.mark.rule("F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11")
@pytest.mark.rule("F12", "F13", "F14", "F16", "F17", "F20", "F22")
@pytest.mark.parametrize(("number", "direction"), CHECKED)
def test_the_rule_of_a_finding_holds_in_every_direction(number: str, direction: Direction) -> None:
    check, _ = FINDINGS[number]
    check(direction)


def test_every_finding_has_a_check_or_a_test_of_the_gateway() -> None:
    assert {*FINDINGS, *IN_THE_GATEWAY} == {f"F{number}" for number in range(1, 23)}
    tests = Path(__file__).parent.parent
    for number, file in IN_THE_GATEWAY.items():
        assert f'"{number}"' in (tests.parent / file).read_text(encoding="utf-8")


def test_the_rules_have_a_meaning_in_most_directions() -> None:
    """A reason that is too wide would hide a direction."""
    assert len(ALL) == 32
    assert len(CHECKED) == 374
