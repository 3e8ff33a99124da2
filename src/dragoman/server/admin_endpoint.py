"""The types of the admin API's table: an endpoint, and a request that passed the checks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from dragoman.server.state import ServerState

PREFIX = "/admin"


class AdminRequest(NamedTuple):
    """One request with the admin token."""

    state: ServerState
    #: The parts of the path that `{…}` in the endpoint's path stands for.
    path_values: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    #: All endpoints that there are.
    endpoints: "Sequence[AdminEndpoint]" = ()


class AdminEndpoint(NamedTuple):
    """An endpoint. Its handler returns the value that is sent as JSON, or raises a `DragomanError`.

    An iterator of frames is sent as server-sent events.
    """

    method: str
    #: A part `{name}` stands for any one part of a path.
    path: str
    handle: Callable[[AdminRequest], Awaitable[object]]
    about: str
