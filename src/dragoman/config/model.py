"""The configuration as values. The fields are the keys of the file: name, type, default and meaning.

A new key is a new field with a `Doc`; `load` checks it and converts its value by the field's type, and
`dragoman config keys` and the documentation list it. Only a value that needs more than a conversion, such as
a secret, needs code in `load` or `load_provider`.
A field whose name in the file differs has `msgspec.field(name=...)`. Fields without a `Doc` are not keys.
Secrets are `Secret`s, which never show their value.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Annotated, Literal, NamedTuple

import msgspec

from dragoman.config.governance import governance_keys
from dragoman.config.key_kinds import (
    FLAG_OR_TEXT,
    TABLE,
    TABLES,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    ConfigKey,
    integer,
    one_name_of,
    read_keys,
)
from dragoman.config.mistakes import ConfigWarning
from dragoman.dialects.registry import DIALECTS
from dragoman.governance.settings import Governance
from dragoman.providers.facts import Doc, Facts
from dragoman.providers.local_programs import LOCAL_PROGRAMS, LocalProgram
from dragoman.providers.profile import Profile


def list_dialects() -> tuple[str, ...]:
    """What `dialect` of a provider may be: an API of the dialect registry, or a local program."""
    return (*DIALECTS, *LOCAL_PROGRAMS)


#: The name of the source for facts in the configuration file.
CONFIG_SOURCE = "config"
#: Facts by model name or pattern.
FactsByModel = dict[str, dict[str, object]]


class Secret:
    """A value that must not be printed or logged.

    `variable` is the environment variable that it comes from, if any. A secret is empty if its variable is
    not set and the command needs no secrets.
    """

    __slots__ = ("_value", "variable")

    def __init__(self, value: str, variable: str = "") -> None:
        self._value = value
        self.variable = variable

    def reveal(self) -> str:
        """The value itself, for the request that needs it."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[server]`: the gateway's address, its keys and its limits."""

    host: Annotated[str, Doc("The address to listen on. Addresses other than loopback need client keys.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, integer(0, 65535), Doc("The port to listen on; 0: any free port.")] = 8484
    keys: Annotated[
        tuple[Secret, ...], TEXTS, Doc("Client keys, each a literal or `env:NAME`. Clients must send one.")
    ] = ()
    #: In lower case.
    hosts: Annotated[
        tuple[str, ...], TEXTS, Doc("Further host names in requests to the gateway, also from browser pages.")
    ] = ()
    max_body_mb: Annotated[
        int, integer(1, 4096), Doc("The largest request in megabytes, after decompression.")
    ] = 64
    ping: Annotated[
        float, Doc("Seconds of silence after which a waiting client gets a keep-alive; 0: never.")
    ] = 10.0
    drain: Annotated[float, Doc("Seconds that open streams have to finish at shutdown.")] = 30.0
    log: Annotated[Literal["text", "json"], Doc("The format of the log.")] = "text"
    admin: Annotated[
        Literal["local", "remote", "off"],
        Doc("Which callers may use the admin API with the admin token: on this machine, all, or none."),
    ] = "local"
    state: Annotated[str, Doc("The folder of the persistent state; default: `~/.local/state/dragoman`.")] = ""


class ResponsesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[responses]`: the stored responses of the Responses API, and their limits."""

    store: Annotated[bool, Doc("Store responses, so that clients can refer to them later.")] = True
    max_count: Annotated[
        int, integer(1), Doc("The largest number of stored responses; the oldest are deleted.")
    ] = 10_000
    max_mb: Annotated[int, integer(1), Doc("The largest size of all stored responses, in megabytes.")] = 1024
    max_days: Annotated[float, Doc("Days until a stored response is deleted.")] = 30.0


class TelemetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[telemetry]`: metrics and traces."""

    metrics: Annotated[
        Literal["key", "open", "off"],
        Doc("Which callers may read `/metrics`: with `metrics_key` or the admin token, all, or none."),
    ] = "key"
    metrics_key: Annotated[
        Secret | None, TEXT, Doc("The key of the metrics collector: a literal or `env:NAME`.")
    ] = None
    traces: Annotated[
        str, Doc("The address of an OpenTelemetry collector that accepts traces over HTTP.")
    ] = ""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME.timeouts]`, in seconds. 0 means no limit."""

    connect: Annotated[float, Doc("Until the provider is connected; 0: no limit, here and below.")] = 10.0
    # A reply that is not streamed arrives at once, and clients wait ten minutes for it.
    first_byte: Annotated[
        float, Doc("Until the first byte of the reply, or until all of a reply that is not streamed.")
    ] = 600.0
    idle: Annotated[float, Doc("Between two parts of the reply.")] = 300.0
    total: Annotated[float, Doc("Until the end of the reply.")] = 3600.0


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME.sessions]`: the processes of a provider that is Claude Code."""

    limit: Annotated[
        int, integer(1, 1000), Doc("The most sessions at one time; a further one ends the oldest.")
    ] = 32
    warm: Annotated[
        int, integer(0, 100), Doc("Processes that are started in advance for sessions like the last.")
    ] = 1
    idle: Annotated[float, Doc("Seconds until a session without requests is ended; 0: never.")] = 1800.0
    park: Annotated[float, Doc("Seconds until a session that waits for tool results is ended; 0: never.")] = (
        600.0
    )
    call_timeout: Annotated[
        float, Doc("Seconds that a client has to return the result of a call; 0: no limit.")
    ] = 86400.0
    max_turns: Annotated[
        int, integer(1, 1000), Doc("The most rounds of tool calls that one prompt may take.")
    ] = 10
    denials: Annotated[
        int, integer(1, 100), Doc("Calls of undeclared tools until a turn is ended with status 403.")
    ] = 3
    command: Annotated[str, Doc("The path of Claude Code's executable; default: the SDK's own.")] = ""


class FactLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from one source, such as a preset.

    `is_stated` is false for the catalogue: its facts do not apply to a client that uses the vendor's own
    dialect and the model's own name. Such a client knows the model, and its bytes are forwarded unchanged.
    """

    source: str
    models: FactsByModel
    is_stated: bool = True


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: a server or program that answers requests."""

    name: str
    preset: Annotated[
        str, Doc("A known provider that gives the default dialect, address, key and facts.")
    ] = ""
    dialect: Annotated[str, one_name_of(list_dialects), Doc("The API of the provider, or a local program.")]
    base_url: Annotated[str, Doc("The API's address, with or without the version segment.")] = ""
    keys: Annotated[
        tuple[Secret, ...],
        TEXT_OR_TEXTS,
        Doc("A literal or `env:NAME`; of several keys, each session uses one."),
    ] = msgspec.field(name="api_key", default=())
    headers: Annotated[
        dict[str, Secret], TABLE, Doc("Further headers of every request; values may be `env:NAME`.")
    ] = {}
    timeouts: Annotated[Timeouts, TABLE, Doc("Time limits, in seconds.")] = Timeouts()
    proxy: Annotated[str, Doc("The address of an HTTP proxy; may be `env:NAME`.")] = ""
    verify: Annotated[
        bool | str, FLAG_OR_TEXT, Doc("Verify certificates; or the path of a file of trusted certificates.")
    ] = True
    retries: Annotated[
        int, integer(0, 20), Doc("The most further tries at this provider before the next target.")
    ] = 2
    heal: Annotated[
        bool, Doc("Change a refused request as the refusal says, retry it, and remember the change.")
    ] = True
    #: Only the facts in the file. `layers` has the others.
    models: Annotated[
        FactsByModel, TABLE, Doc("Facts about models, by name; `*` matches any part of a name.")
    ] = {}
    governance: Annotated[Governance, TABLE, Doc("The governance of the tool calls of all its models.")] = (
        Governance()
    )
    sessions: Annotated[
        SessionSettings, TABLE, Doc('The sessions of Claude Code; only with `dialect = "claude_code"`.')
    ] = SessionSettings()
    #: Facts from other sources, in ascending precedence. The facts in the file have the highest.
    layers: tuple[FactLayer, ...] = ()
    #: Where the values of `governance` come from, for `dragoman models show`.
    governance_sources: dict[str, str] = {}
    #: Changes of `governance` for some models, by name or pattern.
    model_governance: FactsByModel = {}
    #: Why requests to the provider cannot succeed, such as a variable that is not set; empty: they can.
    obstacle: str = ""

    def __repr__(self) -> str:
        # Without the addresses: that of a proxy may contain a password.
        return f"Provider({self.name!r}, {self.dialect!r})"

    @property
    def program(self) -> LocalProgram | None:
        """The local program that answers; None if the provider is called over HTTP."""
        return LOCAL_PROGRAMS.get(self.dialect)

    @property
    def keeps_sessions(self) -> bool:
        """Whether the provider keeps sessions between requests, so that it needs the client's headers."""
        return self.program is not None and self.program.has_sessions

    @property
    def wire_dialect(self) -> str:
        """The API of the requests to the provider, also if it is a local program."""
        return self.program.wire_dialect if self.program else self.dialect

    @property
    def is_stand_in(self) -> bool:
        """Whether it answers in place of any model, as the embedded model does."""
        return self.program is not None and self.program.is_stand_in

    def list_sources(self, model: str) -> Iterator[tuple[str, dict[str, object]]]:
        """The facts about a model by source, in ascending precedence."""
        for layer in self.layers:
            yield layer.source, _merge_matches(layer.models, model)
        yield CONFIG_SOURCE, _merge_matches(self.models, model)

    def merge_facts(self, model: str, *, only_stated: bool = False) -> dict[str, object]:
        """The facts about a model from all sources. Within a source, its name overrides patterns.

        `only_stated`: from the sources that apply to every client; see `FactLayer`.
        """
        layers = [layer.models for layer in self.layers if layer.is_stated or not only_stated]
        merged: dict[str, object] = {}
        for models in (*layers, self.models):
            merged |= _merge_matches(models, model)
        return merged

    def find_fact(self, name: str, model: str, *, only_stated: bool = False) -> object:
        """One fact about a model, from its strongest source; None if no source has it.

        `only_stated`: from the sources that apply to every client; see `FactLayer`.
        """
        return self.merge_facts(model, only_stated=only_stated).get(name)

    def has_stated_facts(self, model: str) -> bool:
        """Whether any source has facts about the model that apply to every client; see `FactLayer`."""
        stated = [layer.models for layer in self.layers if layer.is_stated]
        return any(_find_matches(tuple(models), model) for models in (*stated, self.models))

    def build_profile(self, model: str, *, only_stated: bool = False) -> Profile:
        """The profile of one of the provider's models. `only_stated`: see `merge_facts`."""
        facts = self.merge_facts(model, only_stated=only_stated)
        return Profile(dialect=self.wire_dialect, provider=self.name, model=model, **facts)

    def find_model_governance(self, model: str) -> dict[str, object]:
        """The changes of `governance` for one model."""
        return _merge_matches(self.model_governance, model)

    def find_governance(self, model: str, route: Mapping[str, object]) -> Governance:
        """The governance of a model's tool calls, with the changes of the model and of the route."""
        changes = {**self.find_model_governance(model), **route}
        if self.find_fact("function_calling", model) is False:
            # The server refuses tools, so describing them as text is the only way to use any.
            changes["contract"] = True
        return msgspec.structs.replace(self.governance, **changes) if changes else self.governance


def _merge_matches(models: FactsByModel, model: str) -> dict[str, object]:
    merged: dict[str, object] = {}
    for name in _find_matches(tuple(models), model) if models else ():
        merged |= models[name]
    return merged


# Bounded, because clients choose the model names.
@lru_cache(maxsize=1024)
def _find_matches(patterns: tuple[str, ...], model: str) -> tuple[str, ...]:
    """The matching patterns in their order, then the name itself if it is among them."""
    matches = [pattern for pattern in patterns if pattern != model and fnmatchcase(model, pattern)]
    return (*matches, model) if model in patterns else tuple(matches)


class TargetName(msgspec.Struct, frozen=True):
    """A provider and the name of a model there; `*`: the name that the client sent."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`[[routes]]`: a model name, or a pattern of names, and the targets in the order of trial."""

    match: Annotated[str, Doc("The model name that clients send; `*` matches any part of a name.")]
    targets: Annotated[
        tuple[TargetName, ...],
        TEXT_OR_TEXTS,
        Doc("`provider/model`; of several, the next is tried if one fails."),
    ] = msgspec.field(name="target")
    strict: Annotated[bool, Doc("Refuse requests that cannot be translated without loss.")] = False
    heal: Annotated[bool, Doc("Change and retry refused requests; see `heal` of a provider.")] = True
    #: Changes of the provider's and the model's governance.
    governance: Annotated[
        dict[str, object], TABLE, Doc("The governance of the tool calls in the replies.")
    ] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration file."""

    server: Annotated[ServerSettings, TABLE, Doc("The gateway itself.")] = ServerSettings()
    responses: Annotated[ResponsesSettings, TABLE, Doc("The stored responses of the Responses API.")] = (
        ResponsesSettings()
    )
    telemetry: Annotated[TelemetrySettings, TABLE, Doc("Metrics and traces.")] = TelemetrySettings()
    providers: Annotated[dict[str, Provider], TABLE, Doc("The providers, by names of your choice.")] = {}
    routes: Annotated[tuple[Route, ...], TABLES, Doc("The targets of the models that clients ask for.")] = ()
    default: Annotated[
        tuple[TargetName, ...],
        TEXT_OR_TEXTS,
        Doc("The target of models that no route matches; without it they are refused."),
    ] = ()
    #: The path of the file, for messages; empty: no file.
    path: str = ""
    #: The parts of the file that have no effect or cannot work, in the order of the lines.
    warnings: tuple[ConfigWarning, ...] = ()


class KeyTable(NamedTuple):
    """One table of the file: its heading, its keys, and the struct that has their defaults."""

    heading: str
    keys: dict[str, ConfigKey]
    struct: type[msgspec.Struct] | None = None

    def default(self, key: str) -> object:
        """The value if the key is left out; None if there is none, or none that fits on a line."""
        fields = msgspec.structs.fields(self.struct) if self.struct else ()
        default = next((field.default for field in fields if field.encode_name == key), None)
        return default if isinstance(default, bool | int | float | str) and default != "" else None


@cache
def model_keys() -> dict[str, ConfigKey]:
    """The keys of a model's table: all facts, and its governance."""
    governance = ConfigKey(TABLE, "The governance of the tool calls of these models.")
    return {**read_keys(Facts), "governance": governance}


def list_tables() -> tuple[KeyTable, ...]:
    """All tables, in the order of the documentation."""
    return (
        KeyTable("", read_keys(Config), Config),
        KeyTable("[server]", read_keys(ServerSettings), ServerSettings),
        KeyTable("[responses]", read_keys(ResponsesSettings), ResponsesSettings),
        KeyTable("[telemetry]", read_keys(TelemetrySettings), TelemetrySettings),
        KeyTable("[providers.NAME]", read_keys(Provider), Provider),
        KeyTable("[providers.NAME.timeouts]", read_keys(Timeouts), Timeouts),
        KeyTable("[providers.NAME.sessions]", read_keys(SessionSettings), SessionSettings),
        # Defaults of facts depend on the dialect.
        KeyTable('[providers.NAME.models."MODEL"]', model_keys()),
        KeyTable("[[routes]]", read_keys(Route), Route),
        KeyTable("[routes.governance]", governance_keys(), Governance),
    )
