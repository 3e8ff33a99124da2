"""The kinds of upstream: one row per provider dialect that is not served over HTTP.

A new kind of upstream is one folder beside `http`, one row here that builds it, and one row of the same
name in `config.model.LOCAL_PROGRAMS` that describes it to the configuration.
"""

from collections.abc import Callable
from pathlib import Path

from dragoman.config.model import Provider
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import Upstream


def _build_http(provider: Provider, state: Path) -> Upstream:
    return HttpUpstream(provider)


# Imported on first use: neither kind should slow down the start of a gateway that does not use it.


def _build_embedded(provider: Provider, state: Path) -> Upstream:
    from dragoman.upstream.embedded.upstream import EmbeddedUpstream

    return EmbeddedUpstream()


def _build_claude_code(provider: Provider, state: Path) -> Upstream:
    from dragoman.upstream.claude_code.upstream import ClaudeCodeUpstream

    return ClaudeCodeUpstream(provider, state)


#: The keys are those of `LOCAL_PROGRAMS`.
_BUILDERS: dict[str, Callable[[Provider, Path], Upstream]] = {
    "embedded": _build_embedded,
    "claude_code": _build_claude_code,
}


def build_upstream(provider: Provider, state: Path) -> Upstream:
    """Build the upstream of a provider. `state` is the folder for files that outlive the process."""
    return _BUILDERS.get(provider.dialect, _build_http)(provider, state)
