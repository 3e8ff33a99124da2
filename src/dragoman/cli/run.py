"""`dragoman run AGENT`: start an agent against the gateway, and the gateway too if none is running."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click

from dragoman.cli.door import KEY_VARIABLE, address, door_options, door_to
from dragoman.cli.launch import AGENTS, Agent, past_proxies, settled
from dragoman.cli.state import has_stored_keys
from dragoman.config.find import find_config
from dragoman.config.model import Config
from dragoman.hub.errors import ConfigError
from dragoman.server.admin_token import VARIABLE

#: Signals that are meant for the agent, where the system has them.
_PASSED_ON = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_QUOTED_LOG = 800
#: Seconds that a gateway gets to begin to answer, and to end in order.
_PATIENCE = 3.0


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@door_options
@click.option("--log", "log_path", metavar="FILE", help="Keep the log of a gateway that is started here.")
@click.argument("agent", type=click.Choice(list(AGENTS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    path: str | None,
    model: str,
    url: str,
    key: str,
    log_path: str | None,
    agent: str,
    arguments: tuple[str, ...],
) -> None:
    """Start AGENT against the gateway, with your own settings left alone.

    \b
    dragoman run claude
    dragoman run claude -p "read README.md"
    dragoman run --model local/qwen3-coder codex exec "explain this repository"

    Options go before the agent's name; everything after it goes to the agent. If no gateway answers where
    the configuration says, one is started on a free port, and it ends with the agent. Without a
    configuration it serves the embedded model: enough to see your agent work.
    """
    chosen = AGENTS[agent]
    program = _installed(chosen)
    with ExitStack() as stack:
        config = None if url else find_config(path, os.environ, secrets=False)
        if config is not None:
            url = running_at(config)
            if not url:
                own_key = _own_key(config) if not key else ""
                url, key = stack.enter_context(_companion(config, log_path, own_key)), key or own_key
            # A file in the working directory may be somebody else's, and decides where everything goes.
            source = config.path or "no configuration: the embedded model answers"
            click.echo(f"gateway: {url} ({source})", err=True)
        door = door_to(chosen, url, config, key=key, model=model)
        if door.model and not model:
            click.echo(f"model: {door.model} (--model chooses another)", err=True)
        launch = chosen.launch(door)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dragoman-"))
        launch = settled(launch, Path(folder), os.environ)
        # An agent is a client, not the gateway's operator.
        dropped = {*launch.unset, VARIABLE}
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        environment = past_proxies({**kept, **launch.environment})
        given = arguments[1:] if arguments[:1] == ("--",) else arguments
        code = _in_foreground([program, *launch.arguments, *given], environment)
    sys.exit(code)


def _own_key(config: Config) -> str:
    """A key for the agent that a gateway of our own is for: of stored keys only the hashes are known."""
    return secrets.token_urlsafe(32) if not config.server.keys and has_stored_keys(config) else ""


def _installed(agent: Agent) -> str:
    program = shutil.which(agent.program)
    if program is None:
        raise ConfigError(
            f"{agent.title} is not installed: there is no `{agent.program}` on the PATH",
            hint=f"npm install -g {agent.package}",
        )
    return program


def running_at(config: Config) -> str:
    """The address of a gateway that already runs where the configuration says, or nothing."""
    url = address(config)
    host = url.removeprefix("http://").rpartition(":")[0].strip("[]")
    try:
        with socket.create_connection((host, config.server.port), timeout=0.5) as probe:
            # It listens before it is ready to answer.
            probe.settimeout(_PATIENCE)
            probe.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: probe.recv(4096), b""))
    except OSError:
        return ""
    return url if b'"service":"dragoman"' in answer else ""


@contextmanager
def _companion(config: Config, log_path: str | None, key: str) -> Iterator[str]:
    """The address of a gateway of our own, for as long as the context lasts; `key` opens it."""
    with _log(log_path) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.cli.companion", config.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, KEY_VARIABLE: key},
            # Ctrl-C is meant for the agent.
            start_new_session=True,
        )
        try:
            url = process.stdout.readline().decode().strip() if process.stdout else ""
            if not url:
                process.wait()
                log.seek(0)
                said = log.read().decode("utf-8", "replace").strip()
                raise ConfigError(f"the gateway did not start: {said[-_QUOTED_LOG:]}")
            yield url
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The agent is gone, so there is nobody to finish a stream for."""
    process.terminate()
    try:
        process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _log(path: str | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    try:
        return open(path, "w+b")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _in_foreground(command: list[str], environment: dict[str, str]) -> int:
    """Run the agent on this terminal; Ctrl-C is the agent's to answer, not ours."""
    process = subprocess.Popen(command, env=environment)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: process.send_signal(number))
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        # As shells tell that a signal ended it.
        return 128 - code if code < 0 else code
