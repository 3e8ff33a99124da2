"""An upstream's reply, streamed or whole, made into the reply that the client understands.

A whole reply takes the same line as a stream, so both say the same.
"""

from collections.abc import Mapping, Sequence

from dragoman.dialects.base import Audience, Json, Source, StreamReader
from dragoman.dialects.registry import dialect_named
from dragoman.fit import ClientTraits, build_reply_stages, build_restoration
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import Governance
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.hub.events import FailedEnding, ReplyFailed
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.hub.stage import Stage
from dragoman.pipeline.governance import GovernedRequest, govern_request
from dragoman.pipeline.line import ReplyLine
from dragoman.pipeline.requests import Body, Translation, facts_of, fresh_object, profile_of
from dragoman.providers.profile import Profile, Target
from dragoman.wire.fields import encode
from dragoman.wire.sse import encode_sse

#: English and code come to about four bytes a token: good enough for a number that is replaced later.
BYTES_PER_TOKEN = 4


class StreamTranslator:
    """Translates one streamed reply: bytes of the upstream's dialect in, bytes of the client's out.

    `source` is the upstream's dialect, `target` the client's. `request` is the client's original body: it
    gives back the names, ids and kinds that the client knows. `profile` must be the one that the request
    was translated with, and so must be `governance`. `created` is the time that dialects which tell the time
    shall tell.
    """

    def __init__(
        self,
        *,
        source: str,
        target: str,
        request: Body | None = None,
        profile: Profile | None = None,
        ids: IdSource | None = None,
        created: int = 0,
        model: str = "",
        governance: Governance | None = None,
    ) -> None:
        data = b"" if request is None else as_bytes(request)
        body = fresh_object(data) if data else {}
        client = dialect_named(target)
        asked = client.read_request(fresh_object(data), Losses(), model=model) if data else None
        self._losses = Losses()
        self._interventions: list[Intervention] = []
        governed = None
        if governance is not None and not governance.is_off and asked is not None:
            known = profile_of(profile, source)
            governed = govern_request(asked, governance, known, Losses(), self._interventions.append)
        ids = ids or IdSource(data)
        self._line = reply_line(
            source,
            target,
            asked,
            body,
            profile=profile,
            ids=ids,
            created=created,
            estimate=len(data) // BYTES_PER_TOKEN,
            losses=self._losses,
            governed=governed,
            governing=governed.stages(ids=ids.branch("governance"), report=self._interventions.append)
            if governed
            else (),
        )
        # The hub knows one answer per reply. A client that asked its own kind of server for several gets
        # them as they come.
        several = asked is not None and (asked.candidates or 1) > 1
        self._forwards = source == target and several and governed is None
        self._closed = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self._losses.as_tuple()

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """What governance has done so far, to the request and to the reply."""
        return tuple(self._interventions)

    @property
    def failure(self) -> Failure | None:
        """Why the reply ended badly, if it did."""
        return self._line.failure

    @property
    def ended(self) -> bool:
        """The reply has had its last word; what the upstream still sends does not matter."""
        return self._closed if self._forwards else self._line.ended

    def feed(self, data: bytes) -> bytes:
        return data if self._forwards else encode_sse(self._line.feed(data))

    def close(self) -> bytes:
        """The upstream is done. Whatever was still open ends now, truthfully."""
        self._closed = True
        return b"" if self._forwards else encode_sse(self._line.close())

    def fail(self, failure: Failure, ending: FailedEnding = "failed") -> bytes:
        """Somebody else ended it: a time limit, a lost connection, a client that left."""
        self._closed = True
        return b"" if self._forwards else encode_sse(self._line.fail(ReplyFailed(ending, failure)))


def reply_line(
    upstream_name: str,
    client_name: str,
    request: Request | None,
    body: Json,
    *,
    profile: Profile | None,
    ids: IdSource,
    created: int,
    estimate: int,
    losses: Losses,
    governed: GovernedRequest | None = None,
    governing: Sequence[Stage] = (),
) -> ReplyLine:
    """The line for one reply to this request, which the client sent as `body`."""
    client = dialect_named(client_name)
    facts = facts_of(governed.profile if governed else profile, upstream_name, client_name)
    model = request.model if request else ""
    traits = ClientTraits(seals_on_calls=client.seals_on_calls, object_arguments=client.object_arguments)
    asked = governed.asked if governed else request
    return ReplyLine(
        reply_reader(upstream_name, asked, facts, ids=ids.branch("upstream"), losses=losses),
        build_reply_stages(
            build_restoration(asked or Request(dialect=client_name, model=""), facts),
            client=traits,
            losses=losses,
        ),
        client.stream_writer(
            Audience(
                upstream=upstream_name,
                request=request,
                body=body,
                model=model,
                ids=ids.branch("client"),
                created=created,
                input_estimate=estimate,
                losses=losses,
            )
        ),
        governing=governing,
    )


def reply_reader(
    upstream: str, asked: Request | None, facts: Target, *, ids: IdSource, losses: Losses
) -> StreamReader:
    """What reads one reply of the upstream's."""
    model = facts.model or (asked.model if asked else "")
    source = Source(issuer=facts.issuer, model=model, ids=ids, losses=losses, request=asked)
    return dialect_named(upstream).stream_reader(source)


def translate_reply(
    body: Body,
    *,
    source: str,
    target: str,
    request: Body | None = None,
    profile: Profile | None = None,
    ids: IdSource | None = None,
    created: int = 0,
    model: str = "",
    governance: Governance | None = None,
) -> Translation:
    """Translate a whole reply body. A reply that failed is raised as `UpstreamFailed`, unless the client's
    dialect has whole bodies for failed replies."""
    translator = StreamTranslator(
        source=source,
        target=target,
        request=request,
        profile=profile,
        ids=ids or IdSource(as_bytes(body)),
        created=created,
        model=model,
        governance=governance,
    )
    if translator._forwards:
        return Translation(fresh_object(body))
    client = dialect_named(target)
    line = translator._line
    frames = line.feed_frames(dialect_named(source).explode(fresh_object(body)))
    translated = client.collect([*frames, *line.close()])
    failure = translator.failure
    if failure is not None and translated == client.write_error(failure):
        raise UpstreamFailed(failure)
    return Translation(translated, translator.losses, interventions=translator.interventions)


def translate_error(
    status: int, headers: Mapping[str, str], body: bytes, *, source: str, target: str
) -> tuple[int, dict[str, str], Json]:
    """An upstream's HTTP error as the status, headers and body that a client of `target` expects."""
    lowered = {name.lower(): value for name, value in headers.items()}
    failure = dialect_named(source).read_error(status, lowered, body)
    client = dialect_named(target)
    return client.error_status(failure), client.error_headers(failure), client.write_error(failure)


def as_bytes(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode("utf-8", "surrogatepass") if isinstance(body, str) else encode(body)
