"""What has to be translated for one ask, for whichever target it goes to. Nothing here waits.

A request that its target understands as it is goes on as the bytes it came in, unread but for the model's
name; it is read only when something has to be known or changed.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from dragoman.config.model import Provider, TargetName
from dragoman.dialects.base import Audience, Json, Source
from dragoman.dialects.registry import dialect_named
from dragoman.exchange import chat_usage
from dragoman.exchange.ask import Ask
from dragoman.exchange.flows import ArrayFlow, Flow, ForwardFlow, WrittenFlow
from dragoman.exchange.governor import GovernedFlow, Governor
from dragoman.exchange.outline import outline
from dragoman.fit import fit
from dragoman.governance.interventions import Intervention, Report
from dragoman.governance.settings import Governance
from dragoman.governance.snapshot import Snapshot
from dragoman.hub.content import Text
from dragoman.hub.errors import DragomanError, Failure
from dragoman.hub.events import ReplyFailed
from dragoman.hub.ids import IdSource, digest
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.hub.seal import PREFIX
from dragoman.pipeline.governance import govern_request
from dragoman.pipeline.replies import reply_line
from dragoman.pipeline.requests import fresh_object
from dragoman.providers.profile import Profile, Target, build_target
from dragoman.tokens.families import find_family
from dragoman.tokens.request import estimate_from_samples
from dragoman.upstream.port import UpstreamRequest
from dragoman.wire.fields import encode
from dragoman.wire.sse import SseReader, encode_sse

#: `forward`: the bytes go on. `rename`: all but the model's name does. `write`: the request is written anew.
Lane = Literal["forward", "rename", "write"]

#: Where agents name their session, so that it keeps its key and its caches.
SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-session-affinity")

#: Dialects that tell a number where the upstream has told none.
_TELLS_GUESSES = ("anthropic", "openai_chat")

#: How envelopes of ours begin, plain or in base64: a history with one in it has to change.
_ENVELOPE = PREFIX.encode()
_GEMINI_ENVELOPE = b"ZGdtMS"


class Glance(msgspec.Struct):
    """What a request says first. Anything of the wrong type is left to the reader to complain about."""

    model: object = ""
    stream: object = False
    stream_options: object = None


_glance = msgspec.json.Decoder(Glance).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


_UNGOVERNED = Governance()


def _untold(intervention: Intervention) -> None:
    """Nobody wants to know."""


class Journey:
    """One ask and the ways it can take. `clock` tells the date, `timer` how long something takes."""

    def __init__(
        self, ask: Ask, *, clock: Callable[[], float], timer: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.ask = ask
        self.clock = clock
        self.timer = timer
        self.body = ask.take_body()
        self.model, self.stream = ask.model, ask.stream
        self._request: Request | None = None
        self._unreadable: DragomanError | None = None
        self.read_losses = Losses()
        #: The client wants to know nothing of the tokens that its stream took; others do.
        self.hides_usage = False
        if ask.dialect != "gemini" and not ask.is_glanced:
            self._glance()

    def _glance(self) -> None:
        try:
            glance = _glance(self.body)
        except (ValueError, RecursionError):
            glance = Glance(model=None)
        if isinstance(glance.model, str) and isinstance(glance.stream, bool):
            self.model, self.stream = glance.model, glance.stream
        else:
            self.model, self.stream = self.request.model, self.request.stream
        is_chat = self.ask.dialect == "openai_chat"
        self.hides_usage = is_chat and self.stream and not chat_usage.is_asked(glance.stream_options)

    @property
    def request(self) -> Request:
        """The request in the hub's words. Raises what is wrong with it, every time."""
        if self._unreadable is not None:
            raise self._unreadable
        if self._request is None:
            try:
                self._request = dialect_named(self.ask.dialect).read_request(
                    fresh_object(self.body), self.read_losses, model=self.ask.model, stream=self.ask.stream
                )
            except DragomanError as error:
                self._unreadable = error
                raise
        return self._request

    def session(self) -> int:
        """A number that stays the same through a conversation."""
        headers = self.ask.headers
        for name in SESSION_HEADERS:
            if headers.get(name):
                return int(digest(headers[name], length=8), 16)
        try:
            request = self.request
        except DragomanError:
            # Whether it can be sent at all is decided elsewhere.
            return 0
        return int(digest(request.cache_key or request.user or _opening(request), length=8), 16)

    def leg(
        self,
        provider: Provider,
        target: TargetName,
        *,
        strict: bool,
        governance: Governance = _UNGOVERNED,
        report: Report = _untold,
    ) -> "Leg":
        """The way to one target. Raises if the request cannot go there."""
        dialect = self.ask.dialect
        # An envelope of ours means nothing to anybody else.
        is_own = provider.wire_dialect == dialect and not self.ask.assembled and not self._has_envelope()
        if not governance.is_off:
            return self._governed(provider, target, governance, report, strict=strict, is_own=is_own)
        if is_own and target.model == self.model and not provider.has_stated_facts(target.model):
            return Leg(self, provider, target, self._asking(self.body), "forward")
        profile = provider.build_profile(target.model)
        facts = build_target(profile, dialect)
        losses = Losses(self.read_losses)
        request = self.request
        fitted = fit(request, facts, losses)
        body, lane = self._sent(fitted, facts, losses, is_own=is_own, strict=strict)
        lost = losses.as_tuple() if lane == "write" else ()
        return Leg(self, provider, target, body, lane, profile, lost)

    def _governed(
        self,
        provider: Provider,
        target: TargetName,
        governance: Governance,
        report: Report,
        *,
        strict: bool,
        is_own: bool,
    ) -> "Leg":
        """The way under governance: whatever becomes of the request, its reply is read and written."""
        profile = provider.build_profile(target.model)
        losses = Losses(self.read_losses)
        governed = govern_request(self.request, governance, profile, losses, report)
        dialect = self.ask.dialect
        governor = Governor(
            governed, client=dialect, seed=self.ask.request_id, report=report, timer=self.timer
        )
        body, lane = self._sent(governed.sent, governor.facts, losses, is_own=is_own, strict=strict)
        lost = losses.as_tuple() if lane == "write" else ()
        return Leg(self, provider, target, body, "write", profile, lost, governor)

    def _sent(
        self, fitted: Request, facts: Target, losses: Losses, *, is_own: bool, strict: bool
    ) -> tuple[bytes, Lane]:
        """The fitted request as bytes: the client's own, if nothing changed that they say."""
        request = self.request
        if is_own and msgspec.structs.replace(fitted, model=request.model) == request:
            if fitted.model == self.model:
                return self._asking(self.body, facts), "forward"
            # Gemini's name stands in the address, not in the body.
            is_said = self.ask.dialect != "gemini"
            body = renamed(self.body, fitted.model) if is_said else self.body
            return self._asking(body, facts), "rename"
        written = self.written(fitted, facts, losses)
        if strict:
            losses.refuse_if_any()
        return written, "write"

    def written(self, fitted: Request, facts: Target, losses: Losses) -> bytes:
        """A request in the words of its target."""
        body = encode(dialect_named(facts.dialect).write_request(fitted, facts, losses))
        return self._asking(body, facts) if facts.dialect == self.ask.dialect else body

    def _asking(self, body: bytes, facts: Target | None = None) -> bytes:
        """A request of the client's own dialect, which also asks for what we want to know."""
        is_understood = facts is None or facts.stream_usage
        return chat_usage.asking(body) if self.hides_usage and is_understood else body

    def _has_envelope(self) -> bool:
        return (_GEMINI_ENVELOPE if self.ask.dialect == "gemini" else _ENVELOPE) in self.body

    def forget(self) -> None:
        self.body = b""
        self._request = None

    def failed(self, failure: Failure) -> bytes:
        """The ending of a stream whose head was sent but which no target ever answered."""
        audience = Audience(model=self.model, created=int(self.clock()), ids=IdSource(self.ask.request_id))
        writer = dialect_named(self.ask.dialect).stream_writer(audience)
        return encode_sse(writer.write(ReplyFailed("failed", failure)))


