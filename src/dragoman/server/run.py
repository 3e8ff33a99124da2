"""Starts the application under uvicorn, on the address that the configuration names."""

import socket

import uvicorn

from dragoman.config.model import Config
from dragoman.exchange.gateway import Gateway
from dragoman.hub.errors import ConfigError
from dragoman.server.app import App
from dragoman.server.guard import is_loopback
from dragoman.telemetry.log import set_up


BACKLOG = 2048


def check_bind(config: Config) -> None:
    """Anything but loopback can be reached by strangers, so it needs a key."""
    server = config.server
    if not is_loopback(server.host) and not server.keys:
        raise ConfigError(
            f"server.host is {server.host!r}, which others can reach, and there is no client key",
            hint='set server.keys = ["env:DRAGOMAN_KEY"], or listen on 127.0.0.1',
        )


def bind(config: Config) -> socket.socket:
    """The listening socket; bound before anything else, so that a taken port is told at once."""
    check_bind(config)
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From here on early callers wait in the backlog instead of being refused.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another with --port"
        ) from None
    listener.set_inheritable(True)
    return listener


def serve(config: Config, listener: socket.socket) -> None:
    """Serve until told to stop; open streams get the configured time to finish."""
    set_up(config.server.log)
    settings = uvicorn.Config(
        App(Gateway(config)),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(config.server.drain) or None,
    )
    uvicorn.Server(settings).run(sockets=[listener])
