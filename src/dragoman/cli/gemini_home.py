"""A home for Gemini CLI in which it uses an API key, and is otherwise at the user's home.

It takes its way of logging in from its settings before it looks at the environment, and takes settings
from nowhere but its home, so a home of its own is the way to leave the user's alone.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

PLACE = ".gemini"
SETTINGS = "settings.json"

#: Strings are kept, so that what looks like a comment in them stays.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def settings_text(settings: Mapping[str, object]) -> str:
    """The settings, with an API key as the way to log in."""
    security = settings.get("security")
    changed = {**(security if isinstance(security, dict) else {}), "auth": {"selectedType": "gemini-api-key"}}
    return msgspec.json.encode({**settings, "security": changed}).decode()


def mirror(folder: Path, environment: Mapping[str, str]) -> None:
    """Make `folder` such a home: everything of the user's is there, by links, but for the settings."""
    home = Path(environment.get("GEMINI_CLI_HOME") or environment.get("HOME") or Path.home())
    place = folder / PLACE
    place.mkdir(mode=0o700)
    settings: dict[str, object] = {}
    with suppress(OSError):
        for entry in (home / PLACE).iterdir():
            if entry.name == SETTINGS:
                settings = _read(entry)
            else:
                (place / entry.name).symlink_to(entry.resolve())
    (place / SETTINGS).write_text(settings_text(settings), "utf-8")


def _read(path: Path) -> dict[str, object]:
    """The settings, which may hold comments; what cannot be read is left out."""
    try:
        text = _STRING_OR_COMMENT.sub(lambda found: found[1] or "", path.read_text("utf-8"))
        return msgspec.json.decode(text, type=dict[str, object])
    except (OSError, ValueError):
        return {}
