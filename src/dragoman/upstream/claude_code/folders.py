"""The folders of sessions, the records that outlive them, and the removal of what a killed gateway left.

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
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from dragoman.hub.errors import ConfigError
from dragoman.providers.local_programs import LOCAL_PROGRAMS

#: Absent on Windows. Without locks a dead gateway cannot be recognised; its processes end with their input.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

_PRIVATE = 0o700
FOLDER = LOCAL_PROGRAMS["claude_code"].state_folder
PID_FILE = "pid"
#: Records that are kept; the oldest are removed.
MAX_RECORDS = 1000


class SessionFolders:
    """The folder of one gateway. Call `open` first and `close` at the end."""

    def __init__(self, state: Path) -> None:
        self._state = state / FOLDER
        self._own = self._state / f"gateway-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock: int | None = None
        self._secret = b""
        self.records = SessionRecords(self._state / "records")

    def open(self, secret: bytes = b"") -> int:
        """Create the folder and clean up after dead gateways. Return how many processes were killed.

        `secret` signs session ids; gateways with the same secret recognise each other's ids.
        """
        try:
            self._state.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self._state.chmod(_PRIVATE)
            with _exclusive(self._state):
                self._secret = secret or _read_secret(self._state / "secret")
                killed = _remove_dead(self._state)
                self._own.mkdir(mode=_PRIVATE)
                self._lock = _lock(self._own)
            self.records.load()
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


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What outlives a session, for callers that send results or no tools after its end.

    It has the declarations of the caller's tools and the ids of the open calls, and no content of the
    conversation.
    """

    session: str
    owner: str
    outline: str
    calls: tuple[str, ...] = ()
    #: Wall clock time at which the calls were sent to the caller.
    sent: float = 0.0
    tools: msgspec.Raw = msgspec.Raw(b"[]")


class SessionRecords:
    """One file per session, written each time the session begins to wait. Call `load` first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: Without tools, which are read from the file when they are needed. The oldest first.
        self._records: OrderedDict[str, SessionRecord] = OrderedDict()
        self._by_outline: dict[str, str] = {}
        self._by_call: dict[str, str] = {}

    def load(self) -> None:
        """Read the records of earlier gateways. A file that is damaged is ignored."""
        self._folder.mkdir(mode=_PRIVATE, exist_ok=True)
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
            with suppress(OSError, msgspec.DecodeError):
                self._add(msgspec.json.decode(path.read_bytes(), type=SessionRecord))

    def save(self, record: SessionRecord) -> None:
        self._add(record)
        new = self._folder / f"{record.session}.new"
        with suppress(OSError):
            with open(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(record))
            new.replace(self._path(record))

    def find_tools(self, session: str, owner: str, outline: str) -> list[dict[str, Any]] | None:
        """Find the tools of a session: by its id, else by the outline of its history."""
        for name in (session, self._by_outline.get(outline, "")):
            record = self._records.get(name)
            if record is not None and record.owner == owner:
                with suppress(OSError, msgspec.DecodeError):
                    saved = msgspec.json.decode(self._path(record).read_bytes(), type=SessionRecord)
                    return msgspec.json.decode(saved.tools, type=list[dict[str, Any]])
        return None

    def find_call(self, call: str, owner: str) -> SessionRecord | None:
        """Find the session that waits, or waited, for the result of a call."""
        record = self._records.get(self._by_call.get(call, ""))
        return record if record is not None and record.owner == owner else None

    def _add(self, record: SessionRecord) -> None:
        self._forget(record.session)
        self._records[record.session] = msgspec.structs.replace(record, tools=msgspec.Raw(b"[]"))
        self._by_outline[record.outline] = record.session
        self._by_call |= dict.fromkeys(record.calls, record.session)
        while len(self._records) > MAX_RECORDS:
            oldest = next(iter(self._records))
            self._path(self._records[oldest]).unlink(missing_ok=True)
            self._forget(oldest)

    def _forget(self, session: str) -> None:
        record = self._records.pop(session, None)
        if record is not None:
            self._by_outline.pop(record.outline, None)
            for call in record.calls:
                self._by_call.pop(call, None)

    def _path(self, record: SessionRecord) -> Path:
        return self._folder / f"{record.session}.json"


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
