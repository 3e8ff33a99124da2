"""What has to be translated for one ask, for whichever target it goes to. Nothing here waits."""

import msgspec

from dragoman.config.model import Provider, TargetName
from dragoman.dialects.base import Audience, Json, Source
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.ask import Ask
from dragoman.exchange.flows import Flow, ForwardFlow
from dragoman.fit import fit
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.events import ReplyFailed
from dragoman.hub.ids import Ids, digest
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.hub.tally import Tally
from dragoman.providers.profile import target_of
from dragoman.translate.line import ReplyLine
from dragoman.translate.replies import BYTES_PER_TOKEN, reply_line
from dragoman.translate.requests import MAX_BODY
from dragoman.upstream.port import Call
from dragoman.wire.fields import decode, encode


class Journey:
    """One request, read once; calls and flows for each target it is tried on."""

    def __init__(self, ask: Ask, *, created: int = 0) -> None:
        self._ask = ask
        self._created = created
        self._client = dialect_named(ask.dialect)
        self._read_losses = Losses()
        self.request: Request = self._client.read_request(
            self._decoded(), self._read_losses, model=ask.model, stream=ask.stream
        )

    def _decoded(self) -> Json:
        value = decode(self._ask.body, limit=MAX_BODY)
        if not isinstance(value, dict):
            raise ClientProtocolError("expected a JSON object as the request body")
        return value

    @property
    def session(self) -> int:
        """A number that stays the same through a conversation, so that it keeps its key and its caches."""
        headers = self._ask.headers
        for name in ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity"):
            if headers.get(name):
                return int(digest(headers[name], length=8), 16)
        return int(digest(self.request.cache_key or self.request.user, length=8), 16)

    def call(
        self, provider: Provider, target: TargetName, key: int, *, strict: bool
    ) -> tuple[Call, tuple[Loss, ...]]:
        """The request as the target's upstream wants it, and what it cannot carry."""
        headers = self._ask.headers if provider.wire_dialect == self._ask.dialect else {}
        request = self.request
        if self._forwards(provider, target):
            call = Call(
                body=self._ask.body, model=target.model, stream=request.stream, key=key, headers=headers
            )
            return call, ()
        losses = Losses(self._read_losses)
        facts = target_of(provider.profile(target.model), self._ask.dialect)
        fitted = fit(request, facts, losses)
        body = dialect_named(provider.wire_dialect).write_request(fitted, facts, losses)
        if strict:
            losses.refuse_if_any()
        call = Call(body=encode(body), model=target.model, stream=request.stream, key=key, headers=headers)
        return call, losses.as_tuple()

    def flow(self, provider: Provider, target: TargetName, seed: str) -> Flow:
        """The lane for a streamed reply."""
        if self._forwards(provider, target) and not self._ask.as_array:
            reader = self._client.stream_reader(Source(issuer=self._ask.dialect, request=self.request))
            return ForwardFlow(reader, self._client)
        return self._line(provider, target, seed)

    def whole(
        self, body: bytes, provider: Provider, target: TargetName, seed: str
    ) -> tuple[int, bytes, Tally]:
        """A whole reply for the client: status 200 and the body, or another status if it is no reply."""
        upstream = dialect_named(provider.wire_dialect)
        line = self._line(provider, target, seed)
        stream = line.feed(upstream.explode(_object(body))) + line.close()
        if self._forwards(provider, target):
            return (200 if line.tally.failure is None else 502), body, line.tally
        collected = self._client.collect(stream)
        failure = line.tally.failure
        status = 502 if failure is not None and collected == self._client.write_error(failure) else 200
        return status, encode(collected), line.tally

    def failed(self, failed: ReplyFailed) -> bytes:
        """The ending of a stream whose head was sent but which no target ever answered."""
        audience = Audience(request=self.request, body=self._decoded(), model=self.request.model)
        return self._client.stream_writer(audience).write(failed)

    def _line(self, provider: Provider, target: TargetName, seed: str) -> ReplyLine:
        return reply_line(
            provider.wire_dialect,
            self._ask.dialect,
            self.request,
            self._decoded() if self._ask.dialect == "openai_responses" else {},
            profile=provider.profile(target.model),
            ids=Ids(seed),
            created=self._created,
            estimate=len(self._ask.body) // BYTES_PER_TOKEN,
            losses=Losses(),
        )

    def _forwards(self, provider: Provider, target: TargetName) -> bool:
        """Same dialect, same model name and no facts that demand a change: bytes go on as they are."""
        return (
            provider.wire_dialect == self._ask.dialect
            and target.model == self.request.model
            and not provider.models
        )


def _object(body: bytes) -> Json:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    return (
        value if isinstance(value, dict) else {"error": {"message": "the upstream's reply is no JSON object"}}
    )
