"""Requests that continue a conversation equal their whole translation, whatever happened before."""

from base64 import urlsafe_b64encode
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import translate_request
from dragoman.config.provider import Provider
from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.forwarding import split_members
from dragoman.hub.errors import LossRefused
from dragoman.pipeline import body_parts
from dragoman.pipeline.history import MOST_SECTIONS, TranslatedHistory
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import HistoryKey, OwnHistories, RememberedHistories
from dragoman.pipeline.split_body import split_body
from dragoman.pipeline.target_request import TargetRequest
from tests.pipeline.sessions import DIALECTS, PADDING, build, compare_session, try_build
from tests.pipeline.test_prefix import HISTORY, list_sessions

LIMIT = 20_000_000
PROVIDER = Provider(name="server", dialect="openai_chat", base_url="http://127.0.0.1:9")


# A cache mark on a result that is dropped because it came twice.
@example(1000189, "anthropic", "openai_responses")
# An undone message had declared a tool.
@example(12007328, "openai_responses", "gemini")
# An item sets the effort of reasoning, which the tool choice of governance depends on.
@example(910038, "openai_responses", "anthropic")
# An undone message called an undeclared tool, so a declared one got another name.
@example(40016686, "gemini", "openai_chat")
# An instruction was undone, so that a remembered one is the last, which gets a cache mark.
@example(200012046, "openai_responses", "anthropic")
@settings(max_examples=120)
@given(st.integers(0, 2**32), st.sampled_from(DIALECTS), st.sampled_from(DIALECTS))
def test_a_generated_session_is_translated_as_if_nothing_was_remembered(
    seed: int, source: str, target: str
) -> None:
    if source != target:
        compare_session(seed, source, target, Counter())


def test_generated_sessions_are_continued() -> None:
    counts: Counter[str] = Counter()
    for seed in range(24):
        compare_session(seed, "anthropic", "openai_chat", counts)
    assert counts["continued"] > 0.3 * counts["requests"]


@pytest.mark.parametrize("target", HISTORY)
@pytest.mark.parametrize(("source", "body", "cuts"), list_sessions())
def test_a_recorded_session_is_translated_as_if_nothing_was_remembered(
    source: str, body: dict[str, Any], cuts: list[int], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_parts, "MIN_BODY", 0)
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    member = HISTORY[source]
    for cut in (*cuts, len(body[member])):
        sent = msgspec.json.encode({**body, member: body[member][:cut]})
        assert build(sent, source, target, own).compare(build(sent, source, target, None)) == ""


def grow(count: int) -> list[bytes]:
    """The requests of a session that only grows."""
    read = {"name": "Read", "description": PADDING, "input_schema": {"type": "object", "properties": {}}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
    bodies = []
    for number in range(count):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"path": "x"}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"{number} done"}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        body = {"model": "m", "max_tokens": 10, "tools": [read], "messages": messages}
        bodies.append(msgspec.json.encode(body))
    return bodies


def send(body: bytes, own: OwnHistories | None) -> TargetRequest:
    return build(body, "anthropic", "openai_chat", own)


def test_the_second_answer_of_a_conversation_is_continued() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    assert [send(body, own).is_continued for body in grow(6)] == [False, True, True, True, True, True]


@pytest.mark.parametrize("tools", ["[]", "[ ]", "null"])
@pytest.mark.parametrize("source", DIALECTS)
def test_a_conversation_without_tools_may_say_so(source: str, tools: str) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    target = "openai_chat" if source != "openai_chat" else "gemini"
    for count in (7, 9):
        talk = [{"role": ("user", "assistant")[each % 2], "content": PADDING[:6000]} for each in range(count)]
        body: Any = {"model": "m", "max_tokens": 9, "messages": talk}
        if source != "anthropic":
            body = translate_request(body, source="anthropic", target=source).body
        sent = msgspec.json.encode(body)[:-1] + b',"tools":%b}' % tools.encode()
        built = build(sent, source, target, own)
        assert built.compare(build(sent, source, target, None)) == ""
    assert built.is_continued


