"""What `serve` and the companion of `run` share: a gateway with its state folder and its admin token."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import click

from dragoman.cli.door import called
from dragoman.cli.notice import Notice, post, withdraw
from dragoman.config.find import find_config, state_folder
from dragoman.config.model import Config, Secret
from dragoman.hub.errors import ConfigError
from dragoman.server.admin_token import made_token
from dragoman.server.run import serve
from dragoman.storage.database import FILE_NAME, Database


class Source:
    """Where a gateway's configuration comes from. Once that was a file, it stays that file."""

    def __init__(self, path: str | None) -> None:
        self._path = path or None

    def read(self) -> Config:
        config = find_config(self._path, os.environ)
        self._path = config.path or None
        return config


def serve_here(config: Config, listener: socket.socket, read: Callable[[], Config]) -> None:
    """Serve on the listener until told to stop; `read` gives the configuration anew."""
    folder = state_folder(config, os.environ)
    token = _token(folder)
    notice = Notice(url_of(listener), str(folder.absolute()), os.getpid())
    post(config.path, notice, os.environ)
    serve(
        config,
        listener,
        Database(folder / FILE_NAME),
        read=read,
        admin_token=token,
        at_end=lambda: withdraw(config.path, notice, os.environ),
    )


def url_of(listener: socket.socket) -> str:
    """Where the gateway can be called from this machine."""
    host, port = listener.getsockname()[:2]
    return called(host, port)


def _token(folder: Path) -> Secret | None:
    """A gateway that cannot keep a token serves all the same, without an admin API."""
    try:
        return made_token(folder, os.environ)
    except ConfigError as error:
        click.echo(f"warning: no admin API, because: {error.message}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        return None
