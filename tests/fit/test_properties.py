"""What holds for any request."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.fit import PASSES, Pass, Scope, build_restoration, fit
from dragoman.fit.ids import is_legal_id
from dragoman.fit.names import is_legal_name
from dragoman.fit.passes import list_needed_passes
from dragoman.fit.seals import belongs
from dragoman.hub.blocks import (
    AnyBlock,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request
from dragoman.providers.profile import TargetFacts
from tests.fit.building import DIALECTS, FOREIGN, target_for
from tests.fit.strategies import growing_conversations, requests

replace = msgspec.structs.replace
names = st.sampled_from(DIALECTS)
pairs = st.sampled_from(FOREIGN)


def without_marks(messages: tuple[Message, ...]) -> list[Message]:
    """Cache marks move with the conversation by their nature; what they mark may not."""
    plain = msgspec.structs.replace
    return [
        plain(message, blocks=tuple(plain(block, cache=None) for block in message.blocks))
        for message in messages
    ]


def blocks_of(asked: Request) -> list[AnyBlock]:
    return [block for message in asked.messages for block in message.blocks]


@settings(max_examples=200)
@given(requests(), names)
def test_fitting_raises_nothing_and_fitting_twice_changes_no_more(asked: Request, dialect: str) -> None:
    target = target_for(dialect, asked.dialect)
    once = fit(asked, target, Losses())
    assert fit(once, target, Losses()) == once
    build_restoration(asked, target)


@settings(max_examples=100)
@given(requests())
def test_at_home_nothing_changes_but_for_foreign_seals(asked: Request) -> None:
    target = target_for(asked.dialect, asked.dialect)
    seals = [getattr(block, "seal", None) for block in blocks_of(asked)]
    if all(seal is None or belongs(seal, asked, target) for seal in seals):
        losses = Losses()
        assert fit(asked, target, losses) is asked
        assert len(losses) == 0


@settings(max_examples=50)
@given(requests(), names)
def test_a_pass_that_changes_nothing_gives_the_same_object(asked: Request, dialect: str) -> None:
    target = target_for(dialect, asked.dialect)
    asked = fit(asked, target, Losses())
    for each in PASSES:
        after = each.apply(asked, target, Losses())
        if after == asked and each.name not in ("history", "alternation"):
            assert after is asked, each.name
        asked = after


@pytest.mark.rule("R42", "H18", "H19", "P23", "P24", "P31")
@settings(max_examples=200)
@given(requests(), pairs)
def test_every_call_is_followed_at_once_by_its_one_result(asked: Request, pair: tuple[str, str]) -> None:
    asked = msgspec.structs.replace(asked, dialect=pair[0])
    after = fit(asked, target_for(pair[1], pair[0]), Losses())
    for message, following in pairwise((*after.messages, Message(role="user"))):
        called = [block.id for block in message.blocks if isinstance(block, ToolCall)]
        assert not called or message.role == "assistant"
        answers = [block.call_id for block in following.blocks if isinstance(block, ToolResult)]
        assert answers == called
        assert all(isinstance(block, ToolResult) for block in following.blocks[: len(answers)])


@pytest.mark.rule("H16", "H17", "H15", "H1", "H41", "H42", "H43")
@settings(max_examples=200)
@given(requests(), pairs)
def test_what_comes_out_is_legal(asked: Request, pair: tuple[str, str]) -> None:
    asked = msgspec.structs.replace(asked, dialect=pair[0])
    target = target_for(pair[1], pair[0])
    after = fit(asked, target, Losses())
    blocks = blocks_of(after)
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    assert len({call.id for call in calls}) == len(calls)
    assert all(is_legal_id(call.id, target) and is_legal_name(call.name, target) for call in calls)
    functions = [tool for tool in after.tools if tool.kind != "hosted"]
    assert len({(tool.namespace, tool.name) for tool in functions}) == len(functions)
    assert all(is_legal_name(tool.name, target) for tool in functions)
    assert not any(isinstance(block, ToolDeclarations | ToolReference) for block in blocks)
    assert all(
        block.seal is None or belongs(block.seal, after, target)
        for block in blocks
        if isinstance(block, Text | ToolCall)
    )
    assert not any(isinstance(block, Reasoning) and not block.seal for block in blocks)
    assert sum(block.cache is not None for block in blocks) <= 4
    _check_messages(after, target)


def _check_messages(after: Request, target: TargetFacts) -> None:
    roles = [message.role for message in after.messages]
    if target.alternation:
        turns = [role for role in roles if role != "system"]
        assert turns[0] == "user"
        assert turns[-1] == "user"
        assert all(one != other for one, other in pairwise(turns))
        assert roles[: len(roles) - len(turns)] == ["system"] * (len(roles) - len(turns))
    if not target.blank_text:
        texts = [block for block in blocks_of(after) if isinstance(block, Text) and not block.seal]
        assert all(block.text.strip() for block in texts)
    if not target.media_in_results:
        results = [block for block in blocks_of(after) if isinstance(block, ToolResult)]
        assert not any(isinstance(inner, Media) for result in results for inner in result.content)
    assert all(
        message.blocks for message in after.messages if message.role != "user" or target.turns_required
    )


@pytest.mark.rule("H39", "H59", "H17")
@settings(max_examples=150)
@given(growing_conversations(), pairs)
def test_a_longer_conversation_begins_like_the_shorter_one(
    stages: list[tuple[Message, ...]], pair: tuple[str, str]
) -> None:
    source, dialect = pair
    target = target_for(dialect, source)
    fitted = [
        without_marks(fit(Request(dialect=source, model="m", messages=messages), target, Losses()).messages)
        for messages in stages
    ]
    for shorter, longer in pairwise(fitted):
        assert longer[: len(shorter)] == shorter


@settings(max_examples=100)
@given(
    requests(),
    pairs,
    st.sampled_from(["images", "namespaces", "json_schema", "alternation", "prefill"]),
    st.booleans(),
)
def test_profiles_only_ever_add_legality(
    asked: Request, pair: tuple[str, str], fact: str, value: bool
) -> None:
    asked = msgspec.structs.replace(asked, dialect=pair[0])
    target = target_for(pair[1], pair[0], **{fact: value})
    once = fit(asked, target, Losses())
    assert fit(once, target, Losses()) == once


@settings(max_examples=200)
@given(requests(), pairs)
def test_the_passes_that_are_left_out_would_change_nothing(asked: Request, pair: tuple[str, str]) -> None:
    asked = msgspec.structs.replace(asked, dialect=pair[0])
    target = target_for(pair[1], pair[0])
    needed = {each.name for each in list_needed_passes(asked.messages)}
    current, losses = asked, Losses()
    for each in PASSES:
        before, known = current, len(losses)
        current = each.apply(before, target, losses)
        assert each.name in needed or (current is before and len(losses) == known), each.name
    fitting = Losses()
    assert fit(asked, target, fitting) == current
    assert fitting.as_tuple() == losses.as_tuple()


@pytest.mark.parametrize("each", PASSES, ids=lambda each: str(each.name))
@settings(max_examples=25)
@given(requests(), names)
def test_a_pass_keeps_to_its_scope(each: Pass, asked: Request, dialect: str) -> None:
    target = target_for(dialect, asked.dialect)
    after = each.apply(asked, target, Losses())
    if each.scope is not Scope.REQUEST and each.scope is not Scope.TOOLS:
        assert after.tools is asked.tools
    if each.scope in (Scope.SETTINGS, Scope.TOOLS):
        assert after.messages is asked.messages
        bare = each.apply(replace(asked, messages=()), target, Losses())
        assert bare == replace(after, messages=())
    if each.scope is Scope.MESSAGE:
        alone = [
            each.apply(replace(asked, messages=(message,), tools=()), target, Losses())
            for message in asked.messages
        ]
        assert after.messages == tuple(message for part in alone for message in part.messages)
        assert replace(after, messages=()) == replace(asked, messages=())
