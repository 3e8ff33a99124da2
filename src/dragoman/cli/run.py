"""`dragoman run` starts an agent with the gateway; `dragoman env` prints the same settings as shell code."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click
import msgspec

from dragoman.cli.agents import (
    AGENTS,
    Agent,
    AgentLaunch,
    GatewayAccess,
    bypass_proxies,
    is_session,
    prepare_launch,
)
from dragoman.cli.connection import (
    access_options,
    ask_for_models,
    build_access,
    check_answer,
    check_url,
    choose_key,
    find_own_gateway,
    gateway_url,
    program_name,
)
from dragoman.cli.files import has_stored_keys
from dragoman.cli.process import KEY_VARIABLE
from dragoman.cli.shells import SHELLS, build_shell_code
from dragoman.config.config import Config
from dragoman.config.find import find_config
from dragoman.hub.errors import ConfigError
from dragoman.server.admin_token import VARIABLE

#: Signals that go to the agent, where the system has them.
_FORWARDED_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
#: Characters of the log that an error message quotes.
_QUOTED_LOG = 800
#: Seconds for the gateway to stop.
_STOP_TIMEOUT = 3.0

_AGENT = click.argument("agent", type=click.Choice(list(AGENTS)))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@access_options
@click.option("--log", "log_path", metavar="FILE", help="Write the log of a gateway that is started here.")
@click.option(
    "--status-line/--no-status-line",
    "has_status_line",
    default=True,
    help="Show the gateway's status line in Claude Code, if you have none of your own.",
)
@_AGENT
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    path: str | None,
    model: str,
    url: str,
    key: str,
    log_path: str | None,
    has_status_line: bool,
    agent: str,
    arguments: tuple[str, ...],
) -> None:
    """Start AGENT with the gateway. Your own settings of the agent stay unchanged.

    \b
    dragoman run claude
    dragoman run claude -p "read README.md"
    dragoman run --model local/qwen3-coder codex exec "explain this repository"

    Options for dragoman go before the name of the agent; everything after it goes to the agent. If no gateway
    with this configuration runs at the configured address, a new one is started on a free port and stopped
    together with the agent. Without a configuration file it serves the embedded model, which is enough to see
    that your agent works.
    """
    chosen = AGENTS[agent]
    program = _find_program(chosen)
    with ExitStack() as stack:
        config = None if url else find_config(path, os.environ, secrets=False)
        if config is None:
            url = check_url(url)
            check_answer(url)
        else:
            own_key = _create_key(config) if not key else ""
            # The model and the key are checked before a gateway is started.
            build_access(chosen, "", config, key=key or own_key, model=model)
            url, is_started = _find_gateway(config, log_path, own_key, stack)
            key = key or (own_key if is_started else "")
        listed = ask_for_models(url, key or choose_key(config))
        access = build_access(chosen, url, config, key=key, model=model, listed=listed)
        # A file in the working directory may come from another person, and it decides where prompts go.
        click.echo(describe_run(chosen, access, config), err=True)
        if hint := suggest_window(chosen, access, config):
            click.echo(hint, err=True)
        own = arguments[1:] if arguments[:1] == ("--",) else arguments
        planned = chosen.build_launch(access)
        if chosen.describe_settings:
            for line in chosen.describe_settings(access, planned, Path.cwd(), os.environ):
                click.echo(line, err=True)
        if has_status_line:
            planned = _add_status_line(chosen, planned, own)
        if chosen.merge_own:
            planned, own = chosen.merge_own(planned, own, os.environ, Path.cwd())
        code = _run_agent(program, planned, own)
    if code in chosen.exit_hints:
        click.echo(f"hint: {chosen.exit_hints[code]}", err=True)
    if chosen.resume and is_session(chosen, own) and sys.stdin.isatty():
        click.echo(f"to resume this session: {program_name()} run {agent} {chosen.resume}", err=True)
    sys.exit(code)


def _run_agent(program: str, planned: AgentLaunch, arguments: tuple[str, ...]) -> int:
    """Run the agent with its private files, and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="dragoman-") as folder:
        launch = prepare_launch(planned, Path(folder), os.environ)
        # The admin token is for operators, not for agents.
        removed = {*launch.unset, VARIABLE}
        kept = {name: value for name, value in os.environ.items() if name not in removed}
        environment = bypass_proxies({**kept, **launch.environment})
        code = _run_in_foreground([program, *launch.arguments, *arguments], environment)
        if launch.finish:
            launch.finish(Path(folder), os.environ)
    return code


def _add_status_line(agent: Agent, launch: AgentLaunch, own: tuple[str, ...]) -> AgentLaunch:
    """The launch with the gateway's status line, if the agent has one and the user has none."""
    add = agent.add_status_line
    if add is None:
        return launch
    files = {name: add(text, own, os.environ, Path.cwd()) for name, text in launch.files.items()}
    return msgspec.structs.replace(launch, files=files)


