"""What is worth remembering of a reply, without its words: for logs, limits and decisions about retries."""

from dragoman.hub.content import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    BlockOpened,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    UsageReported,
)
from dragoman.hub.usage import Usage

#: The events that a tally looks at; deltas are not among them, so the hot path passes by.
TALLY_EVENTS = frozenset({BlockOpened, UsageReported, ReplyStarted, ReplyFinished, ReplyFailed})


class Tally:
    """`has_content`: something of the answer has come, so another upstream can no longer take over unseen."""

    def __init__(self) -> None:
        self.has_content = False
        #: How many calls there were; of a reply that is forwarded unread, not all are seen.
        self.calls = 0
        self.usage: Usage | None = None
        self.started: ReplyStarted | None = None
        self.ending: ReplyFinished | ReplyFailed | None = None

    def add(self, event: ReplyEvent) -> None:
        match event:
            case BlockOpened():
                self.has_content = True
                self.calls += type(event.block) is ToolCall
            case UsageReported():
                self.usage = self.usage.merge(event.usage) if self.usage else event.usage
            case ReplyStarted():
                self.started = event
            case ReplyFinished() | ReplyFailed():
                self.ending = event
            case _:
                pass

    @property
    def failure(self) -> Failure | None:
        return self.ending.failure if isinstance(self.ending, ReplyFailed) else None
