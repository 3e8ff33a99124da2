"""One answer, as the client got it and as the model gave it."""

import msgspec

from dragoman.dialects.base import Json, Source
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.record import Record
from dragoman.hub.content import ToolCall
from dragoman.hub.errors import Failure
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockOpened,
    ReasoningDelta,
    ReplyEvent,
    ReplyFinished,
    TextDelta,
)
from dragoman.hub.usage import Usage

#: The dialect that the doctor speaks: it has a place for everything that is asked about.
DIALECT = "anthropic"


class CallMade(msgspec.Struct, frozen=True):
    """A call as the client got it."""

    id: str
    name: str
    input: Json


class Heard:
    """`message` is the reply in the doctor's dialect; `sent` and `raw` are what went over the wire."""

    def __init__(
        self, record: Record, body: bytes, *, sent: bytes, raw: bytes, content_type: str, wire: str
    ) -> None:
        self.record = record
        self.sent = sent
        self.raw = raw
        self.content_type = content_type
        self._wire = wire
        stream = body if record.failure is None else b""
        self.message: Json = dialect_named(DIALECT).collect(stream) if stream else {}

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
        return "".join(str(block.get("text", "")) for block in self.blocks if block.get("type") == "text")

    @property
    def thinking(self) -> str:
        kinds = ("thinking", "redacted_thinking")
        return "".join(
            str(block.get("thinking") or block.get("data", ""))
            for block in self.blocks
            if block.get("type") in kinds
        )

    @property
    def calls(self) -> list[CallMade]:
        return [msgspec.convert(block, CallMade) for block in self.blocks if block.get("type") == "tool_use"]

    @property
    def ending(self) -> str:
        return str(self.message.get("stop_reason", ""))

    @property
    def losses(self) -> list[str]:
        """What of the question did not reach the model."""
        return [str(loss) for loss in self.record.losses]

    def events(self) -> list[ReplyEvent]:
        """What the model said, before dragoman had a hand in it."""
        dialect = dialect_named(self._wire)
        reader = dialect.stream_reader(Source(issuer=self._wire))
        told = dialect.explode(msgspec.json.decode(self.raw)) if self.is_whole else self.raw
        return [*reader.feed(told), *reader.close()]

    @property
    def is_whole(self) -> bool:
        """The server answered in one piece although it was asked for a stream."""
        return "json" in self.content_type

    def pieces(self) -> int:
        """In how many pieces words and thoughts came."""
        return sum(isinstance(event, TextDelta | ReasoningDelta) for event in self.events())

    def raw_arguments(self) -> list[str]:
        """The arguments of each call, as the model wrote them."""
        written: dict[int, str] = {}
        for event in self.events():
            if isinstance(event, BlockOpened) and isinstance(event.block, ToolCall):
                written[event.index] = event.block.arguments
            elif isinstance(event, ArgumentsDelta) and event.index in written:
                written[event.index] += event.text
        return list(written.values())

    def raw_ending(self) -> str:
        """The model's own word for why it stopped."""
        return next((event.raw_cause for event in self.events() if isinstance(event, ReplyFinished)), "")
