"""The endpoints of the gateway by path: those of each dialect's `http_api`, and its own."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from dragoman.dialects.http_api import POST, READ
from dragoman.dialects.registry import DEFAULT_DIALECT, DIALECTS
from dragoman.server.client import Scope

#: The key of an ASGI scope with the entry, such as `/claude`, that the path began with.
ENTRY = "dragoman.entry"


class Endpoint(NamedTuple):
    """An endpoint, with the model and the id that its path names. The server has a handler for each name."""

    name: str
    dialect: str
    #: The methods of HTTP requests. A turn's GET, which only opens a WebSocket, is not one of them.
    methods: tuple[str, ...]
    model: str = ""
    #: The id of a stored response.
    id: str = ""


_ANY = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
#: The paths of the gateway itself. `config.load_rules` reserves their beginnings.
OWN_PATHS = (
    (r"/admin(?:/.*)?", "admin", _ANY),
    (r"/metrics", "metrics", READ),
    (r"/gateway/calls", "peer", POST),
    (r"/\.well-known/oauth-authorization-server", "sign_in", READ),
    (r"/oauth/(?:device_authorization|token|revoke)", "sign_in", POST),
    (r"/session", "session", READ),
    (r"/device", "device_page", (*READ, *POST)),
    (r"/health/live", "health", READ),
    (r"/health/ready", "ready", READ),
    (r"/page/[a-z_]+\.[a-z]+", "page", READ),
    # Claude Code asks one of these whether the gateway is there.
    (r"/(?:health|api/hello)?", "health", READ),
)
#: Endpoints whose paths several dialects share. They match after all others, or they would hide them.
_SHARED = ("models", "model")


@lru_cache(maxsize=8)
def _build_table(names: tuple[str, ...]) -> list[tuple[re.Pattern[str], Endpoint]]:
    """All endpoints of these dialects and our own, in the order in which they are matched."""
    rows = [
        (re.compile(pattern), Endpoint(endpoint, name, POST if endpoint == "turn" else methods))
        for name in names
        for pattern, endpoint, methods in DIALECTS[name].http_api.endpoints
    ]
    rows.sort(key=lambda row: row[1].name in _SHARED)
    own = [
        (re.compile(pattern), Endpoint(name, DEFAULT_DIALECT, methods))
        for pattern, name, methods in OWN_PATHS
    ]
    return rows + own


def find_endpoint(path: str) -> Endpoint | None:
    """The endpoint of a decoded path without its query."""
    return _match_endpoint(path, tuple(DIALECTS))


# Bounded, because clients choose the paths.
@lru_cache(maxsize=64)
def _match_endpoint(path: str, names: tuple[str, ...]) -> Endpoint | None:
    path = path.rstrip("/") or "/"
    for pattern, endpoint in _build_table(names):
        found = pattern.fullmatch(path)
        if found:
            groups = found.groupdict()
            return endpoint._replace(model=groups.get("model") or "", id=groups.get("id") or "")
    return None


def separate_entry(scope: Scope, entries: Collection[str]) -> Scope:
    """The scope of a request below an entry of the configuration, such as `/claude`, with the plain path."""
    head, slash, rest = scope["path"][1:].partition("/")
    entry = f"/{head}"
    return {**scope, "path": f"{slash}{rest}" or "/", ENTRY: entry} if entry in entries else scope


def find_error_dialect(path: str) -> str:
    """The dialect of the error for a path that is no endpoint."""
    names = (name for name, dialect in DIALECTS.items() if dialect.http_api.is_error_path(path))
    return next(names, DEFAULT_DIALECT)


def find_client_dialect(endpoint: Endpoint, headers: Mapping[str, str]) -> str:
    """The client's dialect. Several APIs list their models under one path, so the headers decide there."""
    if endpoint.name in _SHARED and endpoint.dialect == DEFAULT_DIALECT:
        for name, dialect in DIALECTS.items():
            if any(header in headers for header in dialect.http_api.client_headers):
                return name
    return endpoint.dialect


def list_turn_paths() -> list[str]:
    """The path of a turn in each dialect, for messages. An upstream's path is the same as ours."""
    http_apis = [dialect.http_api for dialect in DIALECTS.values()]
    return [
        "/".join(("", *filter(None, (each.version, each.build_upstream_path("MODEL", stream=False).path))))
        for each in http_apis
    ]