class WholeReply:
    """A whole reply for the client, made of an upstream's, or of several if it is asked again.

    A failed one has its failure in the tally, and no body worth sending.
    """

    def __init__(self, flow: Flow, *, upstream: str, client: str, forwards: bool) -> None:
        self._flow = flow
        self._upstream = dialect_named(upstream)
        self._client = dialect_named(client)
        self._forwards = forwards
        self._body = b""
        self._stream: list[bytes] = []
        self.tally = flow.tally

    def feed(self, body: bytes, content_type: str) -> None:
        """What the upstream said."""
        is_stream = "event-stream" in content_type
        if self._forwards and not is_stream:
            self._body = body
        told = body if is_stream else encode_sse(self._upstream.explode(_object(body)))
        self._stream.append(self._flow.feed(told))
        if not self._flow.over:
            self._stream.append(self._flow.close())

    def go_on(self) -> None:
        self._flow.go_on()

    def body(self) -> bytes:
        return self._body or encode(self._client.collect(SseReader().feed(b"".join(self._stream))))


class Leg:
    """One ask on its way to one target: what to send there, and how to read what comes back."""

    def __init__(
        self,
        journey: Journey,
        provider: Provider,
        target: TargetName,
        body: bytes,
        lane: Lane,
        profile: Profile | None = None,
        losses: tuple[Loss, ...] = (),
        governor: Governor | None = None,
    ) -> None:
        self._journey = journey
        self.provider = provider
        self.target = target
        self._body = body
        self.lane = lane
        self._profile = profile
        self.losses = losses
        self.reply_losses = Losses()
        self._governor = governor

    @property
    def waits(self) -> bool:
        """Whether the model is to be asked again before its reply can go on."""
        return self._governor is not None and self._governor.waits

    @property
    def snapshot(self) -> Snapshot | None:
        """What the reply said before governance and after it, if somebody wants to see that."""
        return self._governor.snapshot if self._governor else None

    @property
    def limits_holding(self) -> bool:
        """Whether something may have to go because it has been held for too long."""
        return self._governor is not None and self._governor.limits_time

    def next_call(self, key: int) -> UpstreamRequest:
        """The call that asks what is to be asked while it waits."""
        body = self._body
        if self._governor is not None:
            body = self._journey.written(self._governor.next_request(), self._governor.facts, Losses())
        return self._call(body, key)

    def call(self, key: int) -> UpstreamRequest:
        """The call that goes out with the provider's `key`-th key."""
        return self._call(self._body, key)

    def _call(self, body: bytes, key: int) -> UpstreamRequest:
        ask = self._journey.ask
        is_own = self.provider.wire_dialect == ask.dialect or self.provider.dialect == "claude_code"
        headers: Mapping[str, str] = ask.headers if is_own else {}
        return UpstreamRequest(
            body=body,
            model=self.target.model,
            stream=self._journey.stream,
            key=key,
            headers=headers,
            caller=ask.caller.owner,
        )

    def flow(self, content_type: str) -> Flow:
        """The lane of a streamed reply. What comes as something else than a stream is made into one."""
        forwards = "event-stream" in content_type and self._forwards_reply()
        flow = self._forwarded() if forwards else self._written()
        return ArrayFlow(flow) if self._journey.ask.as_array else flow

    def whole(self) -> WholeReply:
        forwards = self._forwards_reply()
        flow = self._forwarded() if forwards else self._written()
        return WholeReply(
            flow, upstream=self.provider.wire_dialect, client=self._journey.ask.dialect, forwards=forwards
        )

    def forget(self) -> None:
        """The reply has begun: nothing will be sent again, so the request need not be kept."""
        self._body = b""
        self._journey.forget()

    def _forwards_reply(self) -> bool:
        if self.lane == "forward":
            return True
        # The hub knows one answer per reply; whoever asked for several gets them as they come.
        return self.lane == "rename" and (self._journey.request.candidates or 1) > 1

    def _forwarded(self) -> Flow:
        dialect = dialect_named(self._journey.ask.dialect)
        source = Source(issuer=dialect.name, losses=self.reply_losses)
        return ForwardFlow(dialect.stream_reader(source), dialect, hides_usage=self._journey.hides_usage)

    def _written(self) -> Flow:
        journey, governor = self._journey, self._governor
        ask = journey.ask
        line = reply_line(
            self.provider.wire_dialect,
            ask.dialect,
            outline(journey.request, seals=ask.seals),
            fresh_object(journey.body) if ask.dialect == "openai_responses" else {},
            profile=self._profile or self.provider.build_profile(self.target.model),
            ids=IdSource(ask.request_id),
            created=int(journey.clock()),
            estimate=self._estimate(),
            losses=self.reply_losses,
            governed=governor.governed if governor else None,
            governing=governor.begin(streams=journey.stream) if governor else (),
        )
        return GovernedFlow(line, governor, self.reply_losses) if governor else WrittenFlow(line)

    def _estimate(self) -> int:
        """The prompt's tokens, for replies that tell them before the upstream does, or if it never does."""
        upstream = self.provider.wire_dialect
        if upstream == "anthropic" or self._journey.ask.dialect not in _TELLS_GUESSES:
            return 0
        return estimate_from_samples(self._journey.request, find_family(self.target.model, upstream))


def renamed(body: bytes, model: str) -> bytes:
    """The request for another model; every other byte of every value stays as it was."""
    members = _members(body)
    return msgspec.json.encode({**members, "model": model})


def _opening(request: Request) -> str:
    """What the user said first: the same in every request of a conversation, and in few others."""
    turn = next((turn for turn in request.turns if turn.role == "user"), None)
    texts = (block.text for block in turn.blocks if isinstance(block, Text)) if turn else ()
    return "\n".join(texts)


def _object(body: bytes) -> Json:
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    return {"error": {"message": "the upstream's reply is no JSON object"}}
