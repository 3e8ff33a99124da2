"""The step `force_reasoning`: models without reasoning think in a tag, which becomes reasoning of the reply.

claude-code-router has it as `forcereasoning`. The model is asked to think between two tags at the beginning
of its answer. The text between them is sent to the client as reasoning.
"""

from collections.abc import Mapping

import msgspec

from dragoman.hub.blocks import Reasoning, Text
from dragoman.hub.events import (
    DELTAS,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
)
from dragoman.hub.request import Message, Request
from dragoman.hub.stage import BlockNumbers, Stage
from dragoman.providers.profile import TargetFacts
from dragoman.steps.step import TransformStep

replace = msgspec.structs.replace

OPEN, CLOSE = "<reasoning_content>", "</reasoning_content>"
INSTRUCTION = (
    "Before every answer and before every tool call, think the task through step by step. Write your "
    f"thoughts between {OPEN} and {CLOSE}, at the very beginning of your answer and only there. Then answer."
)


class ForceReasoning(TransformStep):
    """Adds the instruction to the system text. The setting `instruction` replaces it."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        instruction = settings.get("instruction", INSTRUCTION)
        if not isinstance(instruction, str) or set(settings) - {"instruction"}:
            raise ValueError("expected the text `instruction` and nothing else")
        self._instruction = instruction

    def change_request(self, request: Request, target: TargetFacts) -> Request:
        added = Message(role="system", blocks=(Text(text=self._instruction),))
        systems = [each for each in request.messages if each.role in ("system", "developer")]
        place = request.messages.index(systems[0]) + 1 if systems else 0
        messages = (*request.messages[:place], added, *request.messages[place:])
        return replace(request, messages=messages)

    def build_stage(self, request: Request, target: TargetFacts) -> Stage:
        return ReasoningTagStage()


class ReasoningTagStage:
    """Turns the tagged beginning of the first text of a reply into a block of reasoning.

    Text is held back only while it may still be the beginning of a tag. A text block that has nothing but
    the tag is not sent.
    """

    def __init__(self) -> None:
        self._numbers = BlockNumbers()
        #: The number and the block of the first text, and its text that was not sent.
        self._index = -1
        self._block = Text(text="")
        self._text = ""
        #: The number of the block of reasoning while it is open.
        self._reasoning: int | None = None
        #: The end of the tag has come, or there is none.
        self._is_over = False
        #: The text block was sent, or there is none.
        self._is_open = False

    @property
    def unchanged_kinds(self) -> frozenset[type]:
        is_idle = self._is_over and self._is_open and not self._numbers.has_moved
        return DELTAS if is_idle else frozenset()

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        match event:
            case BlockOpened(index, Text() as block) if self._index < 0 and not self._is_over:
                self._index, self._block, self._text = index, replace(block, text=""), block.text
                return self._advance()
            case TextDelta(index, text) if index == self._index and not self._is_open:
                self._text += text
                return self._open_text() if self._is_over else self._advance()
            case BlockClosed(index) if index == self._index and not self._is_open:
                ended, opened = self._end(), self._open_text()
                return [*ended, *opened, self._numbers.renumber(event)] if opened else ended
            case BlockOpened() | ReplyFinished() | ReplyFailed() if not self._is_over:
                # A block of another kind has come first or beside the text, or the reply ends here.
                return [*self._end(), *self._open_text(), self._numbers.renumber(event)]
        return [self._numbers.renumber(event)]

    def _advance(self) -> list[ReplyEvent]:
        """Send what is certain of the text so far."""
        events: list[ReplyEvent] = []
        if self._reasoning is None:
            begun = self._text.lstrip()
            if not begun.startswith(OPEN):
                return [] if OPEN.startswith(begun) else [*self._end(), *self._open_text()]
            self._text = begun[len(OPEN) :]
            self._reasoning = self._numbers.add_block()
            events.append(BlockOpened(self._reasoning, Reasoning(parts=("",), raw=True)))
        thought, tag, rest = self._text.partition(CLOSE)
        kept = 0 if tag else _measure_beginning(thought)
        sent, self._text = thought[: len(thought) - kept], rest if tag else thought[len(thought) - kept :]
        if sent:
            events.append(ReasoningDelta(self._reasoning, sent))
        return [*events, *self._end(), *self._open_text()] if tag else events

    def _end(self) -> list[ReplyEvent]:
        """Close the reasoning. An unfinished beginning of a closing tag belongs to it."""
        self._is_over = True
        if self._reasoning is None:
            return []
        number, self._reasoning = self._reasoning, None
        return [BlockClosed(number)]

    def _open_text(self) -> list[ReplyEvent]:
        """Open the text block once it has text. Line ends directly after the closing tag are dropped."""
        if self._numbers.has_moved:
            self._text = self._text.lstrip("\n")
        if self._is_open or not self._text:
            return []
        text, self._text, self._is_open = self._text, "", True
        opened = self._numbers.renumber(BlockOpened(self._index, self._block))
        return [opened, self._numbers.renumber(TextDelta(self._index, text))]


def _measure_beginning(text: str) -> int:
    """The number of characters at the end of a text that may begin the closing tag."""
    longest = min(len(text), len(CLOSE) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(CLOSE[:size])), 0)
