"""Runs the application under uvicorn, on the address in the configuration."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import uvicorn

from dragoman.config.config import Config
from dragoman.config.find import find_state_folder
from dragoman.config.settings import Secret
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ConfigError
from dragoman.server.access import check_exposure
from dragoman.server.admin_endpoint import AdminEndpoint
from dragoman.server.app import App
from dragoman.server.connection import Connection, SocketConnection
from dragoman.server.model_lists import ReadModels
from dragoman.server.peer_turns import find_addresses
from dragoman.server.reload_signal import has_terminal
from dragoman.server.siblings import Siblings
from dragoman.storage.port import StateStorage
from dragoman.telemetry.log import log_closing, set_up_logging
from dragoman.telemetry.spans import build_tracer
from dragoman.upstream.kinds import remove_leftovers

BACKLOG = 4096
#: Seconds that an idle connection stays open.
KEEP_ALIVE = 75
#: Seconds after draining for responses that are written but not yet sent.
FLUSH_SECONDS = 2

MAX_OPEN_FILES = 65_536

#: Requests are large trees that live for a short time. With Python's default thresholds the search for cycles
#: among them costs a tenth of the time. Real cycles are rare and are found soon enough.
GC_THRESHOLDS = (20_000, 20, 50)
#: Seconds for which a thread may keep the interpreter from the event loop, at each of its callbacks, while it
#: records turns or translates a large request. Python's default is ten times as long.
SWITCH_INTERVAL = 0.0005


def set_up_interpreter() -> None:
    """Set what the whole process shares. Called once, when everything that stays in memory is built."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL)


def bind(config: Config, *, has_stored_keys: bool = False) -> socket.socket:
    """The listening socket. It is bound first, so that an error about the port comes at once."""
    check_exposure(config.server, has_stored_keys=has_stored_keys)
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From here on early clients wait in the backlog instead of being refused.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another with --port"
        ) from None
    listener.set_inheritable(True)
    return listener


class Server(uvicorn.Server):
    """uvicorn that still listens while it drains, so that new requests get a 503 with `retry-after`."""

    def __init__(self, app: App, at_end: Callable[[], None] = lambda: None) -> None:
        self._app = app
        self._at_end = at_end
        self._in_terminal = has_terminal()
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                log_config=None,
                access_log=False,
                server_header=False,
                ws=SocketConnection,
                ws_max_size=app.responses.service.limit,
                # On loopback, compression costs more than it saves.
                ws_per_message_deflate=False,
                lifespan="on",
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=FLUSH_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Not every system has the signal, and only the main thread may handle it.
        with suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._handle_hangup)

    def _handle_hangup(self) -> None:
        """Reload. But a closing terminal sends the same signal to its programs: then stop."""
        if self._in_terminal and not has_terminal():
            self.should_exit = True
        else:
            self._app.reloader.reload_soon("SIGHUP")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        limit = self._app.gateway.config.server.drain
        if len(self._app.exchanges) and limit > 0:
            log_closing(len(self._app.exchanges), limit)
        draining = asyncio.ensure_future(self._app.drain(limit))
        while not draining.done() and not self.force_exit:
            await asyncio.wait((draining,), timeout=0.1)
        draining.cancel()
        if self.force_exit:
            # The second signal: wait for no exchange, but send the open ones an error and close everything.
            self.force_exit = False
            await self._app.drain(0)
        await super().shutdown(sockets)
        # Not later: uvicorn raises the signal again that stopped it.
        self._at_end()


def raise_open_files() -> None:
    """Raise the limit of open files: each stream takes two sockets, and the usual limit is low."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def serve(
    config: Config,
    listeners: list[socket.socket],
    storage: StateStorage,
    *,
    read: Callable[[], Config],
    admin_token: Secret | None,
    at_end: Callable[[], None] = lambda: None,
    sibling_ports: Sequence[int] = (),
    endpoints: Sequence[AdminEndpoint] = (),
    read_models: ReadModels = lambda provider: {},
) -> None:
    """Serve until a signal comes; open streams get the configured time to finish.

    `read` reads the configuration for a reload. `at_end` is called last, also when a signal ends the process.
    `sibling_ports` are those of the other workers, `endpoints` further ones of the admin API.
    `read_models` asks a provider for its models.
    """
    set_up_logging(config.server.log)
    raise_open_files()
    remove_leftovers(find_state_folder(config, os.environ))
    gateway = Gateway(config, storage=storage)
    if storage.is_shared or sibling_ports:
        gateway.calls.announce(*find_addresses(config, listeners))
    traces = config.telemetry.traces
    spans = build_tracer(traces, lambda: gateway.config) if traces else None
    siblings = Siblings(sibling_ports, admin_token) if sibling_ports and admin_token else None
    app = App(
        gateway,
        read=read,
        admin_token=admin_token,
        spans=spans,
        siblings=siblings,
        endpoints=endpoints,
        read_models=read_models,
    )
    server = Server(app, at_end)
    set_up_interpreter()
    # uvicorn raises the signal again that stopped it; the stop was requested.
    with suppress(KeyboardInterrupt):
        server.run(sockets=listeners)
