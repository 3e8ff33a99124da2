"""`dragoman start`, `stop` and `logs`: a gateway in the background, its end and its log file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import click

from dragoman.cli.connection import ANSWER_TIMEOUT, program_name
from dragoman.cli.formats import config_option, print_warnings
from dragoman.cli.notices import GatewayNotice, find_live_notice, list_live_notices, notice_path
from dragoman.cli.serve import check_detail, serve_options
from dragoman.config.find import find_config, find_config_path
from dragoman.hub.errors import ConfigError

#: Seconds for a gateway to answer after its start, and for a notice of waiting after `stop`.
START_TIMEOUT = 60.0
PATIENCE = 2.0
#: Seconds between two looks at a process or a file.
INTERVAL = 0.1
#: Characters of the log that an error message quotes.
QUOTED_LOG = 800


@click.command()
@serve_options
def start(path: str | None, verbose: bool, quiet: bool, **changes: Any) -> None:
    """Start the gateway in the background. It outlives this terminal.

    \b
    dragoman start
    dragoman start --port 8500 --workers 2
    dragoman logs --follow
    dragoman stop

    The log goes to a file in the state folder; it is renamed at 10 MB, and two files are kept. A gateway that
    already runs with this configuration is not started again.
    """
    if os.name != "posix":
        raise ConfigError("`start` needs Linux or macOS", hint="use `dragoman serve`, or a service manager")
    check_detail(verbose=verbose, quiet=quiet)
    config = find_config(path, os.environ)
    running = find_live_notice(config.path, os.environ)
    if running and not running.is_child:
        click.echo(f"a gateway already runs at {running.url} (process {running.process})")
        return
    options = {**changes, "verbose": verbose, "quiet": quiet, "config": path}
    log = find_log(config.path)
    notice = _start_process(log, config.path, list(_write_options(options)))
    program = program_name()
    click.echo(f"dragoman runs at {notice.url} (process {notice.process})")
    print_warnings(config)
    click.echo(f"  log   {program} logs   ({log})\n  stop  {program} stop", err=True)


def _write_options(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if value is True:
            yield f"--{name}"
        elif value is not None and value is not False:
            yield from (f"--{name}", str(value))


def _start_process(log: Path, config_path: str, options: list[str]) -> GatewayNotice:
    """Start a gateway that writes this log, and return its notice when it answers."""
    with _open_log(log) as file:
        begin = file.seek(0, os.SEEK_END)
        process = subprocess.Popen(  # noqa: S603 (our own program and options)
            [sys.executable, "-m", "dragoman", "serve", "--log-file", str(log), *options],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # The signals of this terminal do not reach it.
            start_new_session=True,
        )
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        notice = find_live_notice(config_path, os.environ)
        if notice and notice.process == process.pid and _is_ready(notice.url):
            return notice
        time.sleep(INTERVAL)
    process.terminate()
    process.wait()
    with log.open("rb") as file:
        file.seek(begin)
        text = file.read().decode("utf-8", "replace").strip()
    raise ConfigError(f"the gateway did not start: {text[-QUOTED_LOG:].removeprefix('error: ')}")


def _open_log(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    except OSError as error:
        raise ConfigError(
            f"cannot write the log file {path}: {error.strerror}", hint="use `dragoman serve`"
        ) from None


def _is_ready(url: str) -> bool:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_TIMEOUT)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def find_log(config_path: str) -> Path:
    """The log file of a background gateway with this configuration file."""
    return notice_path(config_path, os.environ).with_suffix(".log")


@click.command()
@config_option
@click.option("--now", is_flag=True, help="Do not wait for open exchanges.")
def stop(path: str | None, now: bool) -> None:
    """Stop the gateway that runs with this configuration, in the background or in another terminal.

    Open exchanges have `server.drain` seconds to finish.
    """
    config_path = find_config_path(path, os.environ)
    notice = find_live_notice(config_path, os.environ)
    if notice is None or notice.is_child:
        source = f"with {config_path}" if config_path else "without a configuration file"
        click.echo(f"no gateway runs {source}")
        for other in list_live_notices(os.environ):
            option = f" --config {other.config}" if other.config else ""
            owner = "it stops with its agent" if other.is_child else f"{program_name()} stop{option}"
            click.echo(f"  another runs at {other.url}: {owner}")
        return
    _signal(notice, signal.SIGTERM)
    begin, is_shown = time.monotonic(), False
    # The lock of the notice ends with the process, so no other process is ever signalled.
    while find_live_notice(config_path, os.environ) == notice:
        time.sleep(INTERVAL)
        if now:
            _signal(notice, signal.SIGINT)
        elif not is_shown and time.monotonic() > begin + PATIENCE:
            is_shown = True
            click.echo("waiting for open exchanges; `dragoman stop --now` ends them", err=True)
    click.echo(f"stopped the gateway at {notice.url} (process {notice.process})")


def _signal(notice: GatewayNotice, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(notice.process, number)


@click.command()
@config_option
@click.option("--lines", "-n", type=click.IntRange(0), default=50, show_default=True, help="Last lines.")
@click.option("--follow", "-f", is_flag=True, help="Show new lines, until Ctrl-C.")
def logs(path: str | None, lines: int, follow: bool) -> None:
    """Show the log of a gateway that `start` has started, also after its end."""
    log = find_log(find_config_path(path, os.environ))
    older = log.with_name(f"{log.name}.1")
    if not log.exists():
        raise ConfigError(f"there is no log {log}", hint="`dragoman start` writes one")
    text = b"".join(each.read_bytes() for each in (older, log) if each.exists())
    for line in text.splitlines()[-lines:] if lines else ():
        click.echo(line.decode("utf-8", "replace"))
    if follow:
        with suppress(KeyboardInterrupt):
            follow_log(log, lambda data: click.echo(data.decode("utf-8", "replace"), nl=False))


def follow_log(log: Path, show: Callable[[bytes], None]) -> None:
    """Show what is added to the file. A file that was renamed is read to its end before the new one."""
    position = log.stat().st_size
    while True:
        with log.open("rb") as file:
            file.seek(position)
            while _is_current(file, log):
                _show_rest(file, show)
                time.sleep(INTERVAL)
            _show_rest(file, show)
        position = 0


def _is_current(file: IO[bytes], log: Path) -> bool:
    # Between its renaming and the next line there is no file.
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), log.stat())
    return True


def _show_rest(file: IO[bytes], show: Callable[[bytes], None]) -> None:
    if data := file.read():
        show(data)
