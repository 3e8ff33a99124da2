"""Builds the events of a reply so that they keep to the grammar, for any input of the upstream.

A stream reader calls a method for everything that it reads. The builder starts the reply once, closes every
block once, ignores deltas for blocks that are not open, makes the stop cause agree with the content, and
ignores everything after the end. A reply that ends without an answer becomes a failure, which the gateway and
clients can retry. The builder also bounds the size of a reply and the number of its blocks.
"""

from collections.abc import Sequence

import msgspec

from dragoman.hub.blocks import (
    Citation,
    Extras,
    Reasoning,
    Refusal,
    ReplyBlock,
    Text,
    TokenLogprob,
    ToolCall,
)
from dragoman.hub.errors import Failure, UpstreamProtocolError
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    CitationAdded,
    DeltaRun,
    FailedEnding,
    ReadEvents,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    ReplyStarted,
    SealAttached,
    StopCause,
    TextDelta,
    TextualDelta,
    UsageReported,
    expand_runs,
)
from dragoman.hub.reply_grammar import BLOCK_DELTAS
from dragoman.hub.seal import Seal
from dragoman.hub.usage import Usage

_TEXT_DELTAS: tuple[type[TextualDelta], ...] = (TextDelta, ReasoningDelta, ArgumentsDelta)
#: The delta that carries text, for each kind of block that accepts one.
_DELTA_OF_BLOCK = {
    kind: delta for kind, accepted in BLOCK_DELTAS.items() for delta in _TEXT_DELTAS if delta in accepted
}


