"""Names of the processes that share the state file, and whether a named process still runs."""

import os
import secrets
import socket

#: Seconds. A process that has not renewed its entry for this time counts as dead.
PROCESS_TIMEOUT = 20.0

#: The names of this process. In a container, the process that ran before had the same number.
_OWN_NAMES: set[str] = set()


def build_process_name() -> str:
    """The host, the process id, and a random part, because the system reuses process ids."""
    name = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
    _OWN_NAMES.add(name)
    return name


def is_same_host(name: str) -> bool:
    """Whether the process runs on this machine, or on one with the same name."""
    return name.rpartition(" ")[0].rpartition(" ")[0] == socket.gethostname()


def is_process_gone(name: str) -> bool:
    """Whether the process has certainly ended. False for other hosts: their processes are not visible."""
    number = name.rpartition(" ")[0].rpartition(" ")[2]
    if os.name != "posix" or not is_same_host(name) or not number.isdecimal():
        return False
    if int(number) == os.getpid():
        return name not in _OWN_NAMES
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
