"""One reply to the doctor, in two forms: as the client received it and as the provider sent it."""

import re

import msgspec

from dragoman.dialects.interfaces import Json, UpstreamContext
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.record import ExchangeRecord
from dragoman.governance.harvest import HarvestStage, families
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.usage import Usage
from dragoman.wire.sse import Frame

#: The dialect of the doctor's requests. It has a field for every feature that the probes test.
DIALECT = "anthropic"

#: Call formats that several families share: the best known name is reported.
_WELL_KNOWN_FAMILIES = (
    *("hermes", "qwen3_coder", "glm", "mistral", "llama3", "llama4"),
    *("kimi_k2", "deepseek_v31", "gpt_oss"),
)
_REASONING_TAG = re.compile(r"\s*(?:<think>|<thought>|\[THINK\]|<seed:think>|◁think▷)")


class ReceivedCall(msgspec.Struct, frozen=True):
    """A tool call as the client received it."""

    id: str
    name: str
    input: Json


class ProbeReply:
    """The reply to one question.

    `message` is the reply in the doctor's dialect. `sent` and `raw` are the request and the reply of the
    provider; `wire` is the provider's dialect.
    """

    def __init__(
        self,
        record: ExchangeRecord,
        frames: list[Frame],
        *,
        sent: bytes,
        raw: bytes,
        content_type: str,
        wire: str,
    ) -> None:
        self.record = record
        self.sent = sent
        self.raw = raw
        self.content_type = content_type
        self._wire = wire
        self.message: Json = dialect_named(DIALECT).collect(frames) if record.failure is None else {}

    @property
    def failure(self) -> Failure | None:
        return self.record.failure

    @property
    def usage(self) -> Usage:
        tally = self.record.tally
        return (tally.usage if tally else None) or Usage()

    @property
    def blocks(self) -> list[Json]:
        content = self.message.get("content")
        return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []

    @property
    def text(self) -> str:
        return "".join(str(block.get("text", "")) for block in self._blocks_of("text"))

    @property
    def thinking(self) -> str:
        blocks = self._blocks_of("thinking", "redacted_thinking")
        return "".join(str(block.get("thinking") or block.get("data", "")) for block in blocks)

    @property
    def calls(self) -> list[ReceivedCall]:
        return [msgspec.convert(block, ReceivedCall) for block in self._blocks_of("tool_use")]

    @property
    def losses(self) -> list[str]:
        """The parts of the request that did not reach the model."""
        return [str(loss) for loss in self.record.losses]

    @property
    def is_whole(self) -> bool:
        """Whether the server answered with one JSON body although a stream was requested."""
        return "json" in self.content_type

    def count_deltas(self) -> int:
        """The number of text and reasoning deltas in the provider's stream."""
        return sum(isinstance(event, TextDelta | ReasoningDelta) for event in self._raw_events())

    def read_raw_arguments(self) -> list[str]:
        """The arguments of each call as the model wrote them, before any repair."""
        arguments: dict[int, str] = {}
        for event in self._raw_events():
            if isinstance(event, BlockOpened) and isinstance(event.block, ToolCall):
                arguments[event.index] = event.block.arguments
            elif isinstance(event, ArgumentsDelta) and event.index in arguments:
                arguments[event.index] += event.text
        return list(arguments.values())

    def read_raw_stop_reason(self) -> str:
        """The stop reason in the provider's own vocabulary; empty if there is none."""
        events = self._raw_events()
        return next((event.raw_cause for event in events if isinstance(event, ReplyFinished)), "")

    def _blocks_of(self, *kinds: str) -> list[Json]:
        return [block for block in self.blocks if block.get("type") in kinds]

    def _raw_events(self) -> list[ReplyEvent]:
        """The provider's reply as events, without governance."""
        dialect = dialect_named(self._wire)
        reader = dialect.stream_reader(UpstreamContext(issuer=self._wire))
        if self.is_whole:
            events = reader.feed_frames(dialect.explode(msgspec.json.decode(self.raw)))
        else:
            events = reader.feed(self.raw)
        return [*events, *reader.close()]


def has_reasoning_tags(text: str) -> bool:
    """Whether reasoning stands in the text, between tags of a known model family."""
    return _REASONING_TAG.match(text) is not None or "</think>" in text


def find_call_family(text: str, tool: dict[str, object]) -> str:
    """The model family in whose format the text contains a call of `tool`; empty if there is no call."""
    schema = tool["input_schema"]
    declared = DeclaredTool(str(tool["name"]), schema if isinstance(schema, dict) else None)
    names = dict.fromkeys((*_WELL_KNOWN_FAMILIES, *families()))
    return next((name for name in names if _contains_call(name, text, declared)), "")


def _contains_call(family: str, text: str, tool: DeclaredTool) -> bool:
    stage = HarvestStage([tool], family=family, ids=IdSource(family), report=lambda intervention: None)
    reply: list[ReplyEvent] = [
        ReplyStarted(),
        BlockOpened(0, Text(text=text)),
        BlockClosed(0),
        ReplyFinished(cause="end"),
    ]
    events = [output for event in reply for output in stage.feed(event)]
    return any(isinstance(event, BlockOpened) and isinstance(event.block, ToolCall) for event in events)
