"""The client's own credential, for providers with `auth = "client"`.

It goes to that provider's address with the request that it came with, and nowhere else. It is in no record,
no log line and no error, and nothing stores it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dragoman.accounts.keys import KEY_PREFIX
from dragoman.config.provider import Provider
from dragoman.config.settings import Secret
from dragoman.dialects.registry import dialect_named
from dragoman.exchange.config_snapshot import ProviderHandle
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.pipeline.plan import RequestMetadata
from dragoman.telemetry.redaction import Redactor

_BEARER = "bearer"


class CallCredential(NamedTuple):
    """The client's credential headers for one call, and what removes the secrets of the call from errors."""

    headers: Mapping[str, Secret]
    redactor: Redactor


def find_credential(
    handle: ProviderHandle, metadata: RequestMetadata, gateway_keys: Iterable[Secret]
) -> CallCredential:
    """The client's credential for the provider; without headers for a provider with keys of its own.

    `gateway_keys`: the client keys of the configuration. They, and stored keys, are for the gateway alone.
    Raises `UpstreamFailed` if the provider needs the client's credential and the request has none for it.
    """
    provider = handle.provider
    if not provider.uses_client_credential:
        return CallCredential({}, handle.redactor)
    if provider.wire_dialect != metadata.dialect:
        # The client's credential is for the vendor of its own API, not for this one.
        raise _refuse(provider, "and this client uses another API")
    names = ("authorization", *dialect_named(provider.wire_dialect).http_api.key_headers)
    known = {key.reveal() for key in gateway_keys}
    found = {
        name: Secret(value)
        for name in names
        if (value := metadata.headers.get(name, "").strip()) and not _is_for_gateway(value, known)
    }
    if not found:
        raise _refuse(provider, "and the request has none")
    texts = [text for value in found.values() for text in (value.reveal(), _read_token(value.reveal()))]
    return CallCredential(found, Redactor(provider, texts))


def _is_for_gateway(value: str, known: set[str]) -> bool:
    token = _read_token(value)
    return token in known or token.startswith(KEY_PREFIX)


def _read_token(value: str) -> str:
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == _BEARER else value


def _refuse(provider: Provider, reason: str) -> UpstreamFailed:
    message = f"provider {provider.name} needs the client's own credential, {reason}"
    return UpstreamFailed(
        Failure(kind="authentication", status=401, message=message, code="client_credential_missing")
    )
