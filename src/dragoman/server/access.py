"""Who may call: the checks of Host and Origin, which stop pages in a browser, and of the client's key."""

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from urllib.parse import parse_qs

from dragoman.accounts.errors import InvalidKey
from dragoman.accounts.key_cache import ClientKeyCache
from dragoman.accounts.keys import ANONYMOUS, Caller, hash_key
from dragoman.config.settings import ServerSettings, is_loopback
from dragoman.dialects.registry import list_key_headers
from dragoman.hub.errors import ConfigError, DragomanError

#: A host in `Host` and, after the scheme, in `Origin`: a name or an address, and perhaps a port.
_HOST = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\])(?::\d{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(.+)")


#: A header for the client key of a client that needs its other headers for a vendor's credential. Its name
#: does not begin with `x-dragoman-`, because records keep such headers.
KEY_HEADER = "dragoman-key"


class AccessRefused(DragomanError):
    """The caller's host name, page or address may not use this gateway."""

    kind = "permission"
    default_status = 403


def check_exposure(server: ServerSettings, *, has_stored_keys: bool = False) -> None:
    """Raise if other machines could use the gateway without a client key."""
    if not is_loopback(server.host) and not server.keys and not has_stored_keys:
        raise ConfigError(
            f"server.host is {server.host!r}, which others can reach, and there is no client key",
            hint="set server.keys, or make a key: dragoman keys create NAME; or listen on 127.0.0.1",
        )


def check_origin(headers: Mapping[str, str], server: ServerSettings, *, needs_key: bool = False) -> None:
    """Raise if the host name or the origin is unknown.

    A page in a browser can reach loopback under a host name of its own (DNS rebinding). `needs_key`: every
    client must send a key, as with `server.keys`.
    """
    is_guarded = needs_key or bool(server.keys)
    is_any_host = is_guarded and not server.hosts and not is_loopback(server.host)
    if not is_any_host and not _is_known(headers.get("host", ""), server.hosts, server.host):
        raise AccessRefused("this gateway is not served under that host name", hint="add it to server.hosts")
    origin = headers.get("origin")
    if origin is None:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or not _is_known(found[1], server.hosts, server.host):
        raise AccessRefused("pages of that origin may not call this gateway", hint="add it to server.hosts")


def authenticate(
    headers: Mapping[str, str], query: str, server: ServerSettings, client_keys: ClientKeyCache | None = None
) -> Caller:
    """The caller whose client key the request contains. Raises `InvalidKey` if it has none that is valid."""
    has_stored = client_keys is not None and client_keys.has_keys
    if not server.keys and not has_stored and is_loopback(server.host):
        return ANONYMOUS
    digests = [hash_key(key) for key in _list_keys(headers, query)]
    found = _find_configured_caller(digests, server)
    if found is None and client_keys is not None:
        found = client_keys.find_caller(digests)
    if found is None:
        what = "does not know that client key" if digests else "needs a client key"
        raise InvalidKey(f"this gateway {what}", hint="send it as x-api-key or as a bearer token")
    return found


def has_bearer(headers: Mapping[str, str], secret: str) -> bool:
    """Whether the bearer token is the secret. The time that it takes does not depend on the token."""
    return hmac.compare_digest(hash_key(_read_bearer(headers)), hash_key(secret))


def _find_configured_caller(digests: Sequence[bytes], server: ServerSettings) -> Caller | None:
    """The caller whose key is in the configuration."""
    found: Caller | None = None
    # Digests have one length and all are compared, so that the time reveals nothing.
    for number, key in enumerate(server.keys, 1):
        known = hash_key(key.reveal())
        for digest in digests:
            if hmac.compare_digest(digest, known):
                found = Caller(
                    id=f"config-{number}", name=f"server.keys {number}", fingerprint=_build_fingerprint(known)
                )
    return found


def _build_fingerprint(digest: bytes) -> str:
    """An owner id made from the hash of a configured key. It stays the same if the key moves in the file."""
    return f"config-{hash_key(digest.hex()).hex()[:24]}"


def _list_keys(headers: Mapping[str, str], query: str) -> Iterator[str]:
    """All keys in the request. Some clients send two, one of them for another server."""
    in_query = parse_qs(query).get("key", [""])[0]
    in_headers = [headers.get(name, "") for name in (KEY_HEADER, *list_key_headers())]
    for key in (*in_headers, _read_bearer(headers), in_query):
        if key.strip():
            yield key.strip()


def _read_bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


# Bounded, because clients choose the names.
@lru_cache(maxsize=256)
def _is_known(host: str, hosts: tuple[str, ...], own: str) -> bool:
    """Whether the host of a header, perhaps with a port, is this machine or one of the configured ones."""
    name = read_host(host)
    return bool(name) and (is_loopback(name) or name in hosts or name == own.lower())


def read_host(host: str) -> str:
    """The host name without its port, in lower case; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""
