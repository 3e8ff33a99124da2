"""Which processes share the file. One that died is known by its number, or by not having been seen."""

import os
import secrets
import socket
import sqlite3

#: Seconds after which a process that has not been seen is taken for dead.
LEASE = 20.0


def own_name() -> str:
    """The machine, the process's number there, and something that no later process of that number has."""
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


def see(connection: sqlite3.Connection, process: str, now: float) -> list[str]:
    """The process is alive; gives those others that are not any more."""
    others = dict(connection.execute("SELECT id, seen FROM processes"))
    seen = others.pop(process, None)
    # To be seen often enough is enough.
    if seen is None or not seen <= now < seen + LEASE / 8:
        connection.execute("INSERT OR REPLACE INTO processes (id, seen) VALUES (?, ?)", (process, now))
    return [other for other, last in others.items() if last < now - LEASE or is_gone(other)]


def forget(connection: sqlite3.Connection, process: str) -> None:
    connection.execute("DELETE FROM processes WHERE id = ?", (process,))


def is_gone(process: str) -> bool:
    """Whether it certainly does not run any more. Of other machines, and systems, nothing is certain."""
    host, _, rest = process.rpartition(" ")[0].rpartition(" ")
    if os.name != "posix" or host != socket.gethostname() or not rest.isdecimal():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
