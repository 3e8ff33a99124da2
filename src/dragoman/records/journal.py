"""Journals: small files that have the latest turns until these are in the records.

A turn without contents is appended to the journal of its process before the client gets the end of its reply.
That is one write to the cache of the system, which the end of the process does not undo. The recorder's
thread writes the turns to the records later, many at a time, which costs far less than one by one. What a
process that was killed left in its journal is added to the records by the next one that opens them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

#: None where files cannot be locked. Then there are no journals.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

PATTERN = "records-*.journal"
#: Bytes from which on a new journal is begun.
MAX_SIZE = 256 * 1024
#: Seconds that a write may take; a busy processor alone makes it more than 0.02. After a longer one, the
#: journal is not used for `REST` times as long: a slow disk holds the event loop for 1 % of the time at most.
MAX_SECONDS = 0.1
REST = 100
#: Seconds that the journal is not used after a write that failed.
FAILURE_REST = 10.0


class JournalEntry(msgspec.Struct):
    """A turn: its row, and its details as JSON."""

    row: dict[str, Any]
    details: msgspec.Raw


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JournalEntry)


class Journal:
    """The journal of this process. `append` is called on the event loop, the rest by the recorder's thread.

    `clock` returns the date. A file that was replaced is deleted when the next one is replaced: then all its
    turns are in the records.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._file: tuple[int, Path] | None = None
        self._replaced: tuple[int, Path] | None = None
        self._size = 0
        self._rests_until = 0.0

    def append(self, entry: JournalEntry) -> bool:
        """Write one turn. False: the journal cannot be used now."""
        began = self._clock()
        if fcntl is None or began < self._rests_until:
            return False
        try:
            if self._file is None:
                self._file = self._create()
            data = _ENCODER.encode(entry) + b"\n"
            is_whole = os.write(self._file[0], data) == len(data)
        except OSError:
            is_whole = False
        self._size += len(data) if is_whole else MAX_SIZE
        ended = self._clock()
        if not is_whole:
            self._rests_until = ended + FAILURE_REST
        elif ended - began > MAX_SECONDS:
            self._rests_until = ended + REST * (ended - began)
        return is_whole

    def replace_if_long(self) -> None:
        """Begin a new file if this one is long. Called when all turns that were taken are in the records."""
        if self._size < MAX_SIZE or self._file is None:
            return
        try:
            created = self._create()
        except OSError:
            return
        _delete(self._replaced)
        self._replaced, self._file, self._size = self._file, created, 0

    def close(self) -> None:
        """Delete the files. Called when all turns are in the records."""
        _delete(self._replaced)
        _delete(self._file)
        self._replaced = self._file = None

    def _create(self) -> tuple[int, Path]:
        """A new file, locked by this process. It gets its name afterwards, so that no other one takes it."""
        path = self._folder / PATTERN.replace("*", token_hex(8))
        hidden = path.with_suffix(".new")
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(path)
        except OSError:
            _delete((descriptor, hidden))
            raise
        return descriptor, path


def take_journals(folder: Path) -> Iterator[list[JournalEntry]]:
    """The turns of each journal whose process is gone. The journal is deleted when the next one is taken."""
    for path in sorted(folder.glob(PATTERN)) if fcntl is not None else ():
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file may have been taken and deleted between the two calls.
            if os.fstat(descriptor).st_nlink:
                yield list(_read_entries(path.read_bytes()))
                path.unlink()
        except OSError:
            # Its process is alive, or the disk fails.
            continue
        finally:
            os.close(descriptor)


def _read_entries(data: bytes) -> Iterator[JournalEntry]:
    for line in data.splitlines():
        # The last line is incomplete if the disk was full.
        with suppress(msgspec.DecodeError):
            yield _DECODER.decode(line)


def _delete(file: tuple[int, Path] | None) -> None:
    if file is not None:
        with suppress(OSError):
            file[1].unlink()
        with suppress(OSError):
            os.close(file[0])
