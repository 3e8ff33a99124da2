"""What logs, limits and retries need to know about a reply: none of its content."""

from typing import assert_never

from dragoman.hub.blocks import Refusal, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    TextDelta,
    UsageReported,
)
from dragoman.hub.usage import Usage

#: The events that a tally counts. Deltas are not among them, so most events need no call.
TALLY_EVENTS = frozenset({BlockOpened, UsageReported, ReplyStarted, ReplyFinished, ReplyFailed})


class Tally:
    """Facts about one reply. `has_content`: a block opened, so no other target is called after a failure."""

    def __init__(self) -> None:
        self.has_content = False
        #: A block opened in the present round of the reply.
        self.has_round_content = False
        #: All blocks so far are refusals of the model.
        self.is_refusing = False
        #: The number of calls. A reply that is forwarded unread may have more.
        self.calls = 0
        self.usage: Usage | None = None
        self.started: ReplyStarted | None = None
        self.ending: ReplyFinished | ReplyFailed | None = None

    def add(self, event: ReplyEvent) -> None:
        """Count an event of the reply."""
        match event:
            case BlockOpened():
                self.is_refusing = type(event.block) is Refusal and (self.is_refusing or not self.has_content)
                self.has_content = self.has_round_content = True
                self.calls += type(event.block) is ToolCall
            case UsageReported():
                self.usage = self.usage.merge(event.usage) if self.usage else event.usage
            case ReplyStarted():
                self.started = event
            case ReplyFinished() | ReplyFailed():
                self.ending = event
            case TextDelta() | ArgumentsDelta() | ReasoningDelta() | SealAttached() | CitationAdded():
                pass
            case BlockClosed():
                pass
            case _:
                assert_never(event)

    @property
    def failure(self) -> Failure | None:
        return self.ending.failure if isinstance(self.ending, ReplyFailed) else None
