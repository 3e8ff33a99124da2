"""`dragoman env AGENT`: what points an agent at a running gateway, as shell code."""

import os
import shlex

import click

from dragoman.cli.door import address, door_options, door_to
from dragoman.cli.launch import AGENTS, FOLDER, Agent, Launch
from dragoman.config.find import find_config


@click.command()
@door_options
@click.argument("agent", type=click.Choice(list(AGENTS)))
def env(path: str | None, model: str, url: str, key: str, agent: str) -> None:
    """Print what points AGENT at the gateway, for `eval` in sh, bash or zsh.

    \b
    eval "$(dragoman env claude)" && claude
    eval "$(dragoman env --model local/qwen3-coder codex)" && codex

    Nothing is started and nothing of yours is changed but this shell's variables. `dragoman run` does all
    of it in one step.
    """
    config = None if url else find_config(path, {**os.environ}, secrets=False)
    chosen = AGENTS[agent]
    door = door_to(chosen, url or (address(config) if config else ""), config, key=key, model=model)
    for line in shell_code(chosen, chosen.launch(door)):
        click.echo(line)


def shell_code(agent: Agent, launch: Launch) -> list[str]:
    """What a shell has to do; private files go into a new temporary folder."""
    lines = [f"unset {name}" for name in launch.unset]
    wanted = any(FOLDER in value for value in launch.environment.values())
    if wanted:
        lines.append('DRAGOMAN_FOLDER="$(mktemp -d)"')
        for name, text in launch.files.items():
            path = f'"$DRAGOMAN_FOLDER"/{name}'
            lines.append(f"mkdir -p {path.rpartition('/')[0]} && printf %s {shlex.quote(text)} > {path}")
    for name, value in launch.environment.items():
        quoted = f'"$DRAGOMAN_FOLDER"{value.removeprefix(FOLDER)}' if FOLDER in value else shlex.quote(value)
        lines.append(f"export {name}={quoted}")
    if launch.arguments and FOLDER not in "".join(launch.arguments):
        arguments = shlex.join(launch.arguments)
        lines.append(f'{agent.program}() {{ command {agent.program} {arguments} "$@"; }}')
    return lines
