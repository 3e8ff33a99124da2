"""What ends or prevents the reuse of translated history, check by check, and what must not."""

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialects.forwarding import split_members
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import read_governance
from dragoman.hub.errors import ClientProtocolError
from dragoman.pipeline import body_parts
from dragoman.pipeline.history import ReadHistory, find_section
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.pipeline.remembered import HistoryKey, OwnHistories, RememberedHistories
from dragoman.pipeline.split_body import SplitBody, split_body
from dragoman.pipeline.target_request import TargetRequest
from tests.pipeline.sessions import PADDING, build
from tests.pipeline.small_conversations import compare_conversation
from tests.pipeline.test_continued import (
    ALTERNATING,
    BEGUN,
    BODY,
    LIMIT,
    MARK,
    PROVIDER,
    TALK,
    THINKING,
    TOOL,
    answer,
    call,
    encode_id,
    grow,
    say,
    send,
)

Json = dict[str, Any]
NOTE: Json = {"role": "system", "content": "Note."}
LATER = {**TOOL, "name": "Later", "defer_loading": True}
LONG_ID = "toolu_" + "x" * 40
#: A large body with a short prompt.
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO" * 4000}}

#: Requests of one conversation, each a different reason why it cannot simply be continued.
CASES: dict[str, tuple[str, Json, list[Json]]] = {
    "messages around a removed answer are merged, and an instruction follows": (
        "openai_chat",
        ALTERNATING,
        [
            {"messages": [*BEGUN, say("assistant", THINKING), say("user", "Undone."), NOTE]},
            {"messages": [*BEGUN, *TALK, *TALK]},
        ],
    ),
    "messages around a removed answer are merged, and an answer follows": (
        "gemini",
        {},
        [
            {
                "messages": [
                    BEGUN[0],
                    say("assistant"),
                    say("user", {"type": "text", "text": "x", **MARK}),
                    *TALK,
                ]
            },
            {"messages": [BEGUN[0], *TALK, *TALK]},
        ],
    ),
    "a later call gets the id of an earlier result, because its id is decoded": (
        "gemini",
        {"strict_results": False},
        [
            {"messages": [*BEGUN[:2], *more]}
            for more in (
                TALK,
                [
                    say("assistant", THINKING),
                    say("user", answer("b")),
                    say("assistant", call(encode_id("b"))),
                    say("user", "Next."),
                ],
            )
        ],
    ),
    "the last instruction gets a mark of the target": (
        "openai_chat",
        {"caching": "breakpoints"},
        [
            {"system": "Be brief.", "messages": [*BEGUN, NOTE, *TALK, *TALK, *more]}
            for more in ((), [NOTE, *TALK, *TALK])
        ],
    ),
    "a result with an id that the target gets in another form comes a second time": (
        "openai_chat",
        {"call_id_limit": 20},
        [
            {"messages": [*begun, *TALK, *more]}
            for begun in [[BEGUN[0], say("assistant", call(LONG_ID)), say("user", answer(LONG_ID))]]
            for more in ((), [TALK[0], say("user", answer(LONG_ID, "again"), "Go on.")])
        ],
    ),
    "an id stands for one that the target got in another form": (
        "openai_chat",
        {},
        [
            {"messages": [*begun, *TALK, *more]}
            for begun in [
                [BEGUN[0], say("assistant", call(encode_id("a"))), say("user", answer(encode_id("a")))]
            ]
            for more in ((), [say("assistant", call("a")), say("user", answer("a"))])
        ],
    ),
    "a result for a call of the first section comes a second time": (
        "gemini",
        {},
        [
            {"messages": messages}
            for begun in [[*BEGUN, *TALK]]
            for messages in (
                begun,
                [*begun, *TALK],
                [*begun, *TALK, *TALK],
                [*begun, *TALK, *TALK, TALK[0], say("user", answer("a", "again"), "Go on.")],
            )
        ],
    ),
    "a remembered result loads a deferred tool": (
        "openai_chat",
        {},
        [
            {"tools": [TOOL, LATER], "messages": messages}
            for reference in [{"type": "tool_reference", "tool_name": "Later"}]
            for begun in [[*BEGUN[:2], say("user", answer("a", [reference])), *TALK]]
            for messages in (begun, [*begun, *TALK])
        ],
    ),
    "the first message is removed, and an instruction follows": (
        "openai_chat",
        {"blank_text": False},
        [{"messages": [say("user", " "), NOTE, BEGUN[0], *more]} for more in (TALK, [*TALK, *TALK])],
    ),
    "a short prompt": (
        "openai_chat",
        {},
        [
            {"tools": [], "messages": [say("user", IMAGE, "Begin."), *turns]}
            for turns in (TALK, [*TALK, *TALK], [*TALK, *TALK, *TALK])
        ],
    ),
    "an undone message calls an undeclared tool whose name at the target is that of a declared one": (
        "openai_chat",
        {},
        [
            {"tools": [{**TOOL, "name": "a.b"}], "messages": [*begun, *more]}
            for begun in [[BEGUN[0], say("assistant", call("a", "a.b")), BEGUN[2]]]
            for more in ([say("assistant", call("b", "a_b")), say("user", answer("b"))], [*TALK, *TALK])
        ],
    ),
    "an item that only its vendor knows": (
        "openai_chat",
        {},
        [
            {"messages": [BEGUN[0], say("assistant", "One.", {"type": "unknown"}), BEGUN[0], *more]}
            for more in (TALK, [*TALK, *TALK])
        ],
    ),
    "only the history calls a tool that is not declared, and the target then needs tools": (
        "openai_chat",
        {"history_needs_tools": True},
        [
            {"tools": [], "system": PADDING, "messages": [*BEGUN, *TALK, *more]}
            for more in ((), TALK, [*TALK, *TALK])
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_request_equals_its_whole_translation(case: str) -> None:
    target, facts, requests = CASES[case]
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    for request in requests:
        body = msgspec.json.encode({**BODY, **request})
        continued, whole = (build(body, "anthropic", target, each, facts) for each in (own, None))
        assert continued.compare(whole) == ""


@pytest.mark.parametrize("place", ["remembered", "undone", "new"])
@pytest.mark.parametrize("target", ["openai_chat", "anthropic"])
def test_an_item_that_changes_settings_prevents_the_reuse(place: str, target: str) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    update: Json = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    asked: Json = {"role": "user", "content": PADDING}
    tool = {"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {}}}
    talk = [{"role": "assistant", "content": "One."}, asked]
    requests: dict[str, list[list[Json]]] = {
        "remembered": [[asked, update, *talk * count] for count in (3, 4)],
        "undone": [[asked, *talk * 3, update], [asked, *talk * 4]],
        "new": [[asked, *talk * 3], [asked, *talk * 4, update]],
    }
    for items in requests[place]:
        body = msgspec.json.encode({"model": "m", "tools": [tool], "input": items})
        # Anthropic's models accept no forced choice while they reason.
        governance = read_governance({"choice": "required"})
        continued, whole = (
            build(body, "openai_responses", target, each, None, governance) for each in (own, None)
        )
        assert continued.compare(whole) == ""


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_a_short_conversation_is_translated_as_if_nothing_was_remembered(seed: int) -> None:
    compare_conversation(seed, Counter())


def test_short_conversations_are_continued() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        compare_conversation(seed, counts)
    assert counts["continued"] > 0.1 * counts["requests"]


def mark_last(messages: list[Json]) -> list[Json]:
    """The messages with cache marks on the last two of the user, as Claude Code sends them."""
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    marked = list(messages)
    for index in users[-2:]:
        *others, last = messages[index]["content"]
        marked[index] = {**messages[index], "content": [*others, {**last, **MARK}]}
    return marked


@pytest.mark.parametrize("is_marked", [True, False])
def test_turns_before_the_marks_of_client_and_target_are_remembered(is_marked: bool) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    histories = [[*BEGUN, *TALK * count] for count in range(1, 6)]
    plain: Json = {**BODY, "system": "Be brief."}
    marked: Json = {**BODY, "system": [{"type": "text", "text": "Be brief.", **MARK}]}
    bodies = [
        msgspec.json.encode(
            {**marked, "messages": mark_last(messages)} if is_marked else {**plain, "messages": messages}
        )
        for messages in histories
    ]
    facts: Json = {"caching": "breakpoints"}
    sent = [build(body, "anthropic", "openai_chat", own, facts) for body in bodies]
    assert [each.is_continued for each in sent] == [False, True, True, True, True]
    assert all(
        each.compare(build(body, "anthropic", "openai_chat", None, facts)) == ""
        for each, body in zip(sent, bodies, strict=True)
    )


class Watched(RememberedHistories):
    """A memory that shows what was remembered last."""

    latest: ReadHistory

    def keep(self, key: HistoryKey, history: ReadHistory, marks: tuple[Hashable, ...] = ()) -> None:
        self.latest = history
        super().keep(key, history, marks)


def split(body: bytes) -> SplitBody:
    members = split_members(body)
    assert members is not None
    found = split_body(members, dialect_named("anthropic").history)
    assert found is not None
    return found


def test_the_longest_section_is_found_behind_which_an_item_follows() -> None:
    own = OwnHistories(remembered := Watched(LIMIT), "caller")
    bodies = grow(6)
    for body in bodies:
        send(body, own)
    end = remembered.latest.end
    chain = end.list_chain()
    items = split(bodies[-1]).items
    assert [section.count for section in chain] == [1, 3, 5, 7, 9, 11]
    assert find_section(end, items) is chain[-1]
    for before, section in pairwise(chain):
        assert find_section(end, items[: section.count]) is before
        assert find_section(end, items[: section.count + 1]) is section
    assert find_section(end, (b"{}", *items[1:])) is None
    assert find_section(end, (*items[:4], b"{}", *items[5:])) is chain[1]


def test_a_request_after_an_undo_is_continued() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    bodies = grow(6)
    for body in bodies:
        send(body, own)
    undone = [send(body, own) for body in reversed(bodies[1:])]
    assert all(each.is_continued for each in undone)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_conversation_with_few_items_is_translated(count: int) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    contents = [{"role": role, "parts": [{"text": PADDING}]} for role in ("user", "model")][:count]
    system = {"systemInstruction": {"parts": [{"text": PADDING}]}}
    body = msgspec.json.encode({**system, "contents": contents})
    plan = RequestPlan(RequestMetadata(dialect="gemini", model="m"), body)
    plan.histories = own
    errors = []
    for histories in (own, None):
        plan.histories = histories
        try:
            plan.build_target_request(PROVIDER, "model-2")
            errors.append("")
        except ClientProtocolError as error:
            errors.append(str(error))
    assert errors[0] == errors[1]
    assert bool(errors[0]) is (count == 0)


def test_a_body_that_cannot_be_read_is_known_as_unreadable() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    body = grow(3)[-1]
    for each in grow(3):
        send(each, own)
    wrong = msgspec.json.decode(body)
    wrong["messages"] += [say("assistant", "One."), {"role": "user", "content": 1}]
    plan = RequestPlan(RequestMetadata(dialect="anthropic"), msgspec.json.encode(wrong))
    plan.histories = own
    with pytest.raises(ClientProtocolError, match=r"messages\[8\]"):
        plan.build_target_request(PROVIDER, "model-2")
    assert plan.is_unreadable


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_nested_values_are_refused_as_without_remembered_turns(depth: int) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    for each in grow(3):
        send(each, own)
    nested: object = {}
    for _ in range(depth):
        nested = {"x": nested}
    body = msgspec.json.decode(grow(3)[-1])
    body["messages"] += [say("assistant", call("deep", x=nested)), say("user", answer("deep"))]
    results: list[object] = []
    for histories in (own, None):
        plan = RequestPlan(RequestMetadata(dialect="anthropic"), msgspec.json.encode(body))
        plan.histories = histories
        try:
            results.append(plan.build_target_request(PROVIDER, "model-2").body)
        except (ClientProtocolError, RecursionError) as error:
            results.append(repr(error))
    assert results[0] == results[1]


def ask_gemini(contents: list[Json], own: OwnHistories | None, *, model: str, stream: bool) -> TargetRequest:
    metadata = RequestMetadata(dialect="gemini", model=model, stream=stream)
    plan = RequestPlan(metadata, msgspec.json.encode({"contents": contents}))
    plan.histories = own
    target_request = plan.build_target_request(PROVIDER, "model-2")
    plan.keep_history()
    return target_request


def test_requests_with_other_values_in_their_url_continue_the_conversation() -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    turn = [{"role": "user", "parts": [{"text": PADDING}]}, {"role": "model", "parts": [{"text": "One."}]}]
    urls = [("m", True), ("m", False), ("n", False), ("m", True)]
    for count, (model, stream) in enumerate(urls, 1):
        contents = [*turn * count, turn[0]]
        continued = ask_gemini(contents, own, model=model, stream=stream)
        assert continued.is_continued is (count > 1)
        assert continued.compare(ask_gemini(contents, None, model=model, stream=stream)) == ""


def test_short_bodies_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnHistories(RememberedHistories(LIMIT), "caller")
    bodies = grow(4)
    monkeypatch.setattr(body_parts, "MIN_BODY", len(bodies[2]))
    assert [send(body, own).is_continued for body in bodies] == [False, False, False, True]
