"""The recordings of one dialect, and the events that a stream reader makes of bytes."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dragoman.dialects.interfaces import Json, StreamReader
from dragoman.hub.events import ReplyEvent
from dragoman.hub.reply_grammar import GrammarChecker


class Recordings:
    """The files that were recorded of one dialect."""

    def __init__(self, dialect: str) -> None:
        self.folder = Path(__file__).resolve().parents[1] / "recordings" / dialect

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def read_json(self, name: str) -> Json:
        value = msgspec.json.decode(self.read(name))
        assert isinstance(value, dict)
        return value

    def names(self, pattern: str) -> list[str]:
        found = sorted(path.name for path in self.folder.glob(pattern))
        assert found, f"no recordings match {pattern}"
        return found

    def pairs(self) -> list[str]:
        """The stems of replies that were recorded whole and streamed."""
        whole = {name.removeprefix("reply-").removesuffix(".json") for name in self.names("reply-*.json")}
        streamed = {name.removeprefix("stream-").removesuffix(".sse") for name in self.names("stream-*.sse")}
        return sorted(whole & streamed)


def read_events(reader: StreamReader, pieces: Iterable[bytes]) -> list[ReplyEvent]:
    """The events of a whole stream, checked against the grammar."""
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close()
    checker = GrammarChecker()
    for event in events:
        checker.check(event)
    assert checker.is_ended
    return events