def test_a_long_conversation_is_remembered_in_few_sections() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    bodies = grow(60)

    def count_sections(sent: bytes) -> tuple[int, int]:
        """The number of sections after a request, and of the items in them."""
        assert send(sent, own).compare(send(sent, None)) == ""
        (entry,) = own.remembered._entries.values()
        return len(entry.history.end.list_chain()), entry.history.end.count

    counts = [count_sections(body) for body in bodies]
    assert max(count for count, _ in counts) == MOST_SECTIONS
    assert counts[-1][1] == 119
    size = own.remembered.bytes
    # An undo of some turns finds its section; one of many finds the front.
    assert count_sections(bodies[-4])[1] == 113
    assert count_sections(bodies[5])[1] == 11
    assert own.remembered.bytes < size


def test_no_caller_gets_what_another_caller_sent() -> None:
    remembered = RememberedHistories(LIMIT)
    bodies = grow(6)
    for body in bodies[:-1]:
        send(body, OwnHistories(remembered, "one"))
    assert not send(bodies[-1], OwnHistories(remembered, "other")).is_continued
    assert send(bodies[-1], OwnHistories(remembered, "one")).is_continued


def test_another_model_and_another_provider_get_their_own_translation() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    bodies = grow(6)
    for body in bodies[:-1]:
        send(body, own)
    for target in ("gemini", "openai_responses"):
        target_request = build(bodies[-1], "anthropic", target, own)
        assert not target_request.is_continued
        assert target_request.compare(build(bodies[-1], "anthropic", target, None)) == ""


def test_the_bytes_are_bounded_and_the_longest_unused_conversation_goes_first() -> None:
    remembered = RememberedHistories(100_000)
    bodies = grow(4)
    for caller in range(20):
        for body in bodies:
            send(body, OwnHistories(remembered, caller))
        assert 0 < remembered.bytes <= 100_000
    assert send(bodies[-1], OwnHistories(remembered, 19)).is_continued
    assert not send(bodies[-1], OwnHistories(remembered, 0)).is_continued


def test_the_counted_bytes_are_those_of_the_entries() -> None:
    remembered = RememberedHistories(LIMIT)
    for caller in range(3):
        for body in grow(8):
            send(body, OwnHistories(remembered, caller))
    remembered.resize(0, checks=False)
    assert (remembered.bytes, len(remembered)) == (0, 0)


def test_a_conversation_larger_than_the_bound_is_not_remembered() -> None:
    remembered = RememberedHistories(1_000)
    for body in grow(5):
        send(body, OwnHistories(remembered, "caller"))
    assert (remembered.bytes, len(remembered)) == (0, 0)


def test_strict_refuses_a_loss_in_remembered_history() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    bodies = [
        body.replace(b'"1 done"', b'[{"type":"text","text":"1","citations":[{"x":1}]}]') for body in grow(7)
    ]
    last = bodies[-1].replace(b'"6 done"', b'[{"type":"text","text":"6","citations":[{"x":1}]}]')
    for body in bodies[:-1]:
        send(body, own)
    continued = send(bodies[-1], own)
    assert continued.is_continued
    assert [loss.path for loss in continued.losses] == ["messages[4].content[0].content[0]"]
    errors = []
    for histories in (own, None):
        plan = RequestPlan(RequestMetadata(dialect="anthropic"), last)
        plan.histories = histories
        with pytest.raises(LossRefused, match="1 more") as refused:
            plan.build_target_request(PROVIDER, "model-2", strict=True)
        errors.append(str(refused.value))
    assert errors[0] == errors[1]


Json = dict[str, Any]
TOOL = {"name": "Read", "description": PADDING, "input_schema": {"type": "object", "properties": {}}}
BODY: Json = {"model": "m", "max_tokens": 10, "tools": [TOOL]}
MARK = {"cache_control": {"type": "ephemeral"}}
THINKING = {"type": "thinking", "thinking": "x", "signature": "c2lnbmVk"}
ALTERNATING: Json = {"alternation": True}


def say(role: str, *content: Json | str) -> Json:
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in content]
    return {"role": role, "content": blocks}


def call(call_id: str, name: str = "Read", **arguments: object) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def answer(call_id: str, content: object = "done") -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def encode_id(original: str) -> str:
    return "dgi_" + urlsafe_b64encode(original.encode()).decode().rstrip("=")


BEGUN = [say("user", "Begin."), say("assistant", call("a")), say("user", answer("a"))]
TWICE = [BEGUN[0], say("assistant", call("a", x=1), call("a", x=2)), BEGUN[2]]
TALK = [say("assistant", "One."), say("user", "Two.")]
LOST = {"type": "text", "text": "x", "citations": [{"x": 1}]}

