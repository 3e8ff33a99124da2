"""The languages in which `dragoman env` prints the settings of an agent."""

import shlex
from collections.abc import Callable, Iterator

import msgspec

from dragoman.cli.agents import FOLDER, Agent, AgentLaunch

#: The variable of the shell that has the folder of the private files.
_VARIABLE = "DRAGOMAN_FOLDER"


class ShellLanguage(msgspec.Struct, frozen=True, kw_only=True):
    """How a shell writes each step. `{name}`, `{value}` and so on are quoted already."""

    quote: Callable[[str], str]
    unset: str
    export: str
    #: Creates a temporary folder, and refers to it.
    make_folder: str
    folder: str
    write_file: str
    #: Defines a command that adds arguments to the program of the same name.
    define: str


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _quote_powershell(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SHELLS = {
    "sh": ShellLanguage(
        quote=shlex.quote,
        unset="unset {name}",
        export="export {name}={value}",
        make_folder=f'{_VARIABLE}="$(mktemp -d)"',
        folder=f'"${_VARIABLE}"',
        write_file='mkdir -p "$(dirname {path})" && printf %s {text} > {path}',
        define='{program}() {{ command {program} {arguments} "$@"; }}',
    ),
    "fish": ShellLanguage(
        quote=_quote_fish,
        unset="set -e {name}",
        export="set -gx {name} {value}",
        make_folder=f"set -g {_VARIABLE} (mktemp -d)",
        folder=f'"${_VARIABLE}"',
        write_file="mkdir -p (dirname {path}); and printf %s {text} > {path}",
        define="function {program}; command {program} {arguments} $argv; end",
    ),
    "powershell": ShellLanguage(
        quote=_quote_powershell,
        unset="Remove-Item Env:{name} -ErrorAction SilentlyContinue",
        export="$Env:{name} = {value}",
        make_folder=f"${_VARIABLE} = (New-Item -ItemType Directory -Path ([IO.Path]::GetTempPath()) "
        "-Name ([guid]::NewGuid())).FullName",
        folder=f"${_VARIABLE}",
        write_file="New-Item -Force -ItemType File -Path ({path}) -Value {text} | Out-Null",
        define="function {program} {{ & (Get-Command -CommandType Application {program})[0] "
        "{arguments} @args }}",
    ),
}


def build_shell_code(agent: Agent, launch: AgentLaunch, shell: ShellLanguage) -> list[str]:
    """The lines of shell code. Private files go into a new temporary folder."""
    return list(_list_lines(agent, launch, shell))


def _list_lines(agent: Agent, launch: AgentLaunch, shell: ShellLanguage) -> Iterator[str]:
    for name in launch.unset:
        yield shell.unset.format(name=name)
    if any(FOLDER in value for value in launch.environment.values()):
        yield shell.make_folder
        for name, text in launch.files.items():
            yield shell.write_file.format(path=_join(shell, f"/{name}"), text=shell.quote(text))
    for name, value in launch.environment.items():
        quoted = _join(shell, value.removeprefix(FOLDER)) if FOLDER in value else shell.quote(value)
        yield shell.export.format(name=name, value=quoted)
    if launch.arguments and FOLDER not in "".join(launch.arguments):
        arguments = " ".join(shell.quote(argument) for argument in launch.arguments)
        yield shell.define.format(program=agent.program, arguments=arguments)


def _join(shell: ShellLanguage, rest: str) -> str:
    """The folder of the private files, followed by `rest`."""
    if not rest:
        return shell.folder
    return f"{shell.folder} + {shell.quote(rest)}" if shell.folder.startswith("$") else shell.folder + rest
