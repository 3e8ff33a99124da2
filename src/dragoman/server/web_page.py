"""The web page of the operator: static files that read the admin API. docs/page.md describes the screens.

The files come with the package and are read once. They hold no data: everything that they show comes from the
admin API, with the admin token that a person enters.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from dragoman.hub.errors import DragomanError, Failure
from dragoman.server.admin import check_address
from dragoman.server.request import HttpRequest
from dragoman.server.state import ServerState

FOLDER = Path(__file__).with_name("page")
INDEX = "index.html"
PREFIX = "/page/"

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
#: What a browser may do with the files: load them from here, ask this gateway, and nothing else. Trusted
#: types refuse every way to make markup or code out of a text.
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # A browser asks each time whether its copy is still valid, so that a new version shows at once.
    "cache-control": "no-cache",
}


class PageFile(NamedTuple):
    """One file of the page. `tag` is its ETag."""

    data: bytes
    kind: str
    tag: str


@cache
def read_files() -> dict[str, PageFile]:
    """All files of the page by name."""
    return {path.name: _read_file(path) for path in sorted(FOLDER.iterdir()) if path.suffix in _KINDS}


def _read_file(path: Path) -> PageFile:
    data = path.read_bytes()
    return PageFile(data, _KINDS[path.suffix], f'"{sha256(data).hexdigest()[:32]}"')


def wants_page(request: HttpRequest) -> bool:
    """Whether a browser asks for `/`. Agents and load balancers that ask for it want the health."""
    return request.path in ("", "/") and "text/html" in request.headers.get("accept", "")


async def serve_page(request: HttpRequest, state: ServerState, *, is_on: bool) -> None:
    """Send one file of the page to a caller that may use the admin API. `is_on`: there is an admin token."""
    check_address(request, state.gateway.config.server.admin, is_on=is_on)
    name = request.path.removeprefix(PREFIX) if request.path.startswith(PREFIX) else INDEX
    file = read_files().get(name)
    if file is None:
        message = f"the page has no file {name[:80]!r}"
        raise DragomanError(message, failure=Failure(kind="not_found", status=404, message=message))
    headers = {**_HEADERS, "etag": file.tag, "vary": "accept"}
    if file.tag in request.headers.get("if-none-match", ""):
        return await request.client.respond(304, headers, b"")
    headers |= {"content-type": file.kind, "content-length": str(len(file.data))}
    await request.client.respond(200, headers, b"" if request.method == "HEAD" else file.data)