#: Requests of one conversation that a wrong reuse translated differently, and facts about the target.
CONNECTED: dict[str, tuple[str, Json, list[Json]]] = {
    "the answer behind the remembered turns becomes empty": (
        "openai_chat",
        ALTERNATING,
        [
            {"messages": [*BEGUN, *TALK]},
            {"messages": [*BEGUN, say("assistant", THINKING), say("user", "Two."), *TALK]},
        ],
    ),
    "an empty answer lets messages merge across the end of the turns": (
        "openai_chat",
        ALTERNATING,
        [
            {"messages": [*BEGUN, say("assistant", THINKING), say("user", "Undone.")]},
            {"messages": [*BEGUN, *TALK, *TALK]},
        ],
    ),
    "the system prompt of a target without system messages is removed": (
        "openai_chat",
        {"system": "user"},
        [{"system": "Be brief.", "messages": [*BEGUN, *TALK]}, {"messages": [*BEGUN, *TALK, *TALK]}],
    ),
    "a mark inside a result that becomes text": (
        "openai_chat",
        {"strict_results": True},
        [
            {"messages": messages}
            for last in (TALK, [*TALK, say("assistant", "Three."), say("user", {**LOST, **MARK})])
            for messages in [
                [*BEGUN, *TALK, say("user", answer("no", [{"type": "text", "text": "x", **MARK}])), *last]
            ]
        ],
    ),
    "the only marks that are left stand in the conversation": (
        "openai_chat",
        {"caching": "breakpoints"},
        [
            {"system": "Be brief.", "messages": [*BEGUN, *TALK, *TALK]},
            {"messages": [*BEGUN, *TALK, *TALK, *TALK]},
        ],
    ),
    "more losses than are counted hide those of the history": (
        "openai_chat",
        {},
        [
            {
                "messages": [
                    *BEGUN,
                    say("assistant", THINKING, "One."),
                    *TALK[1:],
                    *TALK,
                    say("user", *[LOST] * 1100),
                ]
            },
            {"messages": [*BEGUN, say("assistant", THINKING, "One."), *TALK[1:], *TALK, *TALK]},
        ],
    ),
    "a result comes late": (
        "gemini",
        {},
        [
            {"messages": messages}
            for waiting in [[say("user", "Begin."), say("assistant", call("a")), say("user", "Wait."), *TALK]]
            for messages in (waiting, [*waiting, say("assistant", call("b")), say("user", answer("a"))])
        ],
    ),
    "a result comes a second time": (
        "gemini",
        {},
        [{"messages": [*BEGUN, *TALK]}, {"messages": [*BEGUN, *TALK, *TALK[:1], say("user", answer("a"))]}],
    ),
    "one of two calls with one id gets its result late": (
        "gemini",
        {},
        [
            {"messages": [*TWICE, TALK[0], say("user", answer("a", "late"))]},
            {"messages": [*TWICE, *TALK, *TALK]},
        ],
    ),
    "nothing is left of what follows": (
        "openai_chat",
        {},
        [{"messages": [*BEGUN, *TALK]}, {"messages": [*BEGUN, say("assistant", THINKING)]}],
    ),
    "history and request have too many losses together": (
        "openai_chat",
        {},
        [
            {"messages": [say("user", *[LOST] * 600), *BEGUN[1:], *TALK]},
            {
                "messages": [
                    say("user", *[LOST] * 600),
                    *BEGUN[1:],
                    *TALK,
                    TALK[0],
                    say("user", *[LOST] * 600),
                ]
            },
        ],
    ),
    "only the history has calls, and the target then needs tools": (
        "openai_chat",
        {"history_needs_tools": True, "choices": ["auto"]},
        [
            {"tool_choice": {"type": "none"}, "messages": [*BEGUN, *TALK]},
            {"tool_choice": {"type": "none"}, "messages": [*BEGUN, *TALK, *TALK]},
        ],
    ),
    "only the history calls a tool, and the target then needs tools": (
        "openai_chat",
        {"history_needs_tools": True},
        [
            {"tools": [], "system": PADDING, "messages": [*BEGUN, *TALK]},
            {"tools": [], "system": PADDING, "messages": [*BEGUN, *TALK, *TALK]},
        ],
    ),
    "an undeclared tool has the name that a declared one gets": (
        "openai_chat",
        {},
        [
            {"tools": [{**TOOL, "name": "a.b"}, TOOL], "messages": messages}
            for begun in [[BEGUN[0], say("assistant", call("a", "a_b")), BEGUN[2], *TALK]]
            for messages in (begun, [*begun, say("assistant", call("b", "a.b")), say("user", answer("b"))])
        ],
    ),
    "another id means the same id at the target": (
        "openai_chat",
        {},
        [
            {"messages": [*BEGUN, *TALK]},
            {
                "messages": [
                    *BEGUN,
                    *TALK,
                    say("assistant", call(encode_id("a"))),
                    say("user", answer(encode_id("a"))),
                ]
            },
        ],
    ),
}


