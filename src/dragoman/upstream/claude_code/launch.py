"""Becomes Claude Code after asking the kernel to end it with the gateway, even one that is killed outright.

Run as a script with the gateway's process id and the command; it needs nothing of ours.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we could ask.
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
