"""A client's request, made into the request that an upstream of another dialect understands."""

from collections.abc import Mapping

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.registry import dialect_named
from dragoman.fit import fit
from dragoman.governance.interventions import Intervention
from dragoman.governance.settings import Governance
from dragoman.hub.errors import ClientProtocolError, ConfigError, RequestTooLarge
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.request import Request
from dragoman.pipeline.governance import govern_request
from dragoman.providers.profile import Profile, Target, build_target
from dragoman.wire.fields import decode, encode

Body = Mapping[str, object] | bytes | str

#: Vendors stop at 32 MB; requests with many images come near it.
MAX_BODY = 64 * 1024 * 1024


class Translation(msgspec.Struct, frozen=True):
    """A translated body and what it could not carry.

    `model` and `stream` are told beside the body because Gemini says them in the URL.
    """

    body: Json
    losses: tuple[Loss, ...] = ()
    model: str = ""
    stream: bool = False
    #: What governance did, if it was asked for.
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

    `model` and `stream` are what the URL said, for clients of Gemini. `strict` refuses (`LossRefused`)
    instead of recording losses. `governance` may raise the tool choice, or tell the tools in words.
    """
    losses = Losses()
    interventions: list[Intervention] = []
    facts = facts_of(profile, target, source)
    try:
        client_request = read_client_request(body, source, losses, model=model, stream=stream)
        if governance is None or governance.is_off:
            fitted = fit(client_request, facts, losses)
        else:
            known = profile_of(profile, target)
            fitted = govern_request(client_request, governance, known, losses, interventions.append).sent
        translated = dialect_named(target).write_request(fitted, facts, losses)
    except RecursionError:
        raise RequestTooLarge("the request is nested too deeply") from None
    if strict:
        losses.refuse_if_any()
    return Translation(translated, losses.as_tuple(), fitted.model, fitted.stream, tuple(interventions))


def read_client_request(
    body: Body, dialect: str, losses: Losses, *, model: str = "", stream: bool = False
) -> Request:
    """The body as a hub request. The caller's own object stays untouched."""
    return dialect_named(dialect).read_request(fresh_object(body), losses, model=model, stream=stream)


def fresh_object(body: Body) -> Json:
    """A decoded copy that readers may take apart."""
    data = body if isinstance(body, bytes | str) else encode(body)
    value = decode(data, limit=MAX_BODY, depth=0)
    if not isinstance(value, dict):
        raise ClientProtocolError("expected a JSON object as the request body")
    return value


def facts_of(profile: Profile | None, upstream: str, client: str) -> Target:
    """The facts of the upstream, as a client of this dialect meets them."""
    return build_target(profile_of(profile, upstream), client)


def profile_of(profile: Profile | None, upstream: str) -> Profile:
    if profile is None:
        return Profile(dialect=upstream)
    if profile.dialect != upstream:
        raise ConfigError(f"the profile is for dialect {profile.dialect!r}, not {upstream!r}")
    return profile
