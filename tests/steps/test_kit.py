"""The kit for authors of steps: it accepts correct steps and reports each kind of mistake."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.blocks import Text, ToolResult
from dragoman.hub.events import DELTAS, BlockOpened, ReplyEvent, ReplyFailed, ReplyFinished, TextDelta
from dragoman.hub.request import Message, Request
from dragoman.hub.stage import Stage
from dragoman.providers.profile import TargetFacts
from dragoman.steps.force_reasoning import CLOSE, OPEN, ForceReasoning
from dragoman.steps.kit import find_problems
from dragoman.steps.step import TransformStep

replace = msgspec.structs.replace


def test_a_step_that_changes_nothing_has_no_problems() -> None:
    assert find_problems(TransformStep({})) == []


TEXTS = st.lists(
    st.sampled_from((OPEN, CLOSE, "<reason", "</reasoning_conten", "words", "\n", " ", "<")), max_size=6
)


@given(TEXTS.map("".join))
def test_forced_reasoning_has_no_problems_with_any_text(text: str) -> None:
    assert find_problems(ForceReasoning({}), replies=[[Text(text=text)]]) == []


Change = Callable[[Request], Request]


class RequestStep(TransformStep):
    def __init__(self, change: Change) -> None:
        self._change = change

    def change_request(self, request: Request, target: TargetFacts) -> Request:
        return self._change(request)


class FedStage:
    def __init__(self, feed: Callable[[ReplyEvent], list[ReplyEvent]], unchanged: frozenset[type]) -> None:
        self._feed = feed
        self.unchanged_kinds = unchanged

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        return self._feed(event)


class ReplyStep(TransformStep):
    def __init__(
        self, feed: Callable[[ReplyEvent], list[ReplyEvent]], unchanged: frozenset[type] = frozenset()
    ) -> None:
        self._feed, self._unchanged = feed, unchanged

    def build_stage(self, request: Request, target: TargetFacts) -> Stage:
        return FedStage(self._feed, self._unchanged)


def without_results(request: Request) -> Request:
    messages = (m for m in request.messages if not any(isinstance(b, ToolResult) for b in m.blocks))
    return replace(request, messages=tuple(messages))


def capitalize(event: ReplyEvent) -> list[ReplyEvent]:
    """Depends on the pieces: the first letter of each is changed."""
    return [TextDelta(event.index, event.text.capitalize())] if isinstance(event, TextDelta) else [event]


def first_last(request: Request) -> Request:
    return replace(request, messages=(request.messages[-1], *request.messages[:-1]))


calls = iter(range(1_000_000))


def count(request: Request) -> Request:
    added = Message(role="user", blocks=(Text(text=str(next(calls))),))
    return replace(request, messages=(*request.messages, added))


MISTAKES: dict[str, TransformStep] = {
    "change_request raises ZeroDivisionError": RequestStep(
        lambda request: replace(request, max_tokens=1 // 0)
    ),
    "change_request returns NoneType": RequestStep(lambda request: None),  # type: ignore[arg-type, return-value]  # the mistake
    "different requests for the same request": RequestStep(count),
    "a call without a result: call_1": RequestStep(without_results),
    "begins with other messages": RequestStep(first_last),
    "loses the ending": ReplyStep(lambda event: [] if isinstance(event, ReplyFinished) else [event]),
    "loses the failure": ReplyStep(lambda event: [] if isinstance(event, ReplyFailed) else [event]),
    "breaks the grammar": ReplyStep(lambda event: [] if isinstance(event, BlockOpened) else [event]),
    "depends on how the upstream cuts": ReplyStep(capitalize),
    "is in unchanged_kinds": ReplyStep(capitalize, DELTAS),
}


@pytest.mark.parametrize("problem", MISTAKES)
def test_each_mistake_is_reported(problem: str) -> None:
    assert problem in "\n".join(find_problems(MISTAKES[problem]))
