"""The journal of the records: it has the latest turns until these are in the records.

The recorder's thread writes the turns to the records many at a time, which costs far less than one by one.
What a process that was killed left in its journal is added to the records by the next one that opens them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from dragoman.records.stored_turn import Row, TurnRow, build_stored_row
from dragoman.storage.journal import JournalWriter, LockedFile, create_locked, take_locked

PATTERN = "records-*.journal"
#: Bytes from which on a new journal is begun.
MAX_SIZE = 256 * 1024


class JournalEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A turn: its row, and its details as JSON."""

    row: TurnRow
    details: msgspec.Raw


class EarlierEntry(msgspec.Struct):
    """A turn in the journal of an earlier version: its row with the names of the columns."""

    row: Row
    details: msgspec.Raw


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JournalEntry)
_EARLIER = msgspec.json.Decoder(EarlierEntry)


class Journal(JournalWriter):
    """The journal of this process. `append` is called on the event loop, the rest by the recorder's thread.

    A file that was replaced is deleted when the next one is replaced: then all its turns are in the records.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        super().__init__(folder, PATTERN, clock)
        self._replaced: LockedFile | None = None

    def append(self, entry: JournalEntry) -> bool:
        """Write one turn. False: the journal cannot be used now."""
        return self.append_line(_ENCODER.encode(entry) + b"\n")

    def replace_if_long(self) -> None:
        """Begin a new file if this one is long. Called when all turns that were taken are in the records."""
        if self._size < MAX_SIZE or self._file is None:
            return
        try:
            created = create_locked(self._folder, PATTERN)
        except OSError:
            return
        if self._replaced is not None:
            self._replaced.delete()
        self._replaced, self._file, self._size = self._file, created, 0

    def close(self) -> None:
        """Delete the files. Called when all turns are in the records."""
        for file in (self._replaced, self._file):
            if file is not None:
                file.delete()
        self._replaced = self._file = None


def take_journals(folder: Path) -> Iterator[list[JournalEntry]]:
    """The turns of each journal whose process is gone. The journal is deleted when the next one is taken."""
    for file, data in take_locked(folder, PATTERN):
        is_added = False
        try:
            yield list(_read_entries(data))
            is_added = True
        finally:
            if is_added:
                file.delete()
            else:
                file.release()


def _read_entries(data: bytes) -> Iterator[JournalEntry]:
    for line in data.splitlines():
        # The last line is incomplete if the disk was full.
        with suppress(msgspec.DecodeError):
            if line.startswith(b"{"):
                earlier = _EARLIER.decode(line)
                yield JournalEntry(build_stored_row(earlier.row), earlier.details)
            else:
                yield _DECODER.decode(line)
