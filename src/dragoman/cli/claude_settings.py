"""Settings of Claude Code that decide where it sends requests: those of the user, and of `--settings`.

Claude Code takes only the last `--settings` of its command line. So the user's own is merged into the private
file of `dragoman run`.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dragoman.hub.errors import ConfigError

Settings = dict[str, object]

_OPTION = "--settings"
#: Settings of the administrator. They take precedence over the command line.
_MANAGED = Path("/etc/claude-code/managed-settings.json")


def split_settings(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments without `--settings VALUE` and `--settings=VALUE`, and these values."""
    kept: list[str] = []
    values: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            kept += [argument, *rest]
        elif argument == _OPTION:
            values += [value for value in [next(rest, "")] if value]
        elif argument.startswith(f"{_OPTION}="):
            values.append(argument.removeprefix(f"{_OPTION}="))
        else:
            kept.append(argument)
    return tuple(kept), tuple(values)


def merge_settings(text: str, values: tuple[str, ...], changed: Mapping[str, str]) -> str:
    """The private settings `text`, added to the user's settings: file names or JSON. Ours take precedence.

    `changed`: variables whose values replace those in `text`.
    """
    merged: Settings = {}
    for value in values:
        merged |= _read_value(value)
    own = msgspec.json.decode(text, type=Settings)
    variables = {**_read_variables(merged), **_read_variables(own), **changed}
    return msgspec.json.encode({**merged, **own, "env": variables}).decode()


def find_variable(name: str, values: tuple[str, ...], environment: Mapping[str, str], folder: Path) -> str:
    """The value of a variable as Claude Code would see it: by `--settings`, by a file, by the environment."""
    sources = [*map(_read_file, _list_files(environment, folder)), *map(_read_value, values)]
    found = [_read_variables(settings).get(name) for settings in sources]
    return next((value for value in reversed(found) if isinstance(value, str)), environment.get(name, ""))


def _read_value(value: str) -> Settings:
    text = value
    if not value.lstrip().startswith("{"):
        try:
            text = Path(value).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"cannot read the settings {value}") from None
    try:
        return msgspec.json.decode(text, type=Settings)
    except msgspec.MsgspecError:
        # The text may contain keys.
        raise ConfigError("--settings is not a JSON object") from None


def describe_settings(
    environment: Mapping[str, str], folder: Path, variables: Mapping[str, str], model: str
) -> Iterator[str]:
    """Lines about settings of the user, the project and the administrator that concern the gateway.

    `variables` are those that dragoman sets, `model` is the model that it chooses; empty: none.
    """
    for path in _list_files(environment, folder):
        settings = _read_file(path)
        found = _read_variables(settings)
        names = sorted(
            name for name, value in found.items() if name in variables and value != variables[name]
        )
        if names and path == _MANAGED:
            yield f"warning: {path} sets {', '.join(names)}, which can lead Claude Code past the gateway"
        elif names:
            yield f"{path} sets {', '.join(names)}; the values of dragoman are used instead"
        saved = settings.get("model")
        if isinstance(saved, str) and not model:
            yield f"{path} has the default model {saved!r} (/model saves it there); --model chooses another"


def add_status_line(
    text: str, arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> str:
    """The private settings `text` with `dragoman statusline`, unless the user has a status line."""
    users = [_read_file(path) for path in _list_files(environment, folder)]
    if any("statusLine" in each for each in (*users, *map(_read_value, split_settings(arguments)[1]))):
        return text
    own = msgspec.json.decode(text, type=Settings)
    command = shlex.join([sys.executable, "-m", "dragoman", "statusline"])
    return msgspec.json.encode({**own, "statusLine": {"type": "command", "command": command}}).decode()


def _list_files(environment: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """The settings files of the user, the project and the administrator."""
    home = Path(environment.get("HOME") or Path.home())
    base = Path(environment.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    own = folder / ".claude"
    paths = (base / "settings.json", own / "settings.json", own / "settings.local.json", _MANAGED)
    return tuple(dict.fromkeys(paths))


def _read_file(path: Path) -> Settings:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Settings)
    except (OSError, msgspec.MsgspecError):
        return {}


def _read_variables(settings: Settings) -> dict[str, object]:
    found = settings.get("env")
    return found if isinstance(found, dict) else {}
