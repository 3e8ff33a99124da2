"""Reads YAML with PyYAML's safe loader, if it is there: nothing else in dragoman needs it."""

from importlib import import_module

from dragoman.hub.errors import ConfigError


def read_yaml(text: str, path: str) -> dict[str, object]:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise ConfigError(
            "reading YAML needs a library that is not installed", hint="pip install 'dragoman[import]'"
        ) from None
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark else path
        # The parser's own words may repeat a secret.
        raise ConfigError(f"{where}: not YAML") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected settings such as model_list")
    return {str(key): value for key, value in found.items()}
