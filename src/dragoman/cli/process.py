"""Runs a gateway in this process, for `serve` and as the child process of `run`.

A running gateway writes a notice with its address into the state folder, so that other commands find it even
if its port was chosen freely or its configuration file is broken by now.

`python -m dragoman.cli.process FILE` is that child: it prints its address as one line on stdout, and it
stops when stdin is closed. So it cannot outlive `dragoman run`, however that process ends.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.cli.connection import build_url
from dragoman.config.find import find_config, find_state_folder, identify_config
from dragoman.config.model import Config
from dragoman.config.settings import Secret
from dragoman.doctor.endpoint import DOCTOR_ENDPOINTS
from dragoman.exchange.storage import build_storage
from dragoman.hub.errors import ConfigError, DragomanError
from dragoman.server.admin_token import find_or_create_token
from dragoman.server.reload_signal import ignore_early_reload
from dragoman.server.run import bind, serve
from dragoman.server.workers import Supervisor, WorkerSockets
from dragoman.telemetry.log import log_warning, set_up_logging

#: The variable in which `run` passes a client key to its child gateway.
KEY_VARIABLE = "DRAGOMAN_COMPANION_KEY"


class GatewayNotice(msgspec.Struct, frozen=True):
    """The address, the state folder, the process id and the configuration file of a running gateway."""

    url: str
    state: str
    process: int
    config: str = ""


def read_notice(config_path: str, environment: Mapping[str, str]) -> GatewayNotice | None:
    """The notice of the last gateway with this configuration file. That gateway may have stopped since."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_notice_path(config_path, environment).read_bytes(), type=GatewayNotice)
    return None


def find_loaded_file(url: str, environment: Mapping[str, str]) -> str:
    """The configuration file of the gateway at this address, by its notice; empty if there is none."""
    for path in find_state_folder(Config(), environment).glob("gateway-*.json"):
        with suppress(OSError, msgspec.MsgspecError):
            notice = msgspec.json.decode(path.read_bytes(), type=GatewayNotice)
            if notice.url == url and notice.config:
                return notice.config
    return ""


def write_notice(config_path: str, notice: GatewayNotice, environment: Mapping[str, str]) -> None:
    """Write the address of this gateway to a file, for other commands. Errors of the file are ignored."""
    path = _notice_path(config_path, environment)
    temporary = path.with_suffix(f".{notice.process}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(notice))
        os.replace(temporary, path)


def remove_notice(config_path: str, notice: GatewayNotice, environment: Mapping[str, str]) -> None:
    """Remove the notice, unless another gateway has replaced it."""
    if read_notice(config_path, environment) == notice:
        with suppress(OSError):
            _notice_path(config_path, environment).unlink()


def _notice_path(config_path: str, environment: Mapping[str, str]) -> Path:
    """One path per configuration file, always in the default state folder: the file may name another one."""
    return find_state_folder(Config(), environment) / f"gateway-{identify_config(config_path)}.json"


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


def run_workers(config: Config, sockets: Sequence[WorkerSockets], read: Callable[[], Config]) -> None:
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
        )

    url = build_url(*sockets[0].public.getsockname()[:2])
    file = str(Path(config.path).absolute()) if config.path else ""
    notice = GatewayNotice(url, str(folder.absolute()), os.getpid(), file)
    write_notice(config.path, notice, os.environ)
    try:
        Supervisor(sockets, work).run()
    finally:
        remove_notice(config.path, notice, os.environ)


def run_gateway(config: Config, listener: socket.socket, read: Callable[[], Config]) -> None:
    """Serve on the listener until a signal stops the process. `read` is called for every reload."""
    folder = find_state_folder(config, os.environ)
    token = _open_token(folder, config.server.log)
    url = build_url(*listener.getsockname()[:2])
    notices: dict[str, GatewayNotice] = {}

    def announce(loaded: Config) -> Config:
        # A gateway that starts without a file may load one later.
        if loaded.path not in notices:
            file = str(Path(loaded.path).absolute()) if loaded.path else ""
            notices[loaded.path] = GatewayNotice(url, str(folder.absolute()), os.getpid(), file)
            write_notice(loaded.path, notices[loaded.path], os.environ)
        return loaded

    def withdraw() -> None:
        for path, notice in notices.items():
            remove_notice(path, notice, os.environ)

    serve(
        announce(config),
        [listener],
        build_storage(config, folder),
        read=lambda: announce(read()),
        admin_token=token,
        endpoints=DOCTOR_ENDPOINTS,
        at_end=withdraw,
    )


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
    run_gateway(config, listener, read)


def _stop_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        run_child_gateway(sys.argv[1])
    except DragomanError as error:
        sys.exit(f"{error.message} ({error.hint})" if error.hint else error.message)
