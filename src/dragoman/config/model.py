"""The configuration as values; `keys` says what each key means.

Secrets are `Secret`s, which never show their value.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from dragoman.governance.settings import Governance
from dragoman.providers.profile import Profile


class Secret:
    """A value that must not be printed or logged.

    `variable` is the environment variable it comes from, if it does. A secret that nobody has asked for
    yet may be empty.
    """

    __slots__ = ("_value", "variable")

    def __init__(self, value: str, variable: str = "") -> None:
        self._value = value
        self.variable = variable

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(…)"


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. 0 means no limit."""

    connect: float = 10.0
    #: From the request being sent to the first byte of the reply. One that is not streamed comes all at
    #: once, and clients wait ten minutes for it.
    first_byte: float = 600.0
    idle: float = 300.0
    total: float = 3600.0


#: The source of what the file states.
CONFIG = "config"
#: Facts by model name or pattern.
Models = dict[str, dict[str, object]]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from one source. `is_stated`: they hold for whoever asks.

    The others are left aside for a client that asks, in the vendor's own dialect, for the model by its own
    name: it knows the model itself, and its bytes go on unread.
    """

    source: str
    models: Models
    is_stated: bool = True


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """How the sessions of a provider that is Claude Code itself are kept. Times are in seconds."""

    limit: int = 32
    warm: int = 1
    idle: float = 1800.0
    park: float = 600.0
    call_timeout: float = 86400.0
    max_turns: int = 10
    denials: int = 3
    command: str = ""


#: What a dialect speaks on the wire, where it is not its own name: both live within this process.
WIRE_DIALECTS = {"embedded": "openai_chat", "claude_code": "anthropic"}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Who we call."""

    name: str
    dialect: str
    base_url: str = ""
    keys: tuple[Secret, ...] = ()
    headers: dict[str, Secret] = {}
    timeouts: Timeouts = Timeouts()
    proxy: str = ""
    verify: bool | str = True
    retries: int = 2
    #: What the file states.
    models: Models = {}
    #: What is known from elsewhere, the weakest first; the file outweighs it all.
    layers: tuple[Layer, ...] = ()
    #: What is asked of tool calls, and what else is asked of those of some models, by name or pattern.
    governance: Governance = Governance()
    model_governance: Models = {}
    sessions: Sessions = Sessions()

    def __repr__(self) -> str:
        # Not even the addresses: a proxy's may hold a password.
        return f"Provider({self.name!r}, {self.dialect!r})"

    def facts(self, model: str) -> dict[str, object]:
        """What is known about one of this provider's models: by patterns in order, then by its name."""
        facts: dict[str, object] = {}
        for layer in self.layers:
            facts |= _about(layer.models, model)
        return facts | _about(self.models, model)

    def states(self, model: str) -> bool:
        """Whether anything is known that holds for whoever asks; see `Layer`."""
        tables = [layer.models for layer in self.layers if layer.is_stated]
        return any(_fitting(tuple(table), model) for table in (*tables, self.models))

    def sources(self, model: str) -> Iterator[tuple[str, dict[str, object]]]:
        """The same facts as `facts`, source by source, the weakest first."""
        for layer in self.layers:
            yield layer.source, _about(layer.models, model)
        yield CONFIG, _about(self.models, model)

    def profile(self, model: str) -> Profile:
        """The facts about one of this provider's models, as a value."""
        return Profile(dialect=self.wire_dialect, provider=self.name, model=model, **self.facts(model))

    def governed(self, model: str, route: Mapping[str, object]) -> Governance:
        """What is asked of one model's tool calls, on a route that asks for this besides."""
        stated = _about(self.model_governance, model) if self.model_governance else {}
        changes = {**stated, **route}
        return msgspec.structs.replace(self.governance, **changes) if changes else self.governance

    @property
    def wire_dialect(self) -> str:
        """The dialect on the wire."""
        return WIRE_DIALECTS.get(self.dialect, self.dialect)


def _about(models: Models, model: str) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name in _fitting(tuple(models), model):
        facts |= models[name]
    return facts


# Clients choose the names that are asked about, so what is remembered of them is bounded.
@lru_cache(maxsize=1024)
def _fitting(patterns: tuple[str, ...], model: str) -> tuple[str, ...]:
    """The patterns that fit in their order, then the name itself."""
    fitting = [pattern for pattern in patterns if pattern != model and fnmatchcase(model, pattern)]
    return (*fitting, model) if model in patterns else tuple(fitting)


class TargetName(msgspec.Struct, frozen=True):
    """One place a request can go: a provider and the model's name there, `*` for the client's own."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """From a client's model name, or a pattern of names, to targets that are tried in order."""

    match: str
    targets: tuple[TargetName, ...]
    strict: bool = False
    #: What this route asks of tool calls, beyond what the target's provider does.
    governance: dict[str, object] = {}


class Server(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8484
    #: Without any, only loopback may be served.
    keys: tuple[Secret, ...] = ()
    #: In lower case.
    hosts: tuple[str, ...] = ()
    max_body_mb: int = 64
    ping: float = 10.0
    drain: float = 30.0
    log: str = "text"
    admin: str = "local"
    #: The folder of what outlives the process; empty is the user's own, see `state_folder`.
    state: str = ""


class Responses(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of the Responses API, and within which bounds."""

    store: bool = True
    max_count: int = 10_000
    max_mb: int = 1024
    max_days: float = 30.0


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What others may know of the gateway's work."""

    metrics: str = "key"
    metrics_key: Secret | None = None
    #: The address of a collector; empty is none.
    traces: str = ""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    server: Server = Server()
    responses: Responses = Responses()
    telemetry: Telemetry = Telemetry()
    providers: dict[str, Provider] = {}
    routes: tuple[Route, ...] = ()
    #: Where a model goes that no route takes; empty refuses it.
    default: tuple[TargetName, ...] = ()
    #: The file this came from, for messages.
    path: str = ""
