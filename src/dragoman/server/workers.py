"""Several worker processes behind one port: `dragoman serve --workers N`.

The supervisor opens the sockets, forks the workers, replaces those that end, and passes signals on. It serves
nothing itself. Each worker has two sockets: one of the common port, and one of its own on loopback, by which
the other workers ask it for its status. The sockets stay open in the supervisor: connections that come while
a worker is replaced wait for the next one.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn

from dragoman.config.config import Config
from dragoman.hub.errors import ConfigError
from dragoman.server.reload_signal import has_terminal
from dragoman.server.run import BACKLOG, bind
from dragoman.telemetry.log import log_warning

#: Whether the system divides new connections among sockets with `SO_REUSEPORT`. macOS has the option too, but
#: gives all connections to one of the sockets.
DIVIDES_CONNECTIONS = sys.platform == "linux"
#: Seconds. A worker that ends sooner is started again only after a pause.
SHORT_LIFE = 5.0
MAX_PAUSE = 5.0


class WorkerSockets(NamedTuple):
    """The sockets of one worker: of the common port, and its own."""

    public: socket.socket
    own: socket.socket


def open_sockets(config: Config, count: int, *, has_stored_keys: bool = False) -> list[WorkerSockets]:
    """The sockets of all workers: one for each where the system divides connections, else one for all."""
    if os.name != "posix":
        raise ConfigError("--workers needs a system with fork, such as Linux", hint="start several gateways")
    first = bind(config, has_stored_keys=has_stored_keys)
    publics = [first] * count
    if DIVIDES_CONNECTIONS and count > 1:
        # Bound without the option first: so a port that another gateway uses is still an error.
        address, family = first.getsockname(), first.family
        first.close()
        publics = [_bind_shared(family, address) for _ in range(count)]
    return [WorkerSockets(public, _bind_own()) for public in publics]


def _bind_shared(family: int, address: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(address)
    listener.listen(BACKLOG)
    return listener


def _bind_own() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    return listener


class Supervisor:
    """Forks a worker for each of the sockets and watches them. `work` serves with the sockets of one."""

    def __init__(self, sockets: Sequence[WorkerSockets], work: Callable[[int], None]) -> None:
        self._count = len(sockets)
        self._work = work
        self._in_terminal = has_terminal()
        #: The number of each running worker, and when each began.
        self._running: dict[int, int] = {}
        self._begun = [0.0] * self._count
        self._pauses = [0.0] * self._count
        self._is_stopping = False
        #: Closed by the end of the supervisor, however it ends.
        self._life = os.pipe()

    def run(self) -> None:
        """Run until a signal stops it and all workers have ended."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._handle_sighup)
        for number in range(self._count):
            self._start(number)
        while self._running:
            process, status = os.waitpid(-1, 0)
            number = self._running.pop(process, -1)
            if number >= 0 and not self._is_stopping:
                log_warning("a worker has ended and is replaced", process=process, status=status)
                self._replace(number)

    def _replace(self, number: int) -> None:
        is_short = time.monotonic() - self._begun[number] < SHORT_LIFE
        self._pauses[number] = min(MAX_PAUSE, self._pauses[number] * 2 or 0.1) if is_short else 0.0
        deadline = time.monotonic() + self._pauses[number]
        while not self._is_stopping and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self._is_stopping:
            self._start(number)

    def _start(self, number: int) -> None:
        self._begun[number] = time.monotonic()
        process = os.fork()
        if process == 0:
            self._run_worker(number)
        self._running[process] = number

    def _run_worker(self, number: int) -> NoReturn:
        status = 1
        try:
            # Signals of the terminal go to the supervisor, which passes them on.
            os.setpgid(0, 0)
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(each, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.close(self._life[1])
            threading.Thread(target=_stop_with, args=(self._life[0],), daemon=True).start()
            self._work(number)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(status)

    def _stop(self, _number: int, _frame: object) -> None:
        # After the second signal a worker waits for no exchange.
        self._signal(signal.SIGINT if self._is_stopping else signal.SIGTERM)
        self._is_stopping = True

    def _handle_sighup(self, number: int, frame: object) -> None:
        """Reload all workers. A closing terminal sends the same signal: then stop."""
        if self._in_terminal and not has_terminal():
            self._stop(number, frame)
        else:
            self._signal(signal.SIGHUP)

    def _signal(self, number: int) -> None:
        for process in tuple(self._running):
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _stop_with(life: int) -> None:
    """Stop this worker when the supervisor has ended."""
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)
