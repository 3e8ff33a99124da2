"""The client of the admin API of a running gateway, for `status`, `reload` and `sessions`."""

import os
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from dragoman.cli.connection import check_url, gateway_url, program_name
from dragoman.cli.formats import config_option
from dragoman.cli.notices import read_notice
from dragoman.config.config import Config
from dragoman.config.find import find_config, find_config_path, find_state_folder
from dragoman.config.settings import Secret
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.server.admin_token import FILE_NAME, VARIABLE, find_token

#: Seconds.
TIMEOUT = 10.0
#: Bytes of an answer that are read. The server may not be a dragoman.
MAX_ANSWER = 32 * 1024 * 1024


class AdminRequestRefused(DragomanError):
    """The gateway refused the request. The message is the gateway's own."""


def admin_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that select the gateway."""
    url = click.option("--url", default="", metavar="URL", help="Address of the gateway.")
    return config_option(url(command))


class AdminClient:
    """Calls the admin API of one gateway with the admin token.

    The gateway is the one at `url`, or the one whose notice belongs to the configuration file, or the one at
    the configured address.
    """

    def __init__(self, path: str | None, url: str) -> None:
        notice = read_notice(find_config_path(path, os.environ), os.environ)
        try:
            config = find_config(path, os.environ, secrets=False)
        except ConfigError as error:
            if notice is None:
                raise
            # The gateway still runs with its earlier configuration.
            click.echo(f"warning: {error.message}", err=True)
            config = Config()
        folder = Path(notice.state) if notice else find_state_folder(config, os.environ)
        self.url = check_url(url) if url else (notice.url if notice else gateway_url(config))
        #: Tried next: the gateway of the notice may have stopped.
        self._fallback_url = "" if url else gateway_url(config)
        self.token = _read_token(folder)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request and return the decoded answer. Raises if the gateway refuses or does not answer."""
        data = b"" if body is None else msgspec.json.encode(body)
        try:
            status, answer = self._send(method, path, data)
        except (OSError, HTTPException):
            if self._fallback_url in ("", self.url):
                raise ConfigError(
                    f"no gateway answers at {self.url}",
                    hint=f"start one with `{program_name()} start`, or give its address with --url",
                ) from None
            self.url = self._fallback_url
            return self.call(method, path, body)
        return self._decode(status, answer)

    def _send(self, method: str, path: str, data: bytes) -> tuple[int, bytes]:
        connection = self._connect()
        try:
            connection.request(method, path, data, {"authorization": f"Bearer {self.token.reveal()}"})
            response = connection.getresponse()
            return response.status, response.read(MAX_ANSWER)
        finally:
            connection.close()

    def _connect(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        kinds: dict[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
        return kinds[parts.scheme](parts.hostname or "", parts.port, timeout=TIMEOUT)

    def _decode(self, status: int, answer: bytes) -> Any:
        try:
            value = msgspec.json.decode(answer)
        except msgspec.DecodeError:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        if status == 401:
            raise ConfigError(
                f"the gateway at {self.url} does not accept this admin token",
                hint=f"it may use another state folder: set {VARIABLE}, or name its file with --config",
            )
        error = value.get("error") if isinstance(value, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        if not isinstance(message, str) or not message:
            raise ConfigError(
                f"the server at {self.url} is not a dragoman", hint="give its address with --url"
            )
        raise AdminRequestRefused(message)


def _read_token(folder: Path) -> Secret:
    token = find_token(folder, os.environ)
    if token is None:
        raise ConfigError(
            f"there is no admin token in {folder / FILE_NAME}: no gateway has run here yet",
            hint=f"start one with `{program_name()} start`; for a gateway on another machine, set {VARIABLE}",
        )
    return token