def _find_gateway(config: Config, log_path: str | None, key: str, stack: ExitStack) -> tuple[str, bool]:
    """The URL of the running gateway with this configuration, or of a new one; and whether it is new."""
    running = find_own_gateway(config)
    is_started = running is None or not running.is_own
    if running is not None and is_started:
        click.echo(
            f"the gateway at {running.url} belongs to another configuration or user, so a new one is started "
            f"(--url {running.url} uses that one)",
            err=True,
        )
    started = stack.enter_context(_start_child_gateway(config, log_path, key)) if is_started else ""
    return started or (running.url if running else ""), is_started


def describe_run(agent: Agent, access: GatewayAccess, config: Config | None) -> str:
    """One line: the agent, the model that it requests, the one that answers, the gateway and its file."""
    context = access.find_limits().context
    size = f" ({context:,} tokens of context)" if context else ""
    requested = access.requested or "its own model"
    answering = f" -> {access.answering}{size}" if access.answering else ""
    source = ""
    if config is not None:
        source = f" ({config.absolute_path or 'no configuration: the embedded model answers'})"
    return f"{agent.title}: {requested}{answering}, gateway: {access.url}{source}"


def suggest_window(agent: Agent, access: GatewayAccess, config: Config | None) -> str:
    """How to state the context window of the model that answers; empty if it or the agent's own is known.

    Without it an agent assumes a large window, and compacts its conversation too late.
    """
    if config is None or not access.answering or access.find_limits().context:
        return ""
    name, _, model = access.answering.partition("/")
    provider = config.providers[name]
    if provider.is_stand_in or provider.keeps_sessions or model == agent.default_model:
        return ""
    table = f"providers.{name}.models.{msgspec.json.encode(model).decode()}"
    return f"hint: its context window is unknown; set context_tokens in [{table}] of {config.path}"


def _create_key(config: Config) -> str:
    """A key for the child gateway if it requires one. Of stored keys only the hashes are known."""
    return secrets.token_urlsafe(32) if not config.server.keys and has_stored_keys(config) else ""


def _find_program(agent: Agent) -> str:
    program = shutil.which(agent.program)
    if program is None:
        raise ConfigError(
            f"{agent.title} is not installed: there is no `{agent.program}` on the PATH",
            hint=f"npm install -g {agent.package}",
        )
    return program


@contextmanager
def _start_child_gateway(config: Config, log_path: str | None, key: str) -> Iterator[str]:
    """Start a gateway in a child process, return its URL, and stop it at the end. It accepts `key`."""
    with _open_log(log_path) as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.cli.process", config.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, KEY_VARIABLE: key},
            # Ctrl-C goes to the agent only.
            start_new_session=True,
        )
        try:
            url = process.stdout.readline().decode().strip() if process.stdout else ""
            if not url:
                process.wait()
                log.seek(0)
                text = log.read().decode("utf-8", "replace").strip()
                raise ConfigError(f"the gateway did not start: {text[-_QUOTED_LOG:]}")
            yield url
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _open_log(path: str | None) -> IO[bytes]:
    if path is None:
        return tempfile.TemporaryFile()
    try:
        return open(path, "w+b")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _run_in_foreground(command: list[str], environment: dict[str, str]) -> int:
    """Run the agent on this terminal and return its exit code. The agent handles Ctrl-C, not this process."""
    process = subprocess.Popen(command, env=environment)
    for number in _FORWARDED_SIGNALS:
        signal.signal(number, lambda number, _: process.send_signal(number))
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        # Shells report a signal as 128 plus its number.
        return 128 - code if code < 0 else code


@click.command()
@access_options
@click.option(
    "--shell",
    type=click.Choice(list(SHELLS)),
    default="sh",
    show_default=True,
    help="The language of the shell; sh is also for bash and zsh.",
)
@_AGENT
def env(path: str | None, model: str, url: str, key: str, shell: str, agent: str) -> None:
    """Print the settings that connect AGENT to the gateway, as code for a shell.

    \b
    eval "$(dragoman env claude)" && claude
    eval "$(dragoman env --model local/qwen3-coder codex)" && codex
    dragoman env --shell fish claude | source
    dragoman env --shell powershell claude | Out-String | Invoke-Expression

    This command starts nothing. Only the variables of your shell change. `dragoman run` does all of it in one
    step.
    """
    config = None if url else find_config(path, {**os.environ}, secrets=False)
    chosen = AGENTS[agent]
    url = gateway_url(config) if config else check_url(url)
    access = build_access(chosen, url, config, key=key, model=model)
    planned = chosen.build_launch(access)
    if chosen.merge_own:
        planned, _ = chosen.merge_own(planned, (), os.environ, Path.cwd())
    for line in build_shell_code(chosen, planned, SHELLS[shell]):
        click.echo(line)
