"""`ConfigDraft`: a configuration that an importer fills, and the notes about it."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
import tomlkit

from dragoman.config.load import load
from dragoman.config.settings import is_loopback
from dragoman.governance.settings import Governance
from dragoman.providers.presets import load_presets

Table = dict[str, object]

NO_EQUIVALENT = "there is no equivalent"

_NOT_IN_VARIABLE = re.compile(r"[^A-Za-z0-9]+")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_REFERENCE = re.compile(r"\s*(?:\$\{?|os\.environ/)([A-Za-z_][A-Za-z0-9_]*)\}?\s*")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
#: Values for servers that need no key but whose client insists on one.
_NO_KEY = frozenset(
    {"", "none", "null", "no-key", "not-needed", "sk-no-key-required", "empty", "dummy"}
    | {"ollama", "lm-studio", "any"}
)


class ImportNote(msgspec.Struct, frozen=True):
    """One line of the report: a place in the other file, and what happened to it."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class ConfigDraft:
    """The tables of a new configuration. An importer fills them, then `build_text` writes the file."""

    def __init__(self) -> None:
        self.server: Table = {}
        self.providers: dict[str, Table] = {}
        #: Tables of `[steps]` by name.
        self.steps: dict[str, Table] = {}
        #: Targets by the model name or pattern that clients ask for.
        self.routes: dict[str, list[str]] = {}
        #: Tables of `[[rules]]`, in their order.
        self.rules: list[Table] = []
        self.notes: list[ImportNote] = []
        #: The variables that must be set. The value is the place of a literal secret in the other file, or
        #: empty if the other file used the same variable.
        self.variables: dict[str, str] = {}
        #: The variable of each literal secret and its server. Equal secrets of one server share a variable.
        #: Those of two servers do not: they may be placeholders, and a key must not reach another server.
        self._literals: dict[tuple[str, str], str] = {}

    def add_note(self, place: str, text: str) -> None:
        """Add a line to the report, unless it is there already."""
        note = ImportNote(place, text)
        if note not in self.notes:
            self.notes.append(note)

    def build_reference(self, value: str, variable: str, place: str, server: str = "") -> str:
        """The reference `env:NAME` for a secret of `server`.

        A secret that comes from a variable keeps it. A literal secret gets a variable named `variable`.
        """
        value = value.strip()
        found = find_variable(value)
        literal = (value, server)
        name = found or self._literals.get(literal) or self._choose_free(build_variable_name(variable))
        if not found:
            self._literals[literal] = name
        self.variables.setdefault(name, "" if found else place)
        return f"env:{name}"

    def build_key(self, value: object, address: str, variable: str, place: str) -> str:
        """The value `env:NAME` for a provider's key; empty if it needs none."""
        text = value.strip() if isinstance(value, str) else ""
        if text.lower() in _NO_KEY:
            return ""
        return self.build_reference(text, variable, place, read_host(address) or variable)

    def set_key(self, provider: Table, key: str) -> None:
        """Set the key of a provider. Without one, its preset reads its usual variable."""
        if key:
            provider["api_key"] = key
            return
        preset = load_presets().get(str(provider.get("preset", "")))
        if preset is not None and preset.key:
            self.variables.setdefault(preset.key, "")

    def open_model(self, provider: str, model: str) -> Table:
        """The table of facts about a model of a provider. Created if missing."""
        return open_table(open_table(self.providers[provider], "models"), model)

    def build_text(self, origin: str) -> str:
        """The TOML text of the file. Raises `ConfigError` if dragoman does not accept it."""
        tables: Table = {"server": self.server} if self.server else {}
        if self.providers:
            tables["providers"] = self.providers
        if self.steps:
            tables["steps"] = self.steps
        if self.rules:
            tables["rules"] = self.rules
        if self.routes:
            tables["routes"] = [
                {"match": match, "target": targets[0] if len(targets) == 1 else targets}
                for match, targets in self.routes.items()
            ]
        heading = f"# Imported from {origin}. `dragoman config keys` explains every key.\n\n"
        text = heading + tomlkit.dumps(tables)
        load(text, "the imported configuration", {}, secrets_needed=False)
        return text

    def _choose_free(self, name: str) -> str:
        candidate, number = name, 2
        while candidate in self.variables:
            candidate, number = f"{name}_{number}", number + 1
        return candidate


def build_provider_name(text: str) -> str:
    """A name for a provider that the configuration accepts."""
    return _NOT_IN_NAME.sub("-", text).strip("-._") or "provider"


def build_variable_name(text: str) -> str:
    """An environment variable name made of `text`."""
    name = _NOT_IN_VARIABLE.sub("_", text).strip("_").upper()
    return f"KEY_{name}" if not name or name[0].isdigit() else name


def find_variable(value: str) -> str:
    """The variable in `$NAME`, `${NAME}` or `os.environ/NAME`; empty if the value is none of these."""
    found = _REFERENCE.fullmatch(value)
    return found[1] if found else ""


def find_variables(value: str) -> list[str]:
    """The variables that a text contains as `$NAME` or `${NAME}`."""
    return [found[1] or found[2] for found in _VARIABLE.finditer(value)]


def fill_in_variables(value: str, variables: Mapping[str, str]) -> str:
    """The text with the values of its variables. All of them must be there."""
    return _VARIABLE.sub(lambda found: variables[found[1] or found[2]], value)


def read_host(address: str) -> str:
    """The host of an address; empty if it has none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def is_local(address: str) -> bool:
    """Whether the address is on this machine."""
    host = read_host(address)
    return bool(host) and is_loopback(host)


def add_governance(table: Table, settings: Table) -> None:
    """Add governance settings to a provider or model, without those that dragoman does not know."""
    known = {name: value for name, value in settings.items() if name in Governance.__struct_fields__}
    open_table(table, "governance").update(known)


# The functions below read values of unknown type. A value of another type counts as missing.


def open_table(parent: Table, name: str) -> Table:
    """The table of this name in `parent`. Created if missing."""
    return read_table(parent.setdefault(name, {}))


def read_table(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def read_tables(value: object) -> list[Table]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def read_number(value: object, *, divisor: float = 1.0) -> float | None:
    """A positive number, also from a text."""
    try:
        number = float(str(value)) / divisor
    except ValueError:
        return None
    return number if 0 < number < 1e9 else None
