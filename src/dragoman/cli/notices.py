"""Notices of running gateways: files in the state folder by which other commands find a gateway.

A gateway writes one when it starts, so that it is found even if its port was chosen freely or its
configuration file is broken by now. It holds a lock on the file until its process ends, however that ends:
a notice without a lock is of a gateway that has stopped, and its process id may belong to another program.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.config.config import Config
from dragoman.config.find import find_state_folder, identify_config

if sys.platform != "win32":
    import fcntl


class GatewayNotice(msgspec.Struct, frozen=True):
    """What other commands must know about a running gateway."""

    url: str
    state: str
    process: int
    #: The absolute path of its configuration file; empty without one.
    config: str = ""
    #: The file of its log, if it runs in the background.
    log: str = ""
    #: `dragoman run` has started it for one agent.
    is_child: bool = False


class NoticeBoard:
    """The notices of the gateway in this process: one for each configuration file that it has loaded."""

    def __init__(self, notice: GatewayNotice, environment: Mapping[str, str]) -> None:
        self._notice = notice
        self._environment = environment
        #: The open file of each configuration file, which holds the lock.
        self._files: dict[str, int] = {}

    def publish(self, config_path: str) -> None:
        """Write the notice for this configuration file, once. Errors of the file are ignored."""
        if config_path in self._files:
            return
        path = notice_path(config_path, self._environment)
        temporary = path.with_suffix(f".{self._notice.process}")
        loaded = str(Path(config_path).absolute()) if config_path else ""
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(file, msgspec.json.encode(msgspec.structs.replace(self._notice, config=loaded)))
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX)
            os.replace(temporary, path)
            self._files[config_path] = file

    def withdraw(self) -> None:
        """Remove the notices that no other gateway has replaced."""
        for config_path, file in self._files.items():
            path = notice_path(config_path, self._environment)
            with suppress(OSError):
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    path.unlink()
        self._files.clear()


def read_notice(config_path: str, environment: Mapping[str, str]) -> GatewayNotice | None:
    """The notice of the last gateway with this configuration file. That gateway may have stopped since."""
    return _read(notice_path(config_path, environment))


def find_live_notice(config_path: str, environment: Mapping[str, str]) -> GatewayNotice | None:
    """The notice of the gateway that runs with this configuration file; None if none runs."""
    path = notice_path(config_path, environment)
    return _read(path) if _is_locked(path) else None


def list_live_notices(environment: Mapping[str, str]) -> list[GatewayNotice]:
    """The notices of all gateways of this user that run, one for each address."""
    paths = sorted(find_state_folder(Config(), environment).glob("gateway-*.json"))
    found = [notice for path in paths if _is_locked(path) and (notice := _read(path))]
    return list({notice.url: notice for notice in found}.values())


def find_loaded_file(url: str, environment: Mapping[str, str]) -> str:
    """The configuration file that the notice of the gateway at `url` names; empty without such a notice."""
    for path in find_state_folder(Config(), environment).glob("gateway-*.json"):
        notice = _read(path)
        if notice and notice.url == url and notice.config:
            return notice.config
    return ""


def notice_path(config_path: str, environment: Mapping[str, str]) -> Path:
    """One path per configuration file, always in the default state folder: the file may name another one."""
    return find_state_folder(Config(), environment) / f"gateway-{identify_config(config_path)}.json"


def _read(path: Path) -> GatewayNotice | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=GatewayNotice)
    return None


def _is_locked(path: Path) -> bool:
    """Whether the gateway that wrote the notice still runs. On Windows: whether the file is there."""
    if sys.platform == "win32":
        return path.exists()
    with suppress(FileNotFoundError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
