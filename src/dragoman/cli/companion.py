"""A gateway that lives as long as the `dragoman run` that started it.

It tells its address in one line on stdout, and ends when stdin does: so it cannot outlive its starter,
however that one dies.
"""

import os
import signal
import sys
import threading

import msgspec

from dragoman.cli.door import KEY_VARIABLE
from dragoman.cli.start import Source, serve_here
from dragoman.config.model import Config, Secret
from dragoman.hub.errors import DragomanError
from dragoman.server.run import bind


def main(path: str) -> None:
    source = Source(path)
    own_key = os.environ.pop(KEY_VARIABLE, "")

    def read() -> Config:
        config = source.read()
        keys = (*config.server.keys, Secret(own_key)) if own_key else config.server.keys
        server = msgspec.structs.replace(config.server, host="127.0.0.1", port=0, keys=keys)
        return msgspec.structs.replace(config, server=server)

    config = read()
    listener = bind(config)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    serve_here(config, listener, read)


def _end_with_starter() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except DragomanError as error:
        sys.exit(f"{error.message} ({error.hint})" if error.hint else error.message)
