"""Who may call: the Host and Origin checks against pages in a browser, and the client's key."""

import hmac
import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qs

from dragoman.accounts.errors import InvalidKey
from dragoman.accounts.key_cache import ClientKeyCache
from dragoman.accounts.keys import ANONYMOUS, Caller, hash_key
from dragoman.config.model import ServerSettings
from dragoman.dialects.registry import DIALECTS
from dragoman.hub.errors import ConfigError, DragomanError

#: A host as it stands in `Host` and, behind the scheme, in `Origin`: a name or address, perhaps a port.
_HOST = re.compile(r"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\])(?::\d{1,5})?")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(.+)")


class NotOurHost(DragomanError):
    kind = "permission"
    default_status = 403


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Who listens on IPv6 sees callers by IPv4 under such an address.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_exposure(server: ServerSettings, *, has_stored_keys: bool = False) -> None:
    """Anything but loopback can be reached by strangers, so it needs a key."""
    if not is_loopback(server.host) and not server.keys and not has_stored_keys:
        raise ConfigError(
            f"server.host is {server.host!r}, which others can reach, and there is no client key",
            hint="set server.keys, or make a key: dragoman keys create NAME; or listen on 127.0.0.1",
        )


def check_origin(headers: Mapping[str, str], server: ServerSettings, *, needs_key: bool = False) -> None:
    """A page in a browser can reach loopback under a name of its own: only names we know are served.

    `needs_key`: whoever calls must show a key, as where `server.keys` are set.
    """
    is_guarded = needs_key or bool(server.keys)
    open_to_all = is_guarded and not server.hosts and not is_loopback(server.host)
    if not open_to_all and not _known(_name(headers.get("host", "")), server):
        raise NotOurHost("this gateway is not served under that host name", hint="add it to server.hosts")
    origin = headers.get("origin")
    if origin is None:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or not _known(_name(found[1]), server):
        raise NotOurHost("pages of that origin may not call this gateway", hint="add it to server.hosts")


def check_key(
    headers: Mapping[str, str], query: str, server: ServerSettings, client_keys: ClientKeyCache | None = None
) -> Caller:
    """Who calls, by the key that they show in any of the places where clients put one."""
    has_stored = client_keys is not None and client_keys.has_keys
    if not server.keys and not has_stored and is_loopback(server.host):
        return ANONYMOUS
    shown = [hash_key(key) for key in _shown(headers, query)]
    found = _configured(shown, server)
    if found is None and client_keys is not None:
        found = client_keys.find_caller(shown)
    if found is None:
        what = "does not know that client key" if shown else "needs a client key"
        raise InvalidKey(f"this gateway {what}", hint="send it as x-api-key or as a bearer token")
    return found


def _configured(shown: Sequence[bytes], server: ServerSettings) -> Caller | None:
    """The caller whose key stands in the configuration."""
    found: Caller | None = None
    # Digests are of one length and all are compared, so that the time taken tells nothing.
    for number, key in enumerate(server.keys, 1):
        known = hash_key(key.reveal())
        for digest in shown:
            if hmac.compare_digest(digest, known):
                found = Caller(
                    id=f"config-{number}", name=f"server.keys {number}", fingerprint=_fingerprint(known)
                )
    return found


def _fingerprint(digest: bytes) -> str:
    """Keys change places in the configuration; what is one's own stays with the key."""
    return f"config-{hash_key(digest.hex()).hex()[:24]}"


def _shown(headers: Mapping[str, str], query: str) -> Iterator[str]:
    """Every key that a client shows; some show two, one of them left over from another server."""
    bearer = bearer_of(headers)
    in_query = parse_qs(query).get("key", [""])[0]
    names = (name for dialect in DIALECTS.values() for name in dialect.surface.key_headers)
    for key in (*(headers.get(name, "") for name in names), bearer, in_query):
        if key.strip():
            yield key.strip()


def bearer_of(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _known(host: str, server: ServerSettings) -> bool:
    return bool(host) and (is_loopback(host) or host in server.hosts or host == server.host.lower())


def _name(host: str) -> str:
    """The name without its port, in lower case; nothing if it is no host at all."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""
