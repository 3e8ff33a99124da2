"""A call of the admin API, and a row of its table: what handlers are given, and how they are found."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dragoman.server.app import App


class Visit(NamedTuple):
    """One call, by somebody who has shown the admin token."""

    app: "App"
    #: What stands in the path for its `{…}`.
    named: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class Row(NamedTuple):
    """An endpoint. Its handler gives what is written as JSON, or raises an error of our tree."""

    method: str
    #: A part `{name}` stands for any one part of a path.
    path: str
    handle: Callable[[Visit], Awaitable[object]]
    about: str
