"""Running stages on events, checked by the grammar, and cutting the same reply into other pieces."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from dragoman.fit import ClientTraits, build_reply_stages, build_restoration
from dragoman.hub.blocks import ReplyBlock, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
)
from dragoman.hub.fold import Reply, fold
from dragoman.hub.reply_grammar import GrammarChecker
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from tests.fit.building import target_for

PLAIN = ClientTraits(seals_on_calls=True, object_arguments=False)
OBJECTS = ClientTraits(seals_on_calls=True, object_arguments=True)
BARE_CALLS = ClientTraits(seals_on_calls=False, object_arguments=False)
ANTHROPIC = ClientTraits(seals_on_calls=False, object_arguments=True)


def through(stages: Sequence[Stage], events: Sequence[ReplyEvent]) -> list[ReplyEvent]:
    """The events after all stages; the grammar must hold before the first and after each."""
    out = list(events)
    for stage in (None, *stages):
        if stage is not None:
            out = [after for event in out for after in stage.feed(event)]
        checker = GrammarChecker()
        for event in out:
            checker.check(event)
    return out


def stages_for(asked: Request, upstream: str, client: ClientTraits = PLAIN, **facts: object) -> list[Stage]:
    return build_reply_stages(
        build_restoration(asked, target_for(upstream, asked.dialect, **facts)), client=client
    )


def reply_of(*plans: Sequence[ReplyEvent], cause: StopCause = "end") -> list[ReplyEvent]:
    """A whole reply: blocks one after another, as `block` gives them, numbered anew."""
    events: list[ReplyEvent] = [ReplyStarted()]
    for plan in plans:
        events += plan
    return [*events, ReplyFinished(cause=cause)]


def call_block(index: int, call: ToolCall, *pieces: str) -> list[ReplyEvent]:
    return [BlockOpened(index, call), *(ArgumentsDelta(index, piece) for piece in pieces), BlockClosed(index)]


def block(index: int, opened: ReplyBlock, *pieces: str) -> list[ReplyEvent]:
    return [BlockOpened(index, opened), *(TextDelta(index, piece) for piece in pieces), BlockClosed(index)]


def folded(events: Sequence[ReplyEvent]) -> Reply:
    return fold(events)


def calls_in(events: Sequence[ReplyEvent]) -> list[ToolCall]:
    return [block for block in fold(events).blocks if isinstance(block, ToolCall)]


@st.composite
def recut(draw: st.DrawFn, events: Sequence[ReplyEvent]) -> list[ReplyEvent]:
    """The same reply with its text and argument deltas cut otherwise."""
    after: list[ReplyEvent] = []
    for event in joined(events):
        if isinstance(event, TextDelta | ArgumentsDelta):
            cuts = draw(st.lists(st.integers(0, len(event.text)), max_size=4))
            edges = sorted({0, len(event.text), *cuts})
            after += [type(event)(event.index, event.text[a:b]) for a, b in pairwise(edges)]
        else:
            after.append(event)
    return after


def joined(events: Sequence[ReplyEvent]) -> list[ReplyEvent]:
    """The same reply with neighbouring deltas of one block in one piece."""
    after: list[ReplyEvent] = []
    for event in events:
        last = after[-1] if after else None
        if (
            isinstance(event, TextDelta | ArgumentsDelta)
            and isinstance(last, TextDelta | ArgumentsDelta)
            and type(last) is type(event)
            and last.index == event.index
        ):
            after[-1] = type(event)(event.index, last.text + event.text)
        else:
            after.append(event)
    return after
