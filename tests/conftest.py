"""What every test shares: no way out to the network, and reproducible properties where that matters.

The guard is an audit hook, so it also covers sockets that libraries open behind our back.
"""

import ipaddress
import os
import sys

from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=bool(os.environ.get("CI")), print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# Where each audited call keeps the host, or an address whose first item is the host.
ADDRESS_POSITION = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.getaddrinfo": 0}


def reaches_only_this_machine(host: object) -> bool:
    """Whether a host, as the socket calls accept it, is loopback or no host at all."""
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host is None or host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def refuse_the_network(event: str, arguments: tuple[object, ...]) -> None:
    """Raise when a socket call would leave this machine."""
    position = ADDRESS_POSITION.get(event)
    if position is None:
        return
    target = arguments[position]
    if isinstance(target, tuple):
        target = target[0]
    elif event != "socket.getaddrinfo":
        return  # a local socket: its address is a path
    if not reaches_only_this_machine(target):
        raise RuntimeError(f"{event} to {target!r}: tests do not reach the network")


sys.addaudithook(refuse_the_network)
