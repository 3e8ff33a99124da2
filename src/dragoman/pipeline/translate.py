"""The library: requests, replies and errors from any dialect into any other.

`translate_request` for what goes to a model, `translate_reply` and `StreamTranslator` for what comes back,
`translate_error` for an upstream's HTTP error. The gateway uses the same parts (`plan`, `reply`), so both
translate alike.
"""

from collections.abc import Mapping

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.registry import dialect_named
from dragoman.dialects.request_rules import check_rules
from dragoman.fit import fit
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import Governance
from dragoman.hub.errors import ConfigError, Failure, RequestTooLarge, UpstreamFailed
from dragoman.hub.events import FailedEnding, ReplyFailed
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Loss, Losses
from dragoman.pipeline.bodies import Body, encode_body, read_object
from dragoman.pipeline.governance import find_governed_target, govern_request
from dragoman.pipeline.refused_fields import remove_fields
from dragoman.pipeline.reply import build_translated_reply
from dragoman.pipeline.rounds import GovernanceRounds
from dragoman.providers.profile import Profile, build_target_facts
from dragoman.wire.fields import encode
from dragoman.wire.sse import Frame, encode_sse

#: English text and code have about four bytes per token. Upstreams report the true number later.
BYTES_PER_TOKEN = 4


class Translation(msgspec.Struct, frozen=True):
    """A translated body and its losses.

    `model` and `stream` are given beside the body because Gemini has them in the URL.
    """

    body: Json
    losses: tuple[Loss, ...] = ()
    model: str = ""
    stream: bool = False
    #: What governance changed, if it is on.
    interventions: tuple[Intervention, ...] = ()


def translate_request(
    body: Body,
    *,
    source: str,
    target: str,
    profile: Profile | None = None,
    strict: bool = False,
    model: str = "",
    stream: bool = False,
    governance: Governance | None = None,
) -> Translation:
    """Translate a request body from the client's dialect `source` to the upstream's dialect `target`.

    `model` and `stream` are those of the URL, for clients of Gemini. `strict` raises `LossRefused` instead
    of recording losses. `governance` may change the tool choice or describe the tools as text.
    """
    losses = Losses()
    interventions: tuple[Intervention, ...] = ()
    profile = _check_profile(profile, target)
    facts = build_target_facts(profile, source)
    try:
        request = dialect_named(source).read_request(read_object(body), losses, model=model, stream=stream)
        if source != target:
            check_rules(request, dialect_named(source).request_rules)
        if governance is None or governance.is_off:
            fitted = fit(request, facts, losses)
        else:
            target_settings = find_governed_target(governance, profile, source)
            governed = govern_request(request, target_settings, losses)
            fitted, interventions = governed.sent, governed.interventions
        translated = dialect_named(target).write_request(fitted, facts, losses)
        if facts.refused_fields:
            translated = read_object(remove_fields(encode(translated), facts.refused_fields, losses))
    except RecursionError:
        raise RequestTooLarge("the request is nested too deeply") from None
    if strict:
        losses.refuse_if_any()
    return Translation(translated, losses.as_tuple(), fitted.model, fitted.stream, interventions)


