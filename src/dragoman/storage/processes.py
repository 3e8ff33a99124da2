"""Names of the processes that share the state file, and whether a named process still runs."""

import os
import secrets
import socket

#: Seconds. A process that has not renewed its entry for this time counts as dead.
LEASE = 20.0


def build_process_name() -> str:
    """The host, the process id, and a random part, because the system reuses process ids."""
    return f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"


def is_process_gone(name: str) -> bool:
    """Whether the process has certainly ended. False for other hosts: their processes are not visible."""
    host, _, number = name.rpartition(" ")[0].rpartition(" ")
    if os.name != "posix" or host != socket.gethostname() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
