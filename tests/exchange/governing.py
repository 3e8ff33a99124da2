"""Replies of a model that misbehaves, in every upstream dialect, and what a client receives."""

from collections.abc import Mapping, Sequence

import msgspec

from dragoman.config.provider import Provider
from dragoman.dialects.interfaces import ClientContext
from dragoman.dialects.registry import dialect_named
from dragoman.governance.settings import read_governance
from dragoman.hub.blocks import Text, ToolCall
from dragoman.hub.events import (
    ArgumentsDelta,
    BlockClosed,
    BlockOpened,
    ReplyEvent,
    ReplyFinished,
    ReplyStarted,
    StopCause,
    TextDelta,
    UsageReported,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.usage import Usage
from dragoman.upstream.port import UpstreamRequest
from tests.cases.essence import Essence, read_essence
from tests.exchange.clock import run
from tests.exchange.fakes import (
    JSON,
    SSE,
    Ask,
    Bench,
    ExchangeResult,
    Script,
    ScriptedUpstream,
    ask,
    provider,
)
from tests.pipeline.asking import asking
from tests.sse import collect_sse, explode_sse, write_sse

Json = dict[str, object]
#: A call, or a text.
Block = tuple[str, str] | str


def events_of(*blocks: Block, cause: StopCause = "end", pieces: int = 1) -> list[ReplyEvent]:
    """A reply of these blocks, each in so many pieces."""
    events: list[ReplyEvent] = [ReplyStarted(id="reply_1", model="m")]
    for index, block in enumerate(blocks):
        if isinstance(block, str):
            events.append(BlockOpened(index, Text(text="")))
            events += [TextDelta(index, piece) for piece in cut(block, pieces)]
        else:
            events.append(BlockOpened(index, ToolCall(id=f"call_{index}abcdefgh", name=block[0])))
            events += [ArgumentsDelta(index, piece) for piece in cut(block[1], pieces)]
        events.append(BlockClosed(index))
    return [*events, UsageReported(Usage(input=10, output=5)), ReplyFinished(cause=cause)]


def cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // pieces))
    return [text[start : start + size] for start in range(0, len(text), size)]


def write_stream(dialect: str, events: Sequence[ReplyEvent]) -> list[bytes]:
    """The events as an upstream of this dialect streams them."""
    writer = dialect_named(dialect).stream_writer(
        ClientContext(upstream="elsewhere", model="m", ids=IdSource("up"))
    )
    return [written for event in events if (written := write_sse(writer, event))]


def script(dialect: str, events: Sequence[ReplyEvent], *, stream: bool = True) -> Script:
    written = write_stream(dialect, events)
    if stream:
        return Script(pieces=written)
    body = msgspec.json.encode(collect_sse(dialect_named(dialect), b"".join(written)))
    return Script(pieces=(body,), headers={"content-type": JSON})


def question(
    dialect: str,
    *,
    tools: Sequence[str] = ("Read",),
    stream: bool = True,
    more: Mapping[str, object] | None = None,
) -> Ask:
    body = asking(dialect, tools=tools) | dict(more or {})
    asked = ask(dialect, stream=stream, model="m")
    if dialect != "gemini":
        body |= {"model": "m", "stream": stream}
    if dialect == "openai_chat" and stream:
        body |= {"stream_options": {"include_usage": True}}
    asked.body = msgspec.json.encode(body)
    return asked


def governed(name: str, dialect: str, values: Mapping[str, object]) -> Provider:
    return msgspec.structs.replace(provider(name, dialect), governance=read_governance(values))


class GovernedReply(msgspec.Struct, frozen=True):
    """What the client received, what the upstream was asked, and what was recorded."""

    essence: Essence
    result: ExchangeResult
    calls: list[UpstreamRequest]

    @property
    def kinds(self) -> list[str]:
        return [noted.intervention.kind for noted in self.result.record.interventions]


def run_governed(
    values: Mapping[str, object],
    *scripts: Script,
    client: str = "anthropic",
    upstream: str = "openai_chat",
    asked: Ask | None = None,
    stream: bool = True,
) -> GovernedReply:
    """Run one exchange under this governance."""
    scripted = ScriptedUpstream(*scripts)
    bench = Bench({"up": scripted}, [governed("up", upstream, values)])
    result = run(bench.run_exchange(asked or question(client, stream=stream)))
    assert result.client.status == 200, result.client.body
    if stream:
        assert result.client.headers["content-type"].startswith(SSE)
        assert dialect_named(client).check_stream(result.client.body) == []
        body = result.client.body
    else:
        body = explode_sse(dialect_named(client), result.client.json())
    return GovernedReply(read_essence(client, body), result, scripted.calls)