@pytest.mark.parametrize("case", CONNECTED)
def test_what_connects_a_request_with_remembered_turns_is_found(case: str) -> None:
    target, facts, requests = CONNECTED[case]
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    for request in requests:
        body = msgspec.json.encode({**BODY, **request})
        continued, whole = (build(body, "anthropic", target, each, facts) for each in (own, None))
        assert continued.compare(whole) == ""


def test_a_rule_of_the_vendor_holds_behind_remembered_turns() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    asked = {"role": "user", "parts": [{"text": PADDING}]}
    talk = [asked, {"role": "model", "parts": [{"text": "One."}]}] * 2
    begun, empty = (
        msgspec.json.encode({"contents": [*talk, last]}) for last in (asked, {"role": "user", "parts": []})
    )
    build(begun, "gemini", "openai_chat", own)
    refusals = [try_build(empty, "gemini", "openai_chat", each, {}) for each in (own, None)]
    assert refusals == ["contents[4].parts: expected at least one part, got nothing"] * 2


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "openai_responses"])
def test_a_late_response_without_an_id_finds_its_call(target: str) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    declared = {"functionDeclarations": [{"name": "Read", "description": PADDING}]}
    talk = [{"role": "user", "parts": [{"text": "Go."}]}, {"role": "model", "parts": [{"text": "One."}]}]
    called = {"role": "model", "parts": [{"functionCall": {"name": "Read", "args": {}}}]}
    late = {"functionResponse": {"name": "Read", "response": {"output": "late"}}}
    begun = [talk[0], called, *talk, talk[0]]
    for contents in (begun, [*begun, talk[1], {"role": "user", "parts": [late]}]):
        body = msgspec.json.encode({"tools": [declared], "contents": contents})
        continued, whole = (build(body, "gemini", target, each) for each in (own, None))
        assert continued.compare(whole) == ""


class Forgery(RememberedHistories):
    """A memory whose turns were written wrongly."""

    def find(self, key: HistoryKey) -> TranslatedHistory | None:
        found = super().find(key)
        if not isinstance(found, TranslatedHistory):
            return None
        end = msgspec.structs.replace(found.end, written=b'{"role":"user","content":"forged"}')
        return msgspec.structs.replace(found, end=end)


@pytest.mark.parametrize("checks", [True, False])
def test_the_check_finds_a_wrong_translation_and_sends_the_whole_one(checks: bool) -> None:
    own = OwnHistories(Forgery(LIMIT, checks=checks), "caller")
    bodies = grow(6)
    for body in bodies[:3]:
        send(body, own)
    plan = RequestPlan(RequestMetadata(dialect="anthropic"), bodies[3])
    plan.histories = own
    plan.peek()
    target_request = plan.build_target_request(PROVIDER, "model-2")
    assert (b"forged" in target_request.body) is not checks
    assert plan.mismatch == ("body" if checks else "")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"messages":1}', b'{"messages":[1', b'{"messages":[]} x']
)
def test_a_body_without_a_conversation_is_not_split(body: bytes) -> None:
    members = split_members(body)
    assert members is None or split_body(members, DIALECT.history) is None


def test_items_keep_their_bytes() -> None:
    members = split_members(b'{ "a" : 1, "messages": [ {"x" : 1} , [2 ,3]], "b":"\\u00e9"}')
    assert members is not None
    split = split_body(members, DIALECT.history)
    assert split is not None
    assert split.items == (b'{"x" : 1}', b"[2 ,3]")
    assert split.names == ("a", "b")
    assert split.values == (b"1", b'"\\u00e9"')
