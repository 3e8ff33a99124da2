"""A small HTTP client for the web tools: one request, a bounded answer, and a check of the address.

Each request opens a connection of its own: searches and pages are rare, and mostly at different servers.
"""

import asyncio
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from dragoman.gateway_tools.tool import ToolFailed
from dragoman.hub.errors import ConfigError, Failure, UpstreamFailed
from dragoman.upstream.http.connection import HttpConnection
from dragoman.upstream.http.connector import AddressRefused, Connector, read_origin
from dragoman.upstream.http.upstream import DecompressedReply

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: Characters that stay as they are in a path and in a query. `%` begins one that is already encoded.
_PATH = "/%:@!$&'()*+,;=~-._"
_QUERY = _PATH + '?[]|{}^`\\"<>'
#: IPv6 addresses that contain an IPv4 address (NAT64).
_NAT64 = IPv6Network("64:ff9b::/96")


class WebAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. `is_cut`: the body is longer than the limit. `url`: the address after redirects."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool = False


def is_public(address: str) -> bool:
    """Whether an IP address is public.

    An IPv6 address that embeds IPv4 addresses is public only if those are too.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(map(_is_global, _list_inner(ip)))


def _is_global(ip: IPv4Address | IPv6Address) -> bool:
    # The standard library takes the old private addresses of IPv6 (fec0::/10) for global ones.
    is_site_local = isinstance(ip, IPv6Address) and ip.is_site_local
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or is_site_local)


def _list_inner(ip: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The address, and the IPv4 addresses inside of it."""
    if isinstance(ip, IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip in _NAT64:
        return [IPv4Address(int(ip) & 0xFFFFFFFF)]
    return [ip, *filter(None, (ip.sixtofour, *(ip.teredo or ())))]


async def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    limit: int,
    allows: Callable[[str], bool] | None = None,
) -> WebAnswer:
    """Send one request and read at most `limit` bytes of the answer. Raises `ToolFailed`.

    `allows`: see `Connector`. Messages name no address beyond the host, which the caller knows.
    """
    host = _read_host(url)
    parts = urlsplit(url)
    try:
        origin = read_origin(url, "url")
    except ConfigError:
        raise ToolFailed("the address must be an http or https address") from None
    path = quote(parts.path or "/", safe=_PATH) + (
        f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
    )
    fields = {
        "host": origin.authority,
        "user-agent": "dragoman",
        "accept-encoding": "identity",
        "connection": "close",
        **(headers or {}),
        **({"content-length": str(len(body))} if body else {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    try:
        head = f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("ascii")
        return await _exchange(Connector(origin, None, True, allows=allows), head, body, url, limit)
    except AddressRefused:
        raise ToolFailed(f"{host} is not on the public internet, so it is not fetched") from None
    except UpstreamFailed as error:
        raise ToolFailed(f"{host} {error.failure.message}") from None
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"{host} cannot be reached ({type(error).__name__})") from None


async def _exchange(connector: Connector, head: bytes, body: bytes, url: str, limit: int) -> WebAnswer:
    loop = asyncio.get_running_loop()
    connection = await connector.open(lambda: HttpConnection(loop, HttpConnection.abort))
    try:
        reply = connection.send(head, body, _build_failure)
        await reply.wait_for_head()
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        is_plain = encoding in ("", "identity")
        source = reply if is_plain else DecompressedReply(reply, encoding, _build_failure)
        received = bytearray()
        async for piece in source.pieces():
            received += piece
            if len(received) > limit:
                break
    finally:
        connection.abort()
    return WebAnswer(
        url=url,
        status=reply.status,
        headers=reply.headers,
        body=bytes(received[:limit]),
        is_cut=len(received) > limit,
    )


async def fetch(url: str, *, limit: int, allows: Callable[[str], Callable[[str], bool] | None]) -> WebAnswer:
    """Get a page and follow its redirects. `allows` gives the check of the addresses of a URL."""
    for _ in range(MAX_REDIRECTS + 1):
        url = _encode_host(url)
        answer = await send(
            "GET", url, headers={"accept": "text/*, */*;q=0.5"}, limit=limit, allows=allows(url)
        )
        target = answer.headers.get("location", "")
        if answer.status not in _REDIRECTS or not target:
            return answer
        url = urljoin(url, target)
    raise ToolFailed(f"the page redirects more than {MAX_REDIRECTS} times")


def _read_host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, has_user = parts.hostname or "", parts.username is not None
        _ = parts.port  # Raises for a port that there is not.
    except ValueError:
        host, has_user = "", False
    if not host or has_user or not url.isprintable() or " " in url:
        raise ToolFailed("the address must be an http or https address without spaces and user names")
    return host


def _encode_host(url: str) -> str:
    """The address with its host in ASCII, as name servers and the header `host` need it."""
    host = _read_host(url)
    if host.isascii():
        return url
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        return parts._replace(netloc=host.encode("idna").decode() + port).geturl()
    except UnicodeError:
        raise ToolFailed("the host of the address is not valid") from None


def _build_failure(reason: str) -> UpstreamFailed:
    return UpstreamFailed(Failure(kind="server", message=reason))
