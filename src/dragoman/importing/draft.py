"""A configuration in the making: what goes into the file, and what there is to say about it."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from dragoman.config.load import load, presets
from dragoman.governance.settings import Governance
from dragoman.importing.toml import written
from dragoman.server.guard import is_loopback

Table = dict[str, object]

_UNFIT = re.compile(r"[^A-Za-z0-9]+")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
#: What people write where a server wants no key but its client insists on one.
_NO_KEY = frozenset(
    {
        "",
        "none",
        "null",
        "no-key",
        "not-needed",
        "sk-no-key-required",
        "empty",
        "dummy",
        "ollama",
        "lm-studio",
        "any",
    }
)


class Note(msgspec.Struct, frozen=True):
    """Something that the user should know: where it stood, and what became of it."""

    place: str
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}"


class Draft:
    """Filled in by an importer, then written."""

    def __init__(self) -> None:
        self.server: Table = {}
        self.providers: dict[str, Table] = {}
        #: From what clients ask for to targets, in order.
        self.routes: dict[str, list[str]] = {}
        self.notes: list[Note] = []
        #: The variables that must be set, and where each one's value stood if it was no variable before.
        self.variables: dict[str, str] = {}
        #: Which variable stands for which secret, so that one secret has one.
        self._held: dict[str, str] = {}

    def note(self, place: str, words: str) -> None:
        note = Note(place, words)
        if note not in self.notes:
            self.notes.append(note)

    def name_for(self, wanted: str) -> str:
        """A legal name for a provider, free or not."""
        return _NAME.sub("-", wanted).strip("-._") or "provider"

    def reference(self, value: str, variable: str, place: str) -> str:
        """A secret by reference: the variable it came from, or one that has yet to be set to it."""
        value = value.strip()
        found = variable_in(value)
        name = found or self._held.get(value) or self._free(variable_name(variable))
        if not found:
            self._held[value] = name
        self.variables.setdefault(name, "" if found else place)
        return f"env:{name}"

    def key(self, value: object, address: str, variable: str, place: str) -> str:
        """The key for an address by reference; empty where none is needed."""
        text = value.strip() if isinstance(value, str) else ""
        if not text or (is_local(address) and text.lower() in _NO_KEY):
            return ""
        return self.reference(text, variable, place)

    def give_key(self, provider: Table, key: str) -> None:
        """The key by reference; without one, a preset's own variable is asked for."""
        if key:
            provider["api_key"] = key
            return
        preset = presets().get(str(provider.get("preset", "")))
        if preset is not None and preset.key:
            self.variables.setdefault(preset.key, "")

    def models_of(self, provider: str, model: str) -> Table:
        """The table of facts about a model, to be filled."""
        models = self.providers[provider].setdefault("models", {})
        return table_in(models, model)

    def _free(self, name: str) -> str:
        """Two secrets need two variables."""
        candidate, number = name, 2
        while candidate in self.variables:
            candidate, number = f"{name}_{number}", number + 1
        return candidate

    def text(self, origin: str) -> str:
        """The file. Raises if dragoman itself would not take it."""
        text = written(self.server, self.providers, self.routes, origin)
        load(text, "the imported configuration", {}, secrets_needed=False)
        return text


def is_local(address: str) -> bool:
    """Whether it leads to this machine."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def table_in(tables: object, name: str) -> Table:
    """The table of that name, made if it is not there."""
    if not isinstance(tables, dict):
        return {}
    found = tables.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def variable_in(value: str) -> str:
    """The variable that `$NAME`, `${NAME}` or `os.environ/NAME` refers to; empty if it is none of these."""
    found = re.fullmatch(r"\s*(?:\$\{?|os\.environ/)([A-Za-z_][A-Za-z0-9_]*)\}?\s*", value)
    return found[1] if found else ""


def variable_name(wanted: str) -> str:
    name = _UNFIT.sub("_", wanted).strip("_").upper()
    return f"KEY_{name}" if not name or name[0].isdigit() else name


def objects(value: object) -> list[Table]:
    """The objects in a list; nothing if it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_of(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def seconds(value: object, *, per_second: float = 1.0) -> float | None:
    """A number of seconds, also from a text that holds one."""
    try:
        number = float(str(value)) / per_second
    except ValueError:
        return None
    return number if 0 < number < 1e9 else None


def governed(table: Table, wishes: Mapping[str, object]) -> None:
    """Ask for governance; only for what it knows."""
    known = {name: value for name, value in wishes.items() if name in Governance.__struct_fields__}
    table_in(table, "governance").update(known)
