"""Idle connections to one origin, the freshest first. They go when they have been idle for too long."""

import asyncio

from dragoman.upstream.http.connection import Connection

#: Seconds. Servers close idle connections after anything from five seconds on.
LONGEST_IDLE = 60.0
#: Connections. After a rush the rest are let go.
MOST_IDLE = 100


class Pool:
    def __init__(self) -> None:
        self._idle: list[Connection] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self) -> Connection | None:
        """A connection that was open when last heard of; its server may have thought better of it since."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed:
                return connection
        return None

    def give_back(self, connection: Connection) -> None:
        if self._is_closed or len(self._idle) >= MOST_IDLE:
            connection.abort()
            return
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(LONGEST_IDLE, self._swept, connection.loop)

    def close(self) -> None:
        self._is_closed = True
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
        if self._sweep is not None:
            self._sweep.cancel()

    def _swept(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has been idle for too long, and forget what has closed."""
        now = loop.time()
        kept = [
            connection
            for connection in self._idle
            if not connection.is_closed and now - connection.idle_since < LONGEST_IDLE
        ]
        for connection in set(self._idle).difference(kept):
            connection.abort()
        self._idle = kept
        self._sweep = loop.call_later(LONGEST_IDLE / 4, self._swept, loop) if kept else None
