"""Runs a gateway in this process, for `serve` and as the child process of `run`.

`python -m dragoman.cli.process FILE` is that child: it prints its address as one line on stdout, and it
stops when stdin is closed. So it cannot outlive `dragoman run`, however that process ends.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from dragoman.cli.connection import build_url
from dragoman.cli.notices import GatewayNotice, NoticeBoard
from dragoman.config.config import Config
from dragoman.config.find import find_config, find_state_folder
from dragoman.config.settings import Secret
from dragoman.doctor.endpoint import DOCTOR_ENDPOINTS
from dragoman.doctor.servers import read_provider_models
from dragoman.exchange.storage import build_storage
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.server.admin_token import find_or_create_token
from dragoman.server.reload_signal import ignore_early_reload
from dragoman.server.run import bind, serve
from dragoman.server.workers import Supervisor, WorkerSockets
from dragoman.telemetry.log import log_warning, set_up_logging

#: The variable in which `run` passes a client key to its child gateway.
KEY_VARIABLE = "DRAGOMAN_COMPANION_KEY"


class ConfigReader:
    """Reads the configuration of a gateway, at the start and for every reload.

    Once it has read a file, it reads only that file, even if the search order would find another one.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path or None

    def read(self) -> Config:
        config = find_config(self._path, os.environ)
        self._path = config.path or None
        return config


def run_workers(
    config: Config, sockets: Sequence[WorkerSockets], read: Callable[[], Config], log_path: str = ""
) -> None:
    """Serve with a worker for each of the sockets until a signal stops the process."""
    folder = find_state_folder(config, os.environ)
    token = _open_token(folder, config.server.log)
    ports = [each.own.getsockname()[1] for each in sockets]

    def work(number: int) -> None:
        others = [port for place, port in enumerate(ports) if place != number]
        storage = build_storage(config, folder)
        serve(
            config,
            [*sockets[number]],
            storage,
            read=read,
            admin_token=token,
            sibling_ports=others,
            endpoints=DOCTOR_ENDPOINTS,
            read_models=read_provider_models,
        )

    board = _open_board(sockets[0].public, folder, log_path)
    board.publish(config.path)
    try:
        Supervisor(sockets, work).run()
    finally:
        board.withdraw()


def run_gateway(
    config: Config,
    listener: socket.socket,
    read: Callable[[], Config],
    *,
    log_path: str = "",
    is_child: bool = False,
) -> None:
    """Serve on the listener until a signal stops the process. `read` is called for every reload.

    `log_path` is the file of the log, if the gateway runs in the background.
    """
    folder = find_state_folder(config, os.environ)
    token = _open_token(folder, config.server.log)
    board = _open_board(listener, folder, log_path, is_child=is_child)

    def announce(loaded: Config) -> Config:
        # A gateway that starts without a file may load one later.
        board.publish(loaded.path)
        return loaded

    serve(
        announce(config),
        [listener],
        build_storage(config, folder),
        read=lambda: announce(read()),
        admin_token=token,
        endpoints=DOCTOR_ENDPOINTS,
        read_models=read_provider_models,
        at_end=board.withdraw,
    )


def _open_board(
    listener: socket.socket, folder: Path, log_path: str, *, is_child: bool = False
) -> NoticeBoard:
    """The notices of a gateway that listens here and has its state in this folder."""
    url = build_url(*listener.getsockname()[:2])
    notice = GatewayNotice(url, str(folder.absolute()), os.getpid(), log=log_path, is_child=is_child)
    return NoticeBoard(notice, os.environ)


def _open_token(folder: Path, style: str) -> Secret | None:
    """The admin token. Without a writable state folder the gateway runs without an admin API."""
    try:
        return find_or_create_token(folder, os.environ)
    except ConfigError as error:
        set_up_logging(style)
        log_warning(
            f"the admin API is off: {error.message}",
            also="no client keys, no usage and no stored responses outlive the gateway",
            hint=error.hint,
        )
        return None


def run_child_gateway(path: str) -> None:
    """Run a gateway with this configuration on a free port until stdin is closed."""
    reader = ConfigReader(path)
    own_key = os.environ.pop(KEY_VARIABLE, "")

    def read() -> Config:
        config = reader.read()
        keys = (*config.server.keys, Secret(own_key)) if own_key else config.server.keys
        server = msgspec.structs.replace(config.server, host="127.0.0.1", port=0, keys=keys)
        return msgspec.structs.replace(config, server=server)

    config = read()
    ignore_early_reload()
    listener = bind(config)
    print(build_url(*listener.getsockname()[:2]), flush=True)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    run_gateway(config, listener, read, is_child=True)


def _stop_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        run_child_gateway(sys.argv[1])
    except DragomanError as error:
        sys.exit(f"{error.message} ({error.hint})" if error.hint else error.message)
