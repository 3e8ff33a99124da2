"""The folders of sessions, and the removal of what a killed gateway left behind.

Every gateway has its own folder and holds a lock in it. A folder without a lock holder belongs to a dead
gateway: its processes are killed and it is removed. A process is killed only if its command line contains the
folder, because the system may have given its number to another process.
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

#: Absent on Windows. Without locks a dead gateway cannot be recognised; its processes end with their input.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

_PRIVATE = 0o700
FOLDER = "claude-code"
PID_FILE = "pid"


class SessionFolders:
    """The folder of one gateway. Call `open` first and `close` at the end."""

    def __init__(self, state: Path) -> None:
        self._state = state / FOLDER
        self._own = self._state / f"gateway-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None
        self._secret = b""

    def open(self) -> int:
        """Create the folder and clean up after dead gateways. Return how many processes were killed."""
        try:
            self._state.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self._state.chmod(_PRIVATE)
            with _exclusive(self._state):
                self._secret = _read_secret(self._state / "secret")
                killed = _remove_dead(self._state)
                self._own.mkdir(mode=_PRIVATE)
                self._lock = _lock(self._own)
            return killed
        except OSError as error:
            raise ConfigError(
                f"sessions cannot be kept in {self._state}: {error.strerror}",
                hint="name another folder in server.state",
            ) from None

    def create(self, session: str) -> Path:
        """Create the folder of a session's process. A session that is started again gets a new folder."""
        folder = self._own / f"{session}-{secrets.token_hex(4)}"
        for part in ("", "work", "config", "tmp"):
            (folder / part).mkdir(mode=_PRIVATE)
        return folder

    def remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self.release()
        shutil.rmtree(self._own, ignore_errors=True)

    def release(self) -> None:
        """Release the lock, as the end of the process does."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def create_id(self, owner: str) -> str:
        """Create the id of a session. It is signed, so that `is_issued` recognises it after a restart."""
        name = secrets.token_hex(10)
        return f"ses_{name}{self._sign(name, owner)}"

    def is_issued(self, session: str, owner: str) -> bool:
        """Whether the id was created for this owner."""
        name, signature = session[4:24], session[24:]
        expected = self._sign(name, owner)
        return session[:4] == "ses_" and hmac.compare_digest(signature.encode(), expected.encode())

    def _sign(self, name: str, owner: str) -> str:
        return hmac.new(self._secret, f"{name} {owner}".encode(), hashlib.sha256).hexdigest()[:12]


def remove_leftovers(state: Path) -> None:
    """Kill the processes and remove the folders of dead gateways. Called when the gateway starts.

    A folder that cannot be read is left alone.
    """
    folder = state / FOLDER
    with suppress(OSError):
        if folder.is_dir():
            with _exclusive(folder):
                _remove_dead(folder)


@contextmanager
def _exclusive(state: Path) -> Iterator[None]:
    """Lock out other gateways: a folder is not locked in the moment of its creation and would look dead."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(state, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read_secret(path: Path) -> bytes:
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(descriptor, secrets.token_bytes(32))
        os.close(descriptor)
    return path.read_bytes()


def _lock(folder: Path) -> int | None:
    """Take the lock of a folder, held while the descriptor is open. None if another gateway holds it."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
    return descriptor


def _remove_dead(state: Path) -> int:
    """Remove the folders of dead gateways. Return how many of their processes were killed."""
    return sum(_remove_if_dead(folder) for folder in state.glob("gateway-*")) if fcntl is not None else 0


def _remove_if_dead(folder: Path) -> int:
    try:
        lock = _lock(folder)
    except OSError:
        return 0
    if lock is None:
        return 0
    killed = 0
    for path in folder.glob(f"*/{PID_FILE}"):
        with suppress(OSError, ValueError):
            pid = int(path.read_text("ascii"))
            if str(folder) in _read_command_line(pid):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    os.close(lock)
    shutil.rmtree(folder, ignore_errors=True)
    return killed


def _read_command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    if Path("/proc/self").exists():
        return ""
    ps = subprocess.run(
        ["ps", "-ww", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False
    )
    return ps.stdout