class StreamTranslator:
    """Translates one streamed reply: bytes of the upstream's dialect in, bytes of the client's dialect out.

    `source` is the upstream's dialect, `target` the client's. `request` is the client's original body: from
    it come the names, ids and kinds that the client knows. `profile` and `governance` must be those of the
    request's translation. `created` is the time for dialects whose replies contain one. `streams` is false
    for a whole reply, as `translate_reply` feeds it: governance then holds calls at no cost.
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
        streams: bool = True,
    ) -> None:
        data = b"" if request is None else encode_body(request)
        body = read_object(data) if data else {}
        client = dialect_named(target)
        asked = client.read_request(read_object(data), Losses(), model=model) if data else None
        profile = _check_profile(profile, source)
        self._losses = Losses()
        self._interventions: list[Intervention] = []
        governed = None
        if governance is not None and not governance.is_off and asked is not None:
            governed = govern_request(asked, find_governed_target(governance, profile, target), Losses())
            self._interventions += governed.interventions
        ids = ids or IdSource(data)
        facts = governed.target.facts if governed else build_target_facts(profile, target)
        rounds = None
        if governed is not None:
            rounds = GovernanceRounds(
                governed,
                facts,
                ids=ids,
                losses=self._losses,
                report=self._interventions.append,
                timer=None,
                streams=streams,
                can_retry=False,
            )
        self._reply = build_translated_reply(
            target,
            asked,
            body,
            facts,
            ids=ids,
            created=created,
            input_estimate=len(data) // BYTES_PER_TOKEN,
            losses=self._losses,
            governed=governed,
            rounds=rounds,
        )
        # The hub has one answer per reply. A client that asked a server of its own dialect for several
        # answers gets them unchanged.
        has_several = asked is not None and (asked.candidates or 1) > 1
        self.is_forwarded = source == target and has_several and governed is None
        self._is_closed = False

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self._losses.as_tuple()

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """What governance changed, if it is on."""
        return tuple(self._interventions)

    @property
    def failure(self) -> Failure | None:
        """Why the reply failed, if it did."""
        return self._reply.tally.failure

    @property
    def ended(self) -> bool:
        """Whether the reply has its ending. Later bytes of the upstream are ignored."""
        return self._is_closed if self.is_forwarded else self._reply.is_ended

    def feed(self, data: bytes) -> bytes:
        return data if self.is_forwarded else encode_sse(self._reply.feed(data))

    def close(self) -> bytes:
        """Return the rest at the upstream's end, with a truncated ending if there was none."""
        self._is_closed = True
        return b"" if self.is_forwarded else encode_sse(self._reply.close())

    def fail(self, failure: Failure, ending: FailedEnding = "failed") -> bytes:
        """End the reply for another reason: a time limit, a lost connection, a client that left."""
        self._is_closed = True
        return b"" if self.is_forwarded else encode_sse(self._reply.fail(ReplyFailed(ending, failure)))

    def translate_whole(self, frames: tuple[Frame, ...]) -> list[Frame]:
        """Translate the frames of a whole reply and end it. Returns the client's frames."""
        return [*self._reply.feed_frames(frames), *self._reply.close()]


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
    """Translate a whole reply body. The arguments are those of `StreamTranslator`.

    A failed reply is raised as `UpstreamFailed`, unless the client's dialect has whole bodies for those.
    """
    translator = StreamTranslator(
        source=source,
        target=target,
        request=request,
        profile=profile,
        ids=ids or IdSource(encode_body(body)),
        created=created,
        model=model,
        governance=governance,
        streams=False,
    )
    if translator.is_forwarded:
        return Translation(read_object(body))
    client = dialect_named(target)
    frames = translator.translate_whole(dialect_named(source).explode(read_object(body)))
    translated = client.collect(frames)
    failure = translator.failure
    if failure is not None and translated.keys() == client.write_error(failure).keys():
        raise UpstreamFailed(failure)
    return Translation(translated, translator.losses, interventions=translator.interventions)


def translate_error(
    status: int, headers: Mapping[str, str], body: bytes, *, source: str, target: str
) -> tuple[int, dict[str, str], Json]:
    """Translate an upstream's HTTP error to the status, headers and body for a client of `target`."""
    lowered = {name.lower(): value for name, value in headers.items()}
    failure = dialect_named(source).read_error(status, lowered, body)
    client = dialect_named(target)
    return client.error_status(failure), client.error_headers(failure), client.write_error(failure)


def _check_profile(profile: Profile | None, upstream: str) -> Profile:
    if profile is None:
        return Profile(dialect=upstream)
    if profile.dialect != upstream:
        raise ConfigError(f"the profile is for dialect {profile.dialect!r}, not {upstream!r}")
    return profile
