"""Where log lines go: a stream, or the log file of a gateway in the background, which has a bounded size.

The log file gets standard output and standard error.

All processes of a gateway write to the file. The one that finds it full renames it, and each then opens the
new one. So no line is lost, and there are never more than two files.
"""

import logging
import os
import sys
from contextlib import nullcontext
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


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each line to a stream by one call. The standard library's handler needs six more."""

    def handle(self, record: logging.LogRecord) -> bool:
        if self.filters and not self.filter(record):
            return False
        try:
            line = self.format(record) + self.terminator
            with self.lock or nullcontext():
                self.write(line)
        except Exception:
            # A log line must not end an exchange: the standard library reports what is wrong.
            self.handleError(record)
        return True

    def write(self, line: str) -> None:
        self.stream.write(line)
        self.stream.flush()


class LogFileHandler(LineHandler):
    """Writes to standard error, which is a log file."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(sys.stderr)
        self._file = file

    def write(self, line: str) -> None:
        # Before the line: the file may have been renamed twice since the last one of this process.
        try:
            self._file.rotate_if_full()
        finally:
            super().write(line)
