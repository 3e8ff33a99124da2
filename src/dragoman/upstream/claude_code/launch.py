"""Script that becomes Claude Code after binding its life to the gateway's.

Arguments: the gateway's process id, then the command. On Linux the kernel kills Claude Code when the gateway
ends, also when the gateway is killed with SIGKILL. Open files of the gateway are closed: uvicorn's listening
socket is inheritable, and Claude Code must not accept connections of other clients. The script imports
nothing of dragoman.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The gateway ended before the call of prctl.
        sys.exit(1)
    for name in os.listdir("/dev/fd"):
        # The list contains the descriptor of the folder itself, which is closed already.
        if int(name) > 2:
            with suppress(OSError):
                os.close(int(name))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
