"""A gateway that records, with scripted upstreams, and a conversation of an agent."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from dragoman.accounts.keys import ANONYMOUS, Caller
from dragoman.config.config import Config, Route
from dragoman.config.provider import TargetName
from dragoman.config.settings import RecordLevel, RecordSettings
from dragoman.exchange.exchange import Exchange
from dragoman.exchange.gateway import Gateway
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.records.recorder import Recorder
from dragoman.records.store import open_records
from tests.exchange.fakes import RememberingClient, Script, ScriptedUpstream, provider
from tests.exchange.sample_replies import CHAT_STREAM

CLAUDE = {
    "user-agent": "claude-cli/2.1.0 (external, cli)",
    "x-claude-code-session-id": "session-1",
    "x-api-key": "sk-ant-not-to-be-stored-0001",
    "authorization": "Bearer not-to-be-stored-0002",
}

Result = TypeVar("Result")
Message = Mapping[str, object]


def ask(messages: Sequence[Message], **members: object) -> bytes:
    """A request of the Anthropic API, as compact JSON."""
    body = {"model": "m", "max_tokens": 10, "stream": True, "messages": messages, **members}
    return msgspec.json.encode(body)


class RecordedGateway:
    """A gateway whose records are in `folder`. Times are those of the event loop's clock."""

    def __init__(
        self,
        folder: Path,
        *scripts: Script,
        settings: RecordSettings | None = None,
        dialect: str = "openai_chat",
        route_level: RecordLevel | None = None,
        relays: bool = False,
        clock: Callable[[], float] = lambda: 1_800_000_000.0,
    ) -> None:
        self.upstream = ScriptedUpstream(*(scripts or (Script(pieces=CHAT_STREAM),)))
        target = (TargetName("up", "*"),)
        upstream = provider("up", dialect, keys=() if relays else ("provider-key-0001",))
        upstream = msgspec.structs.replace(upstream, auth="client" if relays else "key")
        self.config = Config(
            providers={"up": upstream},
            routes=(Route(match="*", targets=target, record=route_level),),
            records=settings or RecordSettings(record="bodies"),
        )
        self.gateway = Gateway(self.config, upstreams={"up": self.upstream}, clock=clock)
        self.file = folder / "records.db"
        self.recorder = Recorder(self.file, lambda: self.config, clock)
        self.gateway.recorder = self.recorder
        self.gateway.observers.append(self.recorder.record_exchange)
        self._count = 0

    async def send(
        self,
        body: bytes,
        *,
        headers: Mapping[str, str] = CLAUDE,
        dialect: str = "anthropic",
        caller: Caller = ANONYMOUS,
        client: RememberingClient | None = None,
    ) -> RememberingClient:
        self._count += 1
        metadata = RequestMetadata(dialect=dialect, headers=headers, request_id=f"req_{self._count}")
        client = client or RememberingClient()
        await Exchange(self.gateway, RequestPlan(metadata, body), client, caller).run()
        return client

    def read(self, work: Callable[..., Result], *values: object, **named: object) -> Result:
        return open_records(self.file, lambda connection: work(connection, *values, **named))
