"""The events a model's reply is made of, whichever dialect it arrived in.

A reply is `ReplyStarted`, then blocks, then exactly one `ReplyFinished` or `ReplyFailed`. Blocks are
numbered in the order they open and may interleave: parallel tool calls do, in OpenAI Chat. A block
opens as a content value that its deltas then extend; kinds without deltas open complete.
"""

from typing import Literal

import msgspec

from dragoman.hub.content import AnyBlock, Citation, Extras
from dragoman.hub.errors import Failure
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

#: Why a reply that reached its end did so. `end`: the model was done.
StopCause = Literal[
    "end",
    "tool_calls",
    "length",
    "stop_sequence",
    "refusal",
    "content_filter",
    "context_window",
    "pause",
    "malformed_call",
    "compaction",
    "other",
]

#: How a reply that did not reach its end went: refused or broken by someone, cut off, or called off.
FailedEnding = Literal["failed", "truncated", "cancelled"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """The root of all events."""


class ReplyStarted(Event, frozen=True, kw_only=True):
    id: str = ""
    model: str = ""
    created: int = 0
    extras: Extras = {}


class BlockOpened(Event, frozen=True):
    index: int
    block: AnyBlock


class TextDelta(Event, frozen=True, gc=False):
    """More text for a `Text` or `Refusal` block."""

    index: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """More thought; a higher `part` begins the next part."""

    index: int
    text: str
    part: int = 0


class ArgumentsDelta(Event, frozen=True, gc=False):
    """More of a call's `arguments`. An empty one says that they have begun, and is never written."""

    index: int
    text: str


class SealAttached(Event, frozen=True):
    index: int
    seal: Seal


class CitationAdded(Event, frozen=True):
    index: int
    citation: Citation


class BlockClosed(Event, frozen=True):
    """The block is whole. `extras` are those that its dialect told only at the end."""

    index: int
    extras: Extras = {}


class UsageReported(Event, frozen=True):
    """Cumulative; the last one wins, field by field."""

    usage: Usage


class ReplyFinished(Event, frozen=True, kw_only=True):
    """`raw_cause` is the upstream's own word; `explanation` the reason given for a refusal.

    `implied`: the upstream said that this is all, but not why, so it may have been broken off itself.
    """

    cause: StopCause
    raw_cause: str = ""
    stop_sequence: str | None = None
    explanation: str = ""
    implied: bool = False
    extras: Extras = {}


class ReplyFailed(Event, frozen=True):
    ending: FailedEnding
    failure: Failure


#: The kinds of event that a long reply is made of.
DELTAS = frozenset({TextDelta, ReasoningDelta, ArgumentsDelta, SealAttached, CitationAdded})

Delta = TextDelta | ReasoningDelta | ArgumentsDelta | SealAttached | CitationAdded
ReplyEvent = (
    ReplyStarted
    | BlockOpened
    | TextDelta
    | ReasoningDelta
    | ArgumentsDelta
    | SealAttached
    | CitationAdded
    | BlockClosed
    | UsageReported
    | ReplyFinished
    | ReplyFailed
)
