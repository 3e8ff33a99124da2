"""Sessions in the admin API: those that an upstream keeps between requests, such as Claude Code's."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.visit import Visit
from dragoman.upstream.port import SessionUpstream

if TYPE_CHECKING:
    from dragoman.server.app import App


def keepers(app: "App") -> Iterator[tuple[str, SessionUpstream]]:
    """The upstreams that keep sessions, by their provider's name."""
    for name, handle in app.gateway.snapshot.handles.items():
        upstream: object = handle.existing_upstream
        if isinstance(upstream, SessionUpstream):
            yield name, upstream


async def list_sessions(visit: Visit) -> object:
    found = dict(keepers(visit.app))
    return {
        "sessions": [session for keeper in found.values() for session in keeper.list_sessions()],
        "counts": {name: keeper.count_sessions() for name, keeper in found.items()},
    }


async def show_session(visit: Visit) -> object:
    for _, keeper in keepers(visit.app):
        details = keeper.describe_session(visit.named["session"])
        if details is not None:
            return details
    raise _missing()


async def end_session(visit: Visit) -> object:
    session = visit.named["session"]
    if any(keeper.end_session(session) for _, keeper in keepers(visit.app)):
        return {"ended": session}
    raise _missing()


def _missing() -> DragomanError:
    message = "there is no such session; GET /admin/sessions lists them"
    failure = Failure(kind="not_found", status=404, message=message, code="session_not_found")
    return DragomanError(message, failure=failure)
