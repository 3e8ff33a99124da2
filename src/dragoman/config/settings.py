"""The tables of the file that describe the gateway itself, and the limits of a provider. See `model`."""

import ipaddress
from functools import lru_cache
from typing import Annotated, Literal

import msgspec

from dragoman.config.value_kinds import TABLE, TEXT, TEXTS, integer
from dragoman.providers.facts import Doc


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


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether the name or address of a host is that of this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A server that listens on IPv6 sees IPv4 clients under such an address.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[server]`: the gateway's address, its keys and its limits."""

    host: Annotated[str, Doc("The address to listen on. Addresses other than loopback need client keys.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, integer(0, 65535), Doc("The port to listen on; 0: any free port.")] = 8484
    workers: Annotated[
        int, integer(1, 256), Doc("Processes that serve the port; one per core uses all cores.")
    ] = 1
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
    history_mb: Annotated[
        int,
        integer(0, 65536),
        Doc("Megabytes for translated history, which the next request of a conversation reuses; 0: none."),
    ] = 64
    history_check: Annotated[
        bool, Doc("Translate continued conversations also as a whole, compare, and log differences.")
    ] = False
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


class StateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[state]`: a PostgreSQL database that several gateways share. Without it the state is a file."""

    url: Annotated[
        Secret | None,
        TEXT,
        Doc("The address of a PostgreSQL database, `postgresql://…`: a literal or `env:NAME`."),
    ] = None
    connections: Annotated[
        int, integer(1, 200), Doc("The most connections of one gateway process to the database.")
    ] = 8
    timeout: Annotated[float, Doc("Seconds until a database that does not answer counts as lost.")] = 3.0
    pooler: Annotated[
        bool, Doc("The address leads to a pooler such as PgBouncer: use no prepared statements.")
    ] = False
    address: Annotated[
        str,
        Doc(
            "The address by which the other gateways reach this one, such as `http://10.0.0.5:8484`."
            " Default: `server.host`, or the address by which this machine reaches the database."
        ),
    ] = ""


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


#: How much of each exchange is recorded. `meta`: everything but contents. `bodies`: contents too.
RecordLevel = Literal["off", "meta", "bodies"]


class RecordSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[records]`: the records of exchanges, and their limits."""

    record: Annotated[
        RecordLevel,
        Doc("How much of each exchange is recorded: nothing, all but contents, or requests and replies too."),
    ] = "meta"
    keys: Annotated[
        dict[str, RecordLevel],
        TABLE,
        Doc("Other values of `record` by the names of client keys; they override those of routes."),
    ] = {}
    max_count: Annotated[
        int, integer(1), Doc("The largest number of recorded exchanges; the oldest are deleted.")
    ] = 20_000
    max_mb: Annotated[int, integer(1), Doc("The largest size of all recorded contents, in megabytes.")] = 512
    max_days: Annotated[float, Doc("Days until the record of an exchange is deleted.")] = 30.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME.timeouts]`, in seconds. 0 means no limit."""

    connect: Annotated[float, Doc("Until the provider is connected; 0: no limit, here and below.")] = 10.0
    # A reply that is not streamed arrives at once, and clients wait ten minutes for it.
    first_byte: Annotated[
        float, Doc("Until the first byte of the reply, or until all of a reply that is not streamed.")
    ] = 600.0
    idle: Annotated[float, Doc("Between two parts of the reply.")] = 300.0
    total: Annotated[float, Doc("Until the end of the reply.")] = 3600.0


class ClaudeCodeSessions(msgspec.Struct, frozen=True, kw_only=True):
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
