"""Tools that a client expects its vendor to run, and that the gateway runs because the target does not."""

import posixpath
import re
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import msgspec

from dragoman.gateway_tools.tool import ToolFailed
from dragoman.hub.blocks import SearchOptions, Tool
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts


def find_hosted(
    request: Request, target: TargetFacts, common_name: str, *, always: bool = False
) -> Tool | None:
    """The hosted tool with this common name that the client declares and the target does not run.

    `always`: also if the target runs it.
    """
    hosted = next(
        (tool for tool in request.tools if tool.kind == "hosted" and tool.common_name == common_name), None
    )
    if hosted is None or always:
        return hosted
    has_functions = any(tool.kind != "hosted" for tool in request.tools)
    is_known = target.hosted_tools is None or common_name in target.hosted_tools
    runs_it = is_known and (target.hosted_beside_functions or not has_functions)
    return None if runs_it else hosted


def remove_hosted(request: Request, common_name: str) -> Request:
    """The request without the hosted tools with this common name."""
    kept = tuple(tool for tool in request.tools if tool.kind != "hosted" or tool.common_name != common_name)
    return msgspec.structs.replace(request, tools=kept)


def _write_host(host: str) -> str:
    """A host in one form: a name server takes other forms for the same name."""
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    return host.lower().rstrip(".")


def _write_path(path: str) -> str:
    """A path in one form: web servers take other forms for the same page."""
    decoded = re.sub("/+", "/", "/" + unquote(path))
    return posixpath.normpath(decoded).lower()


class HostedUses:
    """The uses of a hosted tool in one reply: the client's options for it, and how many uses there were."""

    def __init__(self, tool: Tool) -> None:
        self.common_name = tool.common_name
        self.options = tool.search or SearchOptions()
        self._count = 0

    def count(self, what: str) -> None:
        """Count one use. Raises `ToolFailed` if the client allows no more of them."""
        self._count += 1
        limit = self.options.max_uses
        if limit is not None and self._count > limit:
            raise ToolFailed(f"the client allows {limit} {what} in one reply, and they have been made")

    def allows(self, url: str) -> bool:
        """Whether the domain lists of the client allow a page."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        host = "." + _write_host(parts.hostname or "")
        path = host + _write_path(parts.path)

        def matches(domain: str) -> bool:
            name, _, part = domain.lower().removeprefix("*.").strip("/").partition("/")
            named = "." + _write_host(name)
            return path.startswith(named + _write_path(part)) if part else host.endswith(named)

        allowed, blocked = self.options.allowed_domains, self.options.blocked_domains
        return (not allowed or any(map(matches, allowed))) and not any(map(matches, blocked))
