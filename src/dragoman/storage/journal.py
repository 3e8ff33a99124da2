"""Journals: small files with what a process will write to a database a moment later.

A line is appended before the client gets the end of its reply. That is one write to the cache of the system,
which the end of the process does not undo. The file is locked while its process runs: another process that
gets the lock takes over what a process that was killed has left.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

#: None where files cannot be locked. Then there are no journals.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

#: Seconds that a write may take; a busy processor alone makes it more than 0.02. After a longer one, the
#: journal is not used for `PAUSE_FACTOR` times as long: a slow disk holds the event loop for 1 % of the time
#: at most.
MAX_SECONDS = 0.1
PAUSE_FACTOR = 100
#: Seconds that the journal is not used after a write that failed.
FAILURE_PAUSE = 10.0


class LockedFile(NamedTuple):
    """A file that this process has locked."""

    descriptor: int
    path: Path

    def delete(self) -> None:
        with suppress(OSError):
            self.path.unlink()
        self.release()

    def release(self) -> None:
        """Close the file, so that another process can take it."""
        with suppress(OSError):
            os.close(self.descriptor)


class JournalWriter:
    """Appends lines to a file in `folder` whose name matches `pattern`. `clock` returns seconds.

    A subclass begins a new file when this one is long. It deletes a file when all its lines are in the
    database.
    """

    def __init__(self, folder: Path, pattern: str, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._pattern = pattern
        self._clock = clock
        self._file: LockedFile | None = None
        #: Bytes of the file.
        self._size = 0
        #: The last line is not whole, because the disk was full.
        self._is_line_incomplete = False
        self._paused_until = 0.0

    def append_line(self, data: bytes) -> bool:
        """Write a line, which ends with a line feed. False: the journal cannot be used now."""
        began = self._clock()
        if fcntl is None or began < self._paused_until:
            return False
        try:
            if self._file is None:
                self._file = create_locked(self._folder, self._pattern)
            if self._is_line_incomplete:
                data = b"\n" + data
            written = os.write(self._file.descriptor, data)
        except OSError:
            written = 0
        self._size += written
        ended = self._clock()
        if written != len(data):
            self._is_line_incomplete = True
            self._paused_until = ended + FAILURE_PAUSE
            return False
        self._is_line_incomplete = False
        if ended - began > MAX_SECONDS:
            self._paused_until = ended + PAUSE_FACTOR * (ended - began)
        return True


def create_locked(folder: Path, pattern: str) -> LockedFile:
    """A new file, locked by this process. It gets its name afterwards, so that no other one takes it."""
    path = folder / pattern.replace("*", token_hex(8))
    hidden = path.with_suffix(".new")
    file = LockedFile(os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600), hidden)
    try:
        fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(path)
    except OSError:
        file.delete()
        raise
    return file._replace(path=path)


def take_locked(folder: Path, pattern: str) -> Iterator[tuple[LockedFile, bytes]]:
    """The files whose process is gone, with their content. The caller deletes or releases each of them."""
    for path in sorted(folder.glob(pattern)) if fcntl is not None else ():
        try:
            file = LockedFile(os.open(path, os.O_RDWR), path)
        except OSError:
            continue
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file may have been taken and deleted between the two calls.
            is_left = bool(os.fstat(file.descriptor).st_nlink)
            data = path.read_bytes() if is_left else b""
        except OSError:
            # Its process is alive, or the disk fails.
            is_left = False
        if is_left:
            yield file, data
        else:
            file.release()
