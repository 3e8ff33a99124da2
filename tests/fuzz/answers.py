"""What a client got, read by a strict parser that is not ours."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import httptools

#: Seconds after which an answer counts as a hang. Only ever reached by a bug.
PATIENCE = 30.0
#: Seconds after which this side closes its half of the connection.
WHOLE_BY_THEN = 0.25


class Answers:
    """The answers of one connection, in order."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self.are_complete: list[bool] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        self.statuses.append(self._parser.get_status_code())
        self.bodies.append(b"")
        self.are_complete.append(False)

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body

    def on_message_complete(self) -> None:
        if self.are_complete:
            self.are_complete[-1] = True


async def send_bytes(port: int, request: bytes, *, to_the_end: bool = False) -> Answers:
    """Send the bytes and read until the first whole answer, or, `to_the_end`, until the server hangs up.

    A server may wait for the rest of a request that is not whole; it must stop when it sees that nothing
    more will come. Raises TimeoutError if it does not.
    """
    answers = Answers()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    hangs_up = asyncio.get_running_loop().call_later(WHOLE_BY_THEN, writer.write_eof)
    try:
        async with asyncio.timeout(PATIENCE):
            writer.write(request)
            while to_the_end or not (answers.are_complete and answers.are_complete[-1]):
                data = await reader.read(65536)
                if not data:
                    break
                answers.feed(data)
    except (ConnectionResetError, BrokenPipeError):
        pass
    finally:
        hangs_up.cancel()
        writer.transport.abort()
    return answers


class Traces(logging.Handler):
    """Every log record that carries a traceback, or an error of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.found.append(logging.Formatter().format(record))


@contextmanager
def traces() -> Iterator[list[str]]:
    handler = Traces()
    loggers = [logging.getLogger(name) for name in ("", "dragoman", "uvicorn", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.found
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
