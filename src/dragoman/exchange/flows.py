"""The lanes a reply can take: forwarded byte by byte, or written anew.

Both read the reply as it passes, so that its usage, its ending and its first word are known either way.
"""

from typing import Protocol

from dragoman.dialects.base import Audience, Dialect, StreamReader
from dragoman.hub.events import ReplyFailed
from dragoman.hub.tally import Tally


class Flow(Protocol):
    """Bytes of the upstream in, bytes for the client out."""

    tally: Tally

    def feed(self, data: bytes) -> bytes: ...

    def close(self) -> bytes: ...

    def fail(self, failure: ReplyFailed) -> bytes: ...


class ForwardFlow:
    """Client and upstream speak the same dialect and nothing changes: the bytes go on as they are."""

    def __init__(self, reader: StreamReader, dialect: Dialect) -> None:
        self._reader = reader
        self._dialect = dialect
        self.tally = Tally()

    def feed(self, data: bytes) -> bytes:
        for event in self._reader.feed(data):
            self.tally.note(event)
        return data

    def close(self) -> bytes:
        """Nothing to add, unless the upstream fell silent in the middle: then the client is told."""
        for event in self._reader.close():
            self.tally.note(event)
            if isinstance(event, ReplyFailed):
                return self._tail(event)
        return b""

    def fail(self, failure: ReplyFailed) -> bytes:
        if self.tally.ending is not None:
            return b""
        self.tally.note(failure)
        return self._tail(failure)

    def _tail(self, failed: ReplyFailed) -> bytes:
        """The ending alone, behind whatever was forwarded; a cut frame is finished by the blank line."""
        writer = self._dialect.stream_writer(Audience(upstream=self._dialect.name))
        if self.tally.started:
            writer.write(self.tally.started)
        return b"\n\n" + writer.write(failed)
