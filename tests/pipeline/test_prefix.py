"""A longer conversation begins with the bytes of the shorter one in every direction, for prompt caches."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman import translate_request
from tests.pipeline.session_bodies import vary_items
from tests.pipeline.sessions import Session

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
#: The member with the conversation, by dialect.
HISTORY = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
}
#: Items of the Responses API that the model writes, or that its vendor adds to the model's answer.
MODEL_ITEMS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
        "reasoning",
        "shell_call",
        "shell_call_output",
    }
)

#: Members that other dialects refuse.
REFUSED = ("n", "previous_response_id", "cachedContent")


def is_of_model(item: dict[str, Any]) -> bool:
    return item.get("role") in ("assistant", "model") or item.get("type") in MODEL_ITEMS


def find_cuts(items: object) -> list[int]:
    """The positions where the model begins to answer: an earlier request of the session ended there."""
    if not isinstance(items, list) or any(item.get("type") == "item_reference" for item in items):
        # Only the server that stores the items can read them.
        return []
    return [at for at in range(1, len(items)) if is_of_model(items[at]) and not is_of_model(items[at - 1])]


def list_sessions() -> list[Any]:
    """The recorded requests with a history: dialect, body, and the positions of earlier requests."""
    sessions = []
    for dialect, member in HISTORY.items():
        for path in sorted((RECORDINGS / dialect).glob("request*.json")):
            recorded = msgspec.json.decode(path.read_bytes())
            body = recorded.get("body", recorded)
            body = {name: value for name, value in body.items() if name not in REFUSED}
            if cuts := find_cuts(body.get(member)):
                sessions.append(pytest.param(dialect, body, cuts, id=f"{dialect} {path.stem}"))
    return sessions


def without_marks(value: object) -> object:
    """The value without cache marks: they move to the latest message, and are no part of the prompt."""
    match value:
        case dict():
            return {name: without_marks(each) for name, each in value.items() if name != "cache_control"}
        case list():
            return [without_marks(each) for each in value]
    return value


def translate(body: dict[str, Any], source: str, target: str) -> list[bytes]:
    """The messages for the target, each as bytes."""
    translated = translate_request(body, source=source, target=target).body
    messages = translated[HISTORY[target]]
    assert isinstance(messages, list)
    return [msgspec.json.encode(without_marks(message)) for message in messages]


@pytest.mark.parametrize("target", HISTORY)
@pytest.mark.parametrize(("source", "body", "cuts"), list_sessions())
def test_each_turn_of_a_session_begins_with_the_bytes_of_the_turn_before(
    source: str, body: dict[str, Any], cuts: list[int], target: str
) -> None:
    member = HISTORY[source]
    whole = translate(body, source, target)
    for cut in cuts:
        earlier = translate({**body, member: body[member][:cut]}, source, target)
        assert whole[: len(earlier)] == earlier, f"cut before item {cut}"


def build_body(seed: int, steps: int, source: str) -> dict[str, Any]:
    """The last request of a generated session whose client only adds messages."""
    session = Session(seed, is_plain=True)
    session.grow(steps)
    body = session.write()
    if source != "anthropic":
        body = dict(translate_request(body, source="anthropic", target=source).body)
    vary_items(body, source, seed)
    return body


def list_blocks(messages: list[bytes]) -> list[bytes]:
    """The blocks of the messages, each with its role.

    An answer without content is left out for some targets. Then the messages around it become one, which does
    not change the prompt before them.
    """
    blocks: list[bytes] = []
    for message in map(msgspec.json.decode, messages):
        member = "parts" if "parts" in message else "content"
        content = message.get(member)
        inner = content if isinstance(content, list) else [content]
        blocks += [msgspec.json.encode({**message, member: each}) for each in inner]
    return blocks


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(1, 10),
    source=st.sampled_from(sorted(HISTORY)),
    target=st.sampled_from(sorted(HISTORY)),
)
# A tool that is not declared, and a later one whose name it has at the target.
@example(seed=36, steps=4, source="anthropic", target="openai_chat")
# A blank message of the user after an answer, which Anthropic refuses.
@example(seed=2734, steps=5, source="gemini", target="anthropic")
def test_each_turn_of_a_generated_session_begins_with_the_turn_before(
    seed: int, steps: int, source: str, target: str
) -> None:
    body, member = build_body(seed, steps, source), HISTORY[source]
    whole = list_blocks(translate(body, source, target))
    for cut in find_cuts(body[member]):
        history = body[member][:cut]
        if not any(item.get("role") == "user" for item in history):
            # No request ends before the first message of the user.
            continue
        earlier = list_blocks(translate({**body, member: history}, source, target))
        assert whole[: len(earlier)] == earlier, f"cut before item {cut}"
