"""A gateway with tools of its own over a scripted model, and what its client and its upstream get."""

from collections.abc import Sequence

import msgspec

from dragoman.config.tools import ToolsSettings
from dragoman.dialects.registry import dialect_named
from dragoman.gateway_tools.tool import GatewayTool, ToolOffer, ToolOutcome, ToolRun, build_function
from dragoman.gateway_tools.toolbox import Toolbox
from dragoman.hub.blocks import Reasoning, Text, ToolCall, ToolResult
from dragoman.hub.events import ReplyEvent, ReplyFinished, ReplyStarted, UsageReported
from dragoman.hub.fold import Reply, unfold
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.hub.usage import Usage
from dragoman.providers.profile import TargetFacts
from dragoman.upstream.port import UpstreamRequest
from tests.exchange.fakes import Bench, ScriptedUpstream

SECRET = "the-hidden-result"
NAME = "look_up"


class LookUp(GatewayTool):
    """A tool that every request gets. It keeps the calls that it ran."""

    def __init__(self, outcome: ToolOutcome | str | Exception = SECRET) -> None:
        self.outcome = outcome
        self.runs: list[ToolRun] = []

    def offer(self, request: Request, target: TargetFacts) -> ToolOffer:
        properties: dict[str, object] = {"query": {"type": "string"}}
        return ToolOffer(functions=(build_function(NAME, "Looks it up.", properties, "query"),))

    async def run(self, run: ToolRun) -> ToolOutcome | str:
        self.runs.append(run)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def use_tools(bench: Bench, settings: ToolsSettings | None = None, **tools: GatewayTool) -> Bench:
    """Give the gateway of a bench tools, by name."""
    bench.gateway.snapshot.toolbox = Toolbox(settings or ToolsSettings(), tools)
    return bench


def events_of_round(
    number: int, blocks: Sequence[Text | Reasoning | ToolCall], usage: Usage
) -> list[ReplyEvent]:
    """One answer of the model."""
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    ending = ReplyFinished(cause="tool_calls" if has_calls else "end")
    started = ReplyStarted(id=f"reply_{number}", model="m")
    return list(unfold(Reply(started=started, blocks=tuple(blocks), usage=usage, ending=ending)))


def read_asked(dialect: str, call: UpstreamRequest) -> Request:
    """A request as the upstream reads it."""
    body = msgspec.json.decode(call.body)
    return dialect_named(dialect).read_request(body, Losses(), model=call.model, stream=call.stream)


def check_history(request: Request) -> None:
    """Fail unless each call has exactly one result, before the assistant goes on."""
    waiting: list[str] = []
    for message in request.messages:
        calls = [block.id for block in message.blocks if isinstance(block, ToolCall)]
        results = [block.call_id for block in message.blocks if isinstance(block, ToolResult)]
        if message.role == "assistant":
            assert not results
            # Each item of the Responses API is a message of its own.
            waiting += calls
        else:
            assert not calls
            for result in results:
                assert result in waiting, (result, waiting)
                waiting.remove(result)
            assert not waiting or results, waiting
    assert not waiting, waiting


def texts_of_results(request: Request) -> list[str]:
    return [
        inner.text
        for message in request.messages
        for block in message.blocks
        if isinstance(block, ToolResult)
        for inner in block.content
        if isinstance(inner, Text)
    ]


__all__ = ["ScriptedUpstream", "UsageReported"]
