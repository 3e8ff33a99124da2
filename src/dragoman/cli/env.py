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
    lines = [f"unset {name}" for name in launch.unset]
    for name, value in launch.environment.items():
        if FOLDER in value:
            text = launch.files[value.removeprefix(f"{FOLDER}/")]
            lines += [f'export {name}="$(mktemp)"', f'printf %s {shlex.quote(text)} > "${name}"']
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    if launch.arguments and FOLDER not in "".join(launch.arguments):
        arguments = shlex.join(launch.arguments)
        lines.append(f'{agent.program}() {{ command {agent.program} {arguments} "$@"; }}')
    return lines
