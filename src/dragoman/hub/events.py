"""The events that a reply consists of, in every dialect.

A reply is `ReplyStarted`, then blocks, then exactly one `ReplyFinished` or `ReplyFailed`; `hub.reply_grammar`
has the exact rules. Blocks are numbered in the order in which they open, and may interleave: parallel tool
calls do so in OpenAI Chat. A block opens with a block value that its deltas extend; kinds without deltas open
complete.

`ReplyEvent` is a closed union. Code that handles every event matches on it and ends in `assert_never`, or has
a table of handlers whose keys a test compares with `EVENT_KINDS`.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, final, get_args

import msgspec

from dragoman.hub.blocks import Citation, Extras, ReplyBlock, TokenLogprob
from dragoman.hub.errors import Failure
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

#: Why a reply ended that reached its end. `end`: the model was done. `malformed_call`: it made a call that
#: is not valid.
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

#: Why a reply ended that did not reach its end: an error, a stream that stopped, or a cancelled request.
FailedEnding = Literal["failed", "truncated", "cancelled"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """The base of all events."""


class ReplyStarted(Event, frozen=True, kw_only=True):
    """The first event of a reply, with the upstream's id and model."""

    id: str = ""
    model: str = ""
    created: int = 0
    extras: Extras = {}


class BlockOpened(Event, frozen=True):
    """A block begins; `index` is its number."""

    index: int
    block: ReplyBlock


class TextDelta(Event, frozen=True, gc=False):
    """More text for a `Text` or `Refusal` block."""

    index: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """More reasoning; a higher `part` begins the next part."""

    index: int
    text: str
    part: int = 0


class ArgumentsDelta(Event, frozen=True, gc=False):
    """More of the `arguments` of a call. An empty one marks their beginning and is never written."""

    index: int
    text: str


class SealAttached(Event, frozen=True):
    """The seal of an open block."""

    index: int
    seal: Seal


class CitationAdded(Event, frozen=True):
    """A citation of an open `Text` block."""

    index: int
    citation: Citation


class BlockClosed(Event, frozen=True):
    """The block is complete. `extras` are those that its dialect sends only at the end.

    `logprobs`: the tokens of a `Text` block, if the client asked for them.
    """

    index: int
    extras: Extras = {}
    logprobs: tuple[TokenLogprob, ...] = ()


class UsageReported(Event, frozen=True):
    """Token counts. Cumulative: the last report wins, field by field."""

    usage: Usage


class ReplyFinished(Event, frozen=True, kw_only=True):
    """The reply reached its end. `raw_cause`: the upstream's own name of the cause.

    `explanation`: the reason that the upstream gives for a refusal. `implied`: the upstream ended the reply
    without a cause, so it may be incomplete.
    """

    cause: StopCause
    raw_cause: str = ""
    stop_sequence: str | None = None
    explanation: str = ""
    implied: bool = False
    extras: Extras = {}


class ReplyFailed(Event, frozen=True):
    """The reply did not reach its end. Open blocks stay open: they are incomplete."""

    ending: FailedEnding
    failure: Failure


Delta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta | SealAttached | CitationAdded
ReplyEvent: TypeAlias = (
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

#: The deltas that consist of a text.
TextualDelta: TypeAlias = TextDelta | ReasoningDelta | ArgumentsDelta

#: The kinds of event that extend an open block. Most events of a long reply are deltas.
DELTAS: frozenset[type] = frozenset(get_args(Delta))
#: All kinds of event.
EVENT_KINDS: frozenset[type] = frozenset(get_args(ReplyEvent))
#: The kinds of event that are about the reply and not about a block.
REPLY_KINDS: frozenset[type] = EVENT_KINDS - DELTAS - {BlockOpened, BlockClosed}
#: Those that do not end it.
REPLY_NOTES: frozenset[type] = REPLY_KINDS - {ReplyFinished, ReplyFailed}


def count_characters(texts: Sequence[str]) -> int:
    """The characters of all texts. To join them takes less time than to add their lengths up."""
    return len("".join(texts))


@final
class DeltaRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive deltas of one kind for one block: `texts` has the text of each, and none is empty.

    A reader gives a run instead of events if many similar chunks arrive together: it is cheaper to read,
    check and write. It means the same as the events of `expand`.
    """

    kind: type[TextualDelta]
    index: int
    texts: list[str]

    @property
    def characters(self) -> int:
        """Those of all texts."""
        return count_characters(self.texts)

    def expand(self) -> list[ReplyEvent]:
        kind, index = self.kind, self.index
        return [kind(index, text) for text in self.texts]


#: What a reader has read: events, some of them as runs.
ReadEvents: TypeAlias = list[ReplyEvent | DeltaRun]


def expand_runs(events: ReadEvents) -> list[ReplyEvent]:
    """The events, with each run as its single deltas."""
    expanded: list[ReplyEvent] = []
    for event in events:
        if isinstance(event, DeltaRun):
            expanded += event.expand()
        else:
            expanded.append(event)
    return expanded