class ReplyBuilder:
    """Collects the events of one reply; `take` and `take_runs` return those since the last call."""

    MAX_CHARACTERS = 256 * 1024 * 1024
    MAX_BLOCKS = 10_000
    #: Tokens with their probabilities. Further ones are left out.
    MAX_LOGPROBS = 200_000

    def __init__(self) -> None:
        self._events: ReadEvents = []
        self._open: dict[int, ReplyBlock] = {}
        #: The delta for text, for each open block that accepts one.
        self._deltas: dict[int, type[TextualDelta]] = {}
        #: The tokens of open texts.
        self._logprobs: dict[int, list[TokenLogprob]] = {}
        self._scored = 0
        self._next = 0
        self._calls = 0
        self._characters = 0
        #: There is something other than reasoning.
        self.has_answer = False
        self.is_started = False
        self.is_ended = False

    def take(self) -> list[ReplyEvent]:
        """The events since the last call."""
        return expand_runs(self.take_runs())

    def take_runs(self) -> ReadEvents:
        """The events since the last call, with runs of deltas as they are."""
        events = self._events
        self._events = []
        return events

    def start(self, started: ReplyStarted | None = None) -> None:
        """Start the reply; later calls do nothing."""
        if not self.is_started and not self.is_ended:
            self.is_started = True
            self._events.append(started or ReplyStarted())

    def open(self, block: ReplyBlock) -> int:
        """Open a block and return its number; -1 if the reply has ended."""
        if self.is_ended:
            return -1
        self.start()
        if self._next >= self.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {self.MAX_BLOCKS} blocks in one reply")
        index = self._next
        self._next += 1
        self._open[index] = block
        delta = _DELTA_OF_BLOCK.get(type(block))
        if delta is not None:
            self._deltas[index] = delta
        if isinstance(block, ToolCall):
            self._calls += 1
            self._characters += len(block.arguments)
            self._check_length()
        if not isinstance(block, Reasoning | Text | Refusal) or (type(block) is not Reasoning and block.text):
            self.has_answer = True
        self._events.append(BlockOpened(index, block))
        return index

    def is_open(self, index: int) -> bool:
        return index in self._open

    def is_text(self, index: int, *others: type[ReplyBlock]) -> bool:
        """Whether this block is an open text, or one of the `others`."""
        return type(self._open.get(index)) in (Text, *others)

    def append(self, index: int, text: str, part: int = 0) -> None:
        """Add text, reasoning or arguments to an open block. Empty text and other blocks are ignored."""
        delta = self._deltas.get(index)
        if delta is None or not text:
            return
        self._characters += len(text)
        if self._characters > self.MAX_CHARACTERS:
            # Compared here too, because a call for each delta costs more than the rest of this method.
            self._check_length()
        if delta is TextDelta:
            self.has_answer = True
        self._events.append(ReasoningDelta(index, text, part) if part else delta(index, text))

    def append_run(self, index: int, texts: list[str], characters: int) -> None:
        """Add several texts to an open block, as so many calls of `append` would. They become one run.

        `characters`: those of all texts.
        """
        delta = self._deltas.get(index)
        if delta is None or self._characters + characters > self.MAX_CHARACTERS:
            for text in texts:
                self.append(index, text)
            return
        self._characters += characters
        if delta is TextDelta and characters:
            self.has_answer = True
        if "" in texts:
            texts = [text for text in texts if text]
        if texts:
            self._events.append(DeltaRun(delta, index, texts))

    def count_text(self, characters: int) -> None:
        """Count characters of open text or reasoning that `append` did not get. It checks the limit next."""
        self._characters += characters

    def _check_length(self) -> None:
        if self._characters > self.MAX_CHARACTERS:
            raise UpstreamProtocolError(f"more than {self.MAX_CHARACTERS} characters in one reply")

    def seal(self, index: int, seal: Seal) -> None:
        """Attach a seal to an open block of a kind that has one."""
        if SealAttached in self._find_accepted(index):
            self._events.append(SealAttached(index, seal))

    def _find_accepted(self, index: int) -> frozenset[type]:
        return BLOCK_DELTAS[type(self._open[index])] if index in self._open else frozenset()

    def cite(self, index: int, citation: Citation) -> None:
        """Add a citation to an open text."""
        if CitationAdded in self._find_accepted(index):
            self._events.append(CitationAdded(index, citation))

    def add_logprobs(self, index: int, tokens: Sequence[TokenLogprob]) -> None:
        """Add tokens of an open text. Other blocks have none."""
        if self.is_text(index) and self._scored < self.MAX_LOGPROBS:
            self._scored += len(tokens)
            self._logprobs.setdefault(index, []).extend(tokens)

    def close(self, index: int, extras: Extras | None = None) -> None:
        if self._open.pop(index, None) is not None:
            self._deltas.pop(index, None)
            tokens = self._logprobs.pop(index, ()) if self._logprobs else ()
            self._events.append(BlockClosed(index, extras or {}, tuple(tokens)))

    def close_all(self) -> None:
        for index in sorted(self._open):
            self.close(index)

    def add_block(self, block: ReplyBlock) -> None:
        """Open and close a block that arrives complete."""
        self.close(self.open(block))

    def report_usage(self, usage: Usage) -> None:
        if not self.is_ended:
            self.start()
            self._events.append(UsageReported(usage))

    def finish(self, finished: ReplyFinished) -> None:
        """End the reply and close its open blocks. A cause that contradicts the content is corrected."""
        if self.is_ended or self.fail_if_unanswered(finished):
            return
        self.start()
        self.close_all()
        self.is_ended = True
        cause = reconcile_cause(finished.cause, has_calls=self._calls > 0)
        if cause != finished.cause:
            finished = msgspec.structs.replace(finished, cause=cause)
        self._events.append(finished)

    def fail_if_unanswered(self, finished: ReplyFinished) -> bool:
        """Fail a reply that ends without an answer. Returns whether it does.

        A reader calls this before it closes blocks at the end: a failed reply leaves them open.
        """
        message = "" if self.is_ended else self._find_defect(finished)
        if message:
            # Clients retry a truncated reply. For `overloaded`, Codex reports a model at capacity and stops.
            self.fail(Failure(kind="server", message=message, status=502), "truncated")
        return bool(message)

    def _find_defect(self, finished: ReplyFinished) -> str:
        """Why the reply is no answer; empty if it is one."""
        if finished.cause == "malformed_call":
            has_open_call = any(type(block) is ToolCall for block in self._open.values())
            # Complete calls let the agent continue. Text alone does not: it may be a part of the call.
            is_defective = has_open_call or not self._calls
            message = MALFORMED_MESSAGE
        else:
            is_defective = not self.has_answer and (
                finished.cause == "other"
                or not finished.raw_cause
                # The reason names calls, and there is not a single block.
                or (finished.cause == "tool_calls" and not self._next)
            )
            message = EMPTY_MESSAGE if finished.raw_cause else UNFINISHED_MESSAGE
        return message.format(finished.raw_cause[:_LONGEST_CAUSE]) if is_defective else ""

    def fail(self, failure: Failure, ending: FailedEnding = "failed") -> None:
        """End the reply with a failure. Open blocks stay open: they are incomplete."""
        if not self.is_ended:
            self.is_ended = True
            self._open.clear()
            self._deltas.clear()
            self._events.append(ReplyFailed(ending, failure))

    def truncate(self) -> None:
        """End a reply whose stream stopped without an ending."""
        self.fail(Failure(kind="overloaded", message=TRUNCATED_MESSAGE, status=502), "truncated")


TRUNCATED_MESSAGE = "the upstream closed the stream before the reply was complete"
UNFINISHED_MESSAGE = "the upstream ended the reply without content and without a finish reason"
EMPTY_MESSAGE = "the upstream ended the reply without content: {}"
MALFORMED_MESSAGE = "the model did not make a valid tool call: {}"

_LONGEST_CAUSE = 100


def reconcile_cause(cause: StopCause, *, has_calls: bool) -> StopCause:
    """Make the cause agree with the content.

    With calls a normal end becomes `tool_calls`; without calls `tool_calls` becomes `end`.
    """
    if has_calls and cause in ("end", "other", "stop_sequence"):
        return "tool_calls"
    if not has_calls and cause == "tool_calls":
        return "end"
    return cause
