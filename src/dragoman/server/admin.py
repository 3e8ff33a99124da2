"""The admin API: a table of endpoints for the operator.

Every endpoint needs the admin token. A new one is a new row in `ENDPOINTS` and a line in docs/operating.md.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import parse_qsl, quote, unquote

import msgspec

from dragoman.accounts.errors import InvalidKey
from dragoman.config.settings import Secret, is_loopback
from dragoman.hub.errors import ConfigError, DragomanError, Failure
from dragoman.pipeline.transports import SSE_HEADERS
from dragoman.server.access import AccessRefused, has_bearer
from dragoman.server.admin_endpoint import PREFIX, AdminEndpoint, AdminRequest
from dragoman.server.client import NO_STORE
from dragoman.server.overview_api import OVERVIEW_ENDPOINTS
from dragoman.server.records_api import RECORD_ENDPOINTS
from dragoman.server.request import HttpRequest, receive_body
from dragoman.server.siblings import merge_counts, merge_status
from dragoman.server.state import ServerState
from dragoman.server.status import build_status
from dragoman.wire.sse import Frame

#: Bytes. Requests of an operator are short.
MAX_BODY = 64 * 1024


async def handle_admin(
    request: HttpRequest, state: ServerState, token: Secret | None, endpoints: Sequence[AdminEndpoint]
) -> None:
    """Check the token, find the endpoint and respond. Without a `token` the admin API is off."""
    check_operator(request, state.gateway.config.server.admin, token)
    endpoint, values = _find_endpoint(request.method, request.raw_path, endpoints)
    body = await receive_body(request.receive, MAX_BODY)
    state = state.select_workers(request)
    admin_request = AdminRequest(state, values, dict(parse_qsl(request.query)), body, endpoints)
    response = await endpoint.handle(admin_request)
    if isinstance(response, AsyncIterator):
        return await _stream(request, response)
    await request.client.respond_json(200, response, NO_STORE)


async def _stream(request: HttpRequest, events: AsyncIterator[Frame]) -> None:
    """Send events until the source ends or the client closes the connection."""
    client = request.client
    await client.start(200, {**SSE_HEADERS, **NO_STORE})

    async def send() -> None:
        async for event in events:
            await client.send([event])
        await client.end()

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(request.wait_for_disconnect())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def check_operator(request: HttpRequest, allowed: str, token: Secret | None) -> None:
    """Raise unless the request has the admin token and comes from an address that `server.admin` allows."""
    check_address(request, allowed, is_on=token is not None)
    if token is None or not has_bearer(request.headers, token.reveal()):
        raise InvalidKey("this needs the admin token", hint="send it as a bearer token")


def check_address(request: HttpRequest, allowed: str, *, is_on: bool) -> None:
    """Raise unless the request comes from an address that `server.admin` allows."""
    if allowed == "off" or not is_on:
        raise AccessRefused("the admin API is off", hint="see server.admin and server.state")
    if allowed == "local" and not is_loopback(request.peer):
        raise AccessRefused("the admin API is for callers on this machine", hint='server.admin = "remote"')


def _find_endpoint(
    method: str, path: str, endpoints: Sequence[AdminEndpoint]
) -> tuple[AdminEndpoint, Mapping[str, str]]:
    """The endpoint, and the decoded values in `path`, which is encoded: a value may contain `/`."""
    path = path.rstrip("/")
    methods = []
    for endpoint in endpoints:
        found = _build_pattern(endpoint.path).fullmatch(path)
        if found and endpoint.method == method:
            return endpoint, {name: unquote(value) for name, value in found.groupdict().items()}
        if found:
            methods.append(endpoint.method)
    if methods:
        message = f"this endpoint takes {', '.join(methods)}"
        raise DragomanError(message, failure=Failure(kind="invalid_request", status=405, message=message))
    message = f"no such endpoint; GET {PREFIX} lists them"
    raise DragomanError(
        message, failure=Failure(kind="not_found", status=404, message=message, code="unknown_endpoint")
    )


def _build_pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))


async def _list_endpoints(request: AdminRequest) -> object:
    return {
        "endpoints": [
            {"method": row.method, "path": row.path, "about": row.about} for row in request.endpoints
        ]
    }


async def _get_status(request: AdminRequest) -> object:
    own, siblings = await build_status(request.state), request.state.siblings
    if siblings is None:
        return own
    # As JSON, as the others send theirs.
    reports = [msgspec.to_builtins(own), *await siblings.ask_json("GET", f"{PREFIX}/status")]
    return merge_status(reports)


async def _reload(request: AdminRequest) -> object:
    try:
        report = await request.state.reloader.reload("the admin API")
        if request.state.siblings is not None:
            await request.state.siblings.ask("POST", f"{PREFIX}/reload")
        return report
    except ConfigError as error:
        # The file is wrong, not the gateway.
        failure = msgspec.structs.replace(error.failure, kind="invalid_request", status=400)
        raise DragomanError(error.message, failure=failure) from None


async def _list_sessions(request: AdminRequest) -> object:
    found = dict(request.state.list_session_upstreams())
    siblings = request.state.siblings
    others = await siblings.ask_json("GET", f"{PREFIX}/sessions") if siblings else []
    own = [session for upstream in found.values() for session in upstream.list_sessions()]
    counts = {name: upstream.count_sessions() for name, upstream in found.items()}
    return {
        "sessions": [*own, *(session for other in others for session in other["sessions"])],
        "counts": merge_counts([counts, *(other["counts"] for other in others)]),
    }


async def _get_session(request: AdminRequest) -> object:
    for _, upstream in request.state.list_session_upstreams():
        details = upstream.describe_session(request.path_values["session"])
        if details is not None:
            return details
    return await _ask_siblings(request, "GET")


async def _end_session(request: AdminRequest) -> object:
    session = request.path_values["session"]
    if any(upstream.end_session(session) for _, upstream in request.state.list_session_upstreams()):
        return {"ended": session}
    return await _ask_siblings(request, "DELETE")


async def _ask_siblings(request: AdminRequest, method: str) -> object:
    """The answer of the worker that has the session."""
    if request.state.siblings is not None:
        path = f"{PREFIX}/sessions/{quote(request.path_values['session'], safe='')}"
        for answer in await request.state.siblings.ask_json(method, path):
            return answer
    raise _build_session_not_found()


def _build_session_not_found() -> DragomanError:
    message = "there is no such session; `dragoman sessions list` lists them"
    failure = Failure(kind="not_found", status=404, message=message, code="session_not_found")
    return DragomanError(message, failure=failure)


ENDPOINTS: tuple[AdminEndpoint, ...] = (
    AdminEndpoint("GET", PREFIX, _list_endpoints, "This list."),
    AdminEndpoint("GET", f"{PREFIX}/status", _get_status, "What the gateway is doing."),
    AdminEndpoint("POST", f"{PREFIX}/reload", _reload, "Read the configuration again."),
    AdminEndpoint(
        "GET", f"{PREFIX}/sessions", _list_sessions, "The sessions of Claude Code, and counts of ended ones."
    ),
    AdminEndpoint(
        "GET", f"{PREFIX}/sessions/{{session}}", _get_session, "One session: tools, calls, decisions."
    ),
    AdminEndpoint("DELETE", f"{PREFIX}/sessions/{{session}}", _end_session, "End a session and its process."),
    *OVERVIEW_ENDPOINTS,
    *RECORD_ENDPOINTS,
)
