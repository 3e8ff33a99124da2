"""A private home of Gemini CLI: its own settings, and links to everything else of the user's home."""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

_FOLDER = ".gemini"
_SETTINGS = "settings.json"
#: The path of the settings below the home.
SETTINGS_FILE = f"{_FOLDER}/{_SETTINGS}"
#: Folders of sessions. They must exist to be linked, otherwise the first session cannot be resumed.
_SESSIONS = ("tmp", "history")
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
#: The window that Gemini CLI assumes for every model, and the part of it that it fills before it compresses.
_WINDOW = 1_048_576
_THRESHOLD = 0.5
#: The file that the variable GEMINI_EXP names. It has the values of Gemini CLI that no setting has.
EXPERIMENTS_FILE = "experiments.json"
EXPERIMENTS_VARIABLE = "GEMINI_EXP"
#: The latest outputs of tools that Gemini CLI keeps, and the older ones that it collects before it replaces
#: them by excerpts: the numbers of these values, and its own limits in tokens.
_KEPT_OUTPUTS = (45758817, 50_000)
_OLDER_OUTPUTS = (45758818, 30_000)
#: The part of the model's window for each of them.
_OUTPUT_PART = 8


def build_gemini_home(folder: Path, environment: Mapping[str, str], *, context: int = 0) -> tuple[str, ...]:
    """Make `folder` a home of Gemini CLI with own settings and links to everything else of the user's home.

    Gemini CLI reads the login method from its settings before it reads the environment, and it reads settings
    from its home only.
    """
    home = _find_home(environment)
    own = folder / _FOLDER
    own.mkdir(mode=0o700)
    settings: dict[str, object] = {}
    with suppress(OSError):
        for name in _SESSIONS:
            (home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in home.iterdir():
            if entry.name == _SETTINGS:
                settings = _read_settings(entry)
            else:
                (own / entry.name).symlink_to(entry.resolve())
    (own / _SETTINGS).write_text(build_gemini_settings(settings, context), "utf-8")
    if context:
        (folder / EXPERIMENTS_FILE).write_text(build_gemini_experiments(context), "utf-8")
    return ()


def keep_gemini_files(folder: Path, environment: Mapping[str, str]) -> None:
    """Copy what the agent has created in its private home to the user's: trusted folders, for example."""
    home = _find_home(environment)
    for entry in (folder / _FOLDER).iterdir():
        if entry.is_symlink() or entry.name == _SETTINGS:
            continue
        with suppress(OSError):
            if entry.is_dir():
                shutil.copytree(entry, home / entry.name, dirs_exist_ok=True)
            else:
                shutil.copy(entry, home / entry.name)


def _find_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home()) / _FOLDER


def build_gemini_settings(settings: Mapping[str, object], context: int = 0) -> str:
    """The user's settings with an API key as the login method, and compression before `context` is full.

    Gemini CLI has no setting for the window of a model. Its compression threshold is a part of the window
    that it assumes.
    """
    security = {**_find_object(settings, "security"), "auth": {"selectedType": "gemini-api-key"}}
    changed = {**settings, "security": security}
    if 0 < context < _WINDOW:
        threshold = round(_THRESHOLD * context / _WINDOW, 6)
        changed["model"] = {**_find_object(settings, "model"), "compressionThreshold": threshold}
    return msgspec.json.encode(changed).decode()


def build_gemini_experiments(context: int) -> str:
    """The limits for outputs of tools that fit into a window of `context` tokens.

    Within the answer to one prompt Gemini CLI compresses nothing: it only replaces old outputs by excerpts.
    """
    sizes = ((flag, min(own, context // _OUTPUT_PART)) for flag, own in (_KEPT_OUTPUTS, _OLDER_OUTPUTS))
    flags = [{"flagId": flag, "intValue": str(size)} for flag, size in sizes]
    return msgspec.json.encode({"flags": flags}).decode()


def _find_object(settings: Mapping[str, object], name: str) -> dict[str, object]:
    value = settings.get(name)
    return value if isinstance(value, dict) else {}


def _read_settings(path: Path) -> dict[str, object]:
    """Settings that may contain comments; empty if they are not readable."""
    try:
        text = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", path.read_text("utf-8"))
        return msgspec.json.decode(text, type=dict[str, object])
    except (OSError, ValueError):
        return {}
