"""The admin API: what an operator may see and do, as one table of endpoints.

Every endpoint needs the admin token. A new one is a new row in `ENDPOINTS`, and a line in docs/operating.md.
"""

import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from dragoman.accounts.errors import InvalidKey
from dragoman.accounts.keys import hash_key
from dragoman.hub.errors import ConfigError, DragomanError, Failure
from dragoman.server.admin_sessions import end_session, list_sessions, show_session
from dragoman.server.body import receive_body
from dragoman.server.guard import NotOurHost, bearer_of, is_loopback
from dragoman.server.status import status
from dragoman.server.visit import Row, Visit

if TYPE_CHECKING:
    from dragoman.server.app import App, Arrival

PREFIX = "/admin"
#: Bytes; what an operator has to say is short.
MAX_BODY = 64 * 1024


async def _index(visit: Visit) -> object:
    return {"endpoints": [{"method": row.method, "path": row.path, "about": row.about} for row in ENDPOINTS]}


async def _status(visit: Visit) -> object:
    return await status(visit.app)


async def _reload(visit: Visit) -> object:
    try:
        return await visit.app.reloads.now("the admin API")
    except ConfigError as error:
        # The file is wrong, not the gateway.
        failure = msgspec.structs.replace(error.failure, kind="invalid_request", status=400)
        raise DragomanError(error.message, failure=failure) from None


ENDPOINTS: tuple[Row, ...] = (
    Row("GET", PREFIX, _index, "This list."),
    Row("GET", f"{PREFIX}/status", _status, "What the gateway is doing."),
    Row("POST", f"{PREFIX}/reload", _reload, "Read the configuration again."),
    Row(
        "GET", f"{PREFIX}/sessions", list_sessions, "The sessions of Claude Code, and what became of others."
    ),
    Row("GET", f"{PREFIX}/sessions/{{session}}", show_session, "One session: tools, calls, decisions."),
    Row("DELETE", f"{PREFIX}/sessions/{{session}}", end_session, "End a session and its process."),
)


async def answer(app: "App", arrival: "Arrival") -> None:
    """Find the endpoint of an admin path, if whoever calls may know of it, and answer."""
    check_operator(app, arrival)
    row, named = _found(arrival.method, arrival.path)
    body = await receive_body(arrival.receive, MAX_BODY)
    visit = Visit(app, named, dict(parse_qsl(arrival.query)), body)
    await arrival.client.json(200, await row.handle(visit), {"cache-control": "no-store"})


def check_operator(app: "App", arrival: "Arrival") -> None:
    """The admin token, in a header; from this machine, unless the configuration lets others in."""
    wanted = app.gateway.config.server.admin
    if wanted == "off" or app.admin_token is None:
        raise NotOurHost("the admin API is off", hint="see server.admin and server.state")
    if wanted == "local" and not is_loopback(arrival.peer):
        raise NotOurHost("the admin API is for callers on this machine", hint='server.admin = "remote"')
    if not shows(arrival.headers, app.admin_token.reveal()):
        raise InvalidKey("this needs the admin token", hint="send it as a bearer token")


def shows(headers: Mapping[str, str], secret: str) -> bool:
    """Whether the bearer token is the secret; the time it takes tells nothing."""
    return hmac.compare_digest(hash_key(bearer_of(headers)), hash_key(secret))


def _found(method: str, path: str) -> tuple[Row, Mapping[str, str]]:
    path = path.rstrip("/")
    methods = []
    for row in ENDPOINTS:
        found = _pattern(row.path).fullmatch(path)
        if found and row.method == method:
            return row, found.groupdict()
        if found:
            methods.append(row.method)
    if methods:
        message = f"this endpoint takes {', '.join(methods)}"
        raise DragomanError(message, failure=Failure(kind="invalid_request", status=405, message=message))
    message = f"no such endpoint; GET {PREFIX} lists them"
    raise DragomanError(
        message, failure=Failure(kind="not_found", status=404, message=message, code="unknown_endpoint")
    )


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
