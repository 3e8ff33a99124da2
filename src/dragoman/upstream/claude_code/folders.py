"""Where sessions keep their files, and how what a killed gateway left behind is found and removed.

Every gateway has a folder of its own and holds a lock in it. A folder whose lock nobody holds belongs to a
gateway that is gone: its processes are ended and it is removed. A process counts as one of ours only if its
command line names the folder, so that a number that was given out again hits nobody else.
"""

import hashlib
import hmac
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.hub.errors import ConfigError

#: Where there are no such locks nobody can tell whose gateway is gone; its processes end with their input.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

_PRIVATE = 0o700
FOLDER = "claude-code"
PID = "pid"


class Folders:
    """One gateway's folder below the state folder; made, and its predecessors cleaned up, by `open`."""

    def __init__(self, state: Path) -> None:
        self._state = state / FOLDER
        self._own = self._state / f"gateway-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None
        self._secret = b""

    def open(self) -> int:
        """Make the folder; gives how many processes of dead gateways were ended."""
        try:
            return self._open()
        except OSError as error:
            raise ConfigError(
                f"sessions cannot be kept in {self._state}: {error.strerror}",
                hint="name another folder in server.state",
            ) from None

    def _open(self) -> int:
        self._state.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        self._state.chmod(_PRIVATE)
        with _alone(self._state):
            self._secret = _secret(self._state / "secret")
            ended = _cleaned(self._state)
            self._own.mkdir(mode=_PRIVATE)
            self._lock = _locked(self._own)
        return ended

    def session(self, session: str) -> Path:
        """A folder for a session's process; one that is begun anew does not meet its earlier self there."""
        folder = self._own / f"{session}-{secrets.token_hex(4)}"
        for part in ("", "work", "config"):
            (folder / part).mkdir(mode=_PRIVATE)
        return folder

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self._let_go()
        shutil.rmtree(self._own, ignore_errors=True)

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def new_id(self, owner: str) -> str:
        """The id of an owner's session; nobody else can make one that `is_of` the owner."""
        name = secrets.token_hex(10)
        return f"ses_{name}{self._mark(name, owner)}"

    def is_of(self, session: str, owner: str) -> bool:
        name, mark = session[4:24], session[24:]
        return session[:4] == "ses_" and hmac.compare_digest(mark.encode(), self._mark(name, owner).encode())

    def _mark(self, name: str, owner: str) -> str:
        return hmac.new(self._secret, f"{name} {owner}".encode(), hashlib.sha256).hexdigest()[:12]


def remove_leftovers(state: Path) -> None:
    """End the processes and remove the folders of dead gateways. Called when the gateway starts.

    A folder that cannot be read is left alone.
    """
    folder = state / FOLDER
    with suppress(OSError):
        if folder.is_dir():
            with _alone(folder):
                _cleaned(folder)


def _cleaned(state: Path) -> int:
    return sum(_clean(folder) for folder in state.glob("gateway-*"))


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """One at a time: a folder that has just been made is not locked yet, and looks like a dead gateway's."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(state, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _secret(path: Path) -> bytes:
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(descriptor, secrets.token_bytes(32))
        os.close(descriptor)
    return path.read_bytes()


def _locked(folder: Path) -> int | None:
    """The folder's lock, held while the descriptor is open; None if somebody else holds it."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
    return descriptor


def _clean(folder: Path) -> int:
    """Remove what a dead gateway left; gives how many of its processes were still there."""
    if fcntl is None:
        return 0
    try:
        lock = _locked(folder)
    except OSError:
        return 0
    if lock is None:
        return 0
    ended = 0
    for pid in _pids(folder):
        if str(folder) in _command_line(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
    os.close(lock)
    shutil.rmtree(folder, ignore_errors=True)
    return ended


def _pids(folder: Path) -> Iterator[int]:
    for path in folder.glob(f"*/{PID}"):
        with suppress(OSError, ValueError):
            yield int(path.read_text("ascii"))


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    if Path("/proc/self").exists():
        return ""
    asked = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False
    )
    return asked.stdout
