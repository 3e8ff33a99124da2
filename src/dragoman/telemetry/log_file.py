"""The log file of a gateway in the background: standard output and standard error, of bounded size.

All processes of a gateway write to the file. The one that finds it full renames it, and each then opens the
new one. So no line is lost, and there are never more than two files.
"""

import logging
import os
import sys
from pathlib import Path
from typing import TextIO

#: Bytes of a file before it is renamed to `FILE.1`.
MAX_LOG_BYTES = 10_000_000


class LogFile:
    """Replaces standard output and standard error of this process, and of those that it forks later."""

    def __init__(self, path: Path, limit: int = MAX_LOG_BYTES) -> None:
        self.path = path
        self.limit = limit
        self._open()

    def _open(self) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard in (sys.stdout, sys.stderr):
            standard.flush()
            os.dup2(file, standard.fileno())
        os.close(file)

    def rotate_if_full(self) -> None:
        """Rename the file if it has reached its limit, unless another process has, and open the new one."""
        import fcntl

        current = sys.stderr.fileno()
        if os.fstat(current).st_size < self.limit:
            return
        # The lock belongs to the process, and ends when the descriptor is replaced.
        fcntl.lockf(current, fcntl.LOCK_EX)
        if self.path.exists() and os.path.samestat(os.fstat(current), self.path.stat()):
            os.replace(self.path, f"{self.path}.1")
        self._open()


class LogFileHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error, which is a log file."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(sys.stderr)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        # Before the line: the file may have been renamed twice since the last one of this process.
        try:
            self._file.rotate_if_full()
        except OSError:
            self.handleError(record)
        super().emit(record)
