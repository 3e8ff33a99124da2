"""The kinds of upstream: HTTP, and one package for each local program.

A new local program needs two things: a row in `providers/local_programs.py`, which describes it to the other
packages, and a package beside `http` with the name of that row. The package's module `upstream` has the
functions of `LocalUpstreamModule`.
"""

from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from dragoman.config.provider import Provider
from dragoman.hub.errors import Failure, UpstreamFailed
from dragoman.providers.local_programs import LOCAL_PROGRAMS
from dragoman.upstream.http.upstream import HttpUpstream
from dragoman.upstream.port import Upstream, UpstreamReply, UpstreamRequest, WaitingCalls


class UnusableUpstream:
    """A provider whose requests cannot succeed: each fails with the reason, and nothing is sent."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        message = f"provider {self._provider.name} cannot be used: {self._provider.obstacle}"
        message += "; set it and restart the gateway"
        raise UpstreamFailed(Failure(kind="misconfigured", message=message))

    async def close(self) -> None:
        pass


class LocalUpstreamModule(Protocol):
    """The module `upstream` of the package of a local program."""

    def build_upstream(self, provider: Provider, state: Path, waiting_calls: WaitingCalls | None) -> Upstream:
        """Build the upstream of a provider. `state` is the folder for files that outlive the process.

        `waiting_calls` are those of several gateways or workers; None if there is only one.
        """
        ...

    async def check_program(self, provider: Provider) -> str:
        """What the doctor reports of a working program. Raises an error that names what to install.

        Not needed if the program is internal.
        """
        ...

    def remove_leftovers(self, state: Path) -> None:
        """Remove what a killed gateway left in the state folder. Needed if the row has a `state_folder`."""
        ...


def _load(name: str) -> LocalUpstreamModule:
    """Imported on first use: no program slows down the start of a gateway that does not use it."""
    return cast(LocalUpstreamModule, import_module(f"dragoman.upstream.{name}.upstream"))


def build_upstream(provider: Provider, state: Path, waiting_calls: WaitingCalls | None = None) -> Upstream:
    """Build the upstream of a provider. See `LocalUpstreamModule`."""
    if provider.obstacle:
        return UnusableUpstream(provider)
    if provider.program is None:
        return HttpUpstream(provider)
    return _load(provider.dialect).build_upstream(provider, state, waiting_calls)


async def check_program(provider: Provider) -> str:
    """Check that a local program can be started. See `LocalUpstreamModule`."""
    return await _load(provider.dialect).check_program(provider)


def remove_leftovers(state: Path) -> None:
    """Remove what killed gateways left. Called when the gateway starts."""
    for name, program in LOCAL_PROGRAMS.items():
        if program.state_folder and (state / program.state_folder).is_dir():
            _load(name).remove_leftovers(state)
