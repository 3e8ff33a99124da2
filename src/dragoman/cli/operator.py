"""How commands reach the admin API of a gateway that runs, and what they say when they cannot."""

import os
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from dragoman.cli.door import address
from dragoman.cli.notice import noted
from dragoman.config.find import config_path, find_config, state_folder
from dragoman.config.model import Config, Secret
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.server.admin_token import FILE_NAME, VARIABLE, found_token

#: Seconds.
PATIENCE = 10.0
#: Bytes of an answer that are read; it comes from our own gateway, or from something that is none.
MAX_ANSWER = 32 * 1024 * 1024


class Refused(DragomanError):
    """The gateway said no; the message is its own."""


def operator_options(command: Callable[..., None]) -> Callable[..., None]:
    """Where the gateway is found; both options have good defaults."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option("--config", "path", metavar="FILE", help="Its configuration, if not the usual one."),
        click.option("--url", default="", metavar="URL", help="Its address, if not the configured one."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class Operator:
    """Calls one gateway, showing the admin token."""

    def __init__(self, path: str | None, url: str) -> None:
        notice = noted(config_path(path, os.environ), os.environ)
        try:
            config = find_config(path, os.environ, secrets=False)
        except ConfigError as error:
            if notice is None:
                raise
            # The gateway goes on with the configuration from before.
            click.echo(f"warning: {error.message}", err=True)
            config = Config()
        folder = Path(notice.state) if notice else state_folder(config, os.environ)
        self.url = url.rstrip("/") or (notice.url if notice else address(config))
        #: Where else to look: whoever left the notice may be gone.
        self._otherwise = "" if url else address(config)
        self._token = _token(folder)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer, decoded. Raises what the gateway refuses, and what keeps us from asking it."""
        data = b"" if body is None else msgspec.json.encode(body)
        try:
            status, answer = self._answer(method, path, data)
        except (OSError, HTTPException):
            if self._otherwise in ("", self.url):
                raise ConfigError(
                    f"no gateway answers at {self.url}",
                    hint="start one with `dragoman serve`, or say where it is with --url",
                ) from None
            self.url = self._otherwise
            return self.call(method, path, body)
        return self._decoded(status, answer)

    def _answer(self, method: str, path: str, data: bytes) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, data, {"authorization": f"Bearer {self._token.reveal()}"})
            response = connection.getresponse()
            return response.status, response.read(MAX_ANSWER)
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.url)
        kinds: dict[str, type[HTTPConnection]] = {"http": HTTPConnection, "https": HTTPSConnection}
        if parts.scheme not in kinds or not parts.hostname:
            raise ConfigError(f"{self.url!r} is no address", hint="for example --url http://127.0.0.1:8484")
        return kinds[parts.scheme](parts.hostname, parts.port, timeout=PATIENCE)

    def _decoded(self, status: int, answer: bytes) -> Any:
        try:
            value = msgspec.json.decode(answer)
        except msgspec.DecodeError:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        message = _message(value)
        if status == 401:
            raise ConfigError(
                f"the gateway at {self.url} does not know this admin token",
                hint=f"it may have another state folder: set {VARIABLE}, or name its file with --config",
            )
        if not message:
            raise ConfigError(f"what answers at {self.url} is no dragoman", hint="--url says where it is")
        raise Refused(message)


def _message(value: object) -> str:
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else ""


def _token(folder: Path) -> Secret:
    found = found_token(folder, os.environ)
    if found is None:
        raise ConfigError(
            f"there is no admin token in {folder / FILE_NAME}: no gateway has run here yet",
            hint=f"start one with `dragoman serve`; for one that runs elsewhere, set {VARIABLE}",
        )
    return found
