"""The address that the gateway listens on, and the addresses that it refuses."""

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.config.config import Config
from dragoman.config.settings import ServerSettings
from dragoman.hub.errors import ConfigError
from dragoman.server.run import bind, raise_open_files


@pytest.mark.rule("R124")
def test_what_others_can_reach_is_not_even_bound_without_a_key() -> None:
    with pytest.raises(ConfigError, match="key"):
        bind(Config(server=ServerSettings(host="192.0.2.1", port=0)))


def test_an_early_client_waits_instead_of_being_refused() -> None:
    with bind(Config(server=ServerSettings(port=0))) as listener:
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_a_port_in_use_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}") as caught:
            bind(Config(server=ServerSettings(port=port)))
    assert "--port" in caught.value.hint


#: A gateway that gets the signal to reload while its modules are loaded.
EARLY_SIGNAL = """
import os, signal, sys
import dragoman.cli.main as command

def get_command(*_):
    os.kill(os.getpid(), signal.SIGHUP)
    print("alive", flush=True)
    raise SystemExit(3)

command.LazyGroup.get_command = get_command
sys.argv = ["dragoman", "serve"]
command.main()
"""


@pytest.mark.rule("S10")
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no such signal")
def test_a_signal_to_reload_does_not_end_a_gateway_that_starts(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", EARLY_SIGNAL],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"alive\n"
    assert done.returncode == 3


def test_the_limit_on_open_files_is_raised_and_never_lowered() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        raise_open_files()
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised > 256 or raised == before[1]
        raise_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
