"""Every key the file may hold, its kind and its meaning: one table for reading, checking and the docs."""

from typing import NamedTuple

import msgspec

from dragoman.config.facts import facts
from dragoman.config.governance import governance_keys
from dragoman.config.kinds import (
    FLAG,
    FLAG_OR_TEXT,
    TABLE,
    TABLES,
    TEXT,
    TEXT_OR_TEXTS,
    TEXTS,
    Key,
    integer,
    number,
    one_of,
)
from dragoman.config.model import Config, Provider, Responses, Route, Server, Sessions, Telemetry, Timeouts
from dragoman.governance.settings import Governance

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "embedded", "claude_code")

ROOT = {
    "server": Key(TABLE, "The gateway itself."),
    "responses": Key(TABLE, "What is kept for clients of the Responses API."),
    "telemetry": Key(TABLE, "What others may know of the gateway's work."),
    "providers": Key(TABLE, "Who can be called, by a name of your choice."),
    "routes": Key(TABLES, "From the models that clients ask for to targets."),
    "default": Key(TEXT_OR_TEXTS, "Where models go that no route takes; without it they are refused."),
}
SERVER = {
    "host": Key(TEXT, "The address to listen on. Anything but loopback needs client keys."),
    "port": Key(integer(0, 65535), "The port to listen on; 0 picks a free one."),
    "keys": Key(TEXTS, "The keys of which clients must show one, each a literal or `env:NAME`."),
    "hosts": Key(TEXTS, "Further host names that clients, and pages in browsers, may call the gateway by."),
    "max_body_mb": Key(integer(1, 4096), "The largest request in megabytes, after decompression."),
    "ping": Key(number(0), "Seconds of silence after which a waiting client gets a sign of life; 0: never."),
    "drain": Key(number(0), "Seconds that open streams get to finish at shutdown."),
    "log": Key(one_of("text", "json"), "The form of the log: for people or for machines."),
    "admin": Key(
        one_of("local", "remote", "off"),
        "Who may use the admin API, with the admin token: callers on this machine, all, or none.",
    ),
    "state": Key(TEXT, "The folder of what outlives the process; else `~/.local/state/dragoman`."),
}
RESPONSES = {
    "store": Key(FLAG, "Keep responses for clients that come back to them; `false` keeps none."),
    "max_count": Key(integer(1), "How many responses are kept at most; the oldest give way."),
    "max_mb": Key(integer(1), "How many megabytes they may take together."),
    "max_days": Key(number(0), "How many days a response is kept."),
}
TELEMETRY = {
    "metrics": Key(
        one_of("key", "open", "off"),
        "Who may read `/metrics`: whoever shows `metrics_key` or the admin token, all, or none.",
    ),
    "metrics_key": Key(TEXT, "The key of whoever collects metrics: a literal or `env:NAME`."),
    "traces": Key(TEXT, "Where to send traces: the address of an OpenTelemetry collector that takes HTTP."),
}
PROVIDER = {
    "preset": Key(TEXT, "A known provider whose dialect, address and facts to start from."),
    "dialect": Key(one_of(*DIALECTS), "The API that the provider speaks."),
    "base_url": Key(TEXT, "The API's address, with or without the version segment."),
    "api_key": Key(TEXT_OR_TEXTS, "A literal or `env:NAME`; of several, each session keeps to one."),
    "headers": Key(TABLE, "Further headers for every request; values may be `env:NAME`."),
    "timeouts": Key(TABLE, "How long to wait, in seconds."),
    "proxy": Key(TEXT, "The address of an HTTP proxy; may be `env:NAME`."),
    "verify": Key(FLAG_OR_TEXT, "Check certificates; or the path of a file of trusted ones."),
    "retries": Key(integer(0, 20), "How often to try again here before the next target."),
    "models": Key(TABLE, "Facts about models, by name; `*` stands for any part of a name."),
    "governance": Key(TABLE, "What is asked of the tool calls of all its models."),
    "sessions": Key(TABLE, "How Claude Code's sessions are kept; for the dialect `claude_code` only."),
}
SESSIONS = {
    "limit": Key(integer(1, 1000), "The most sessions that run at once; beyond it the oldest makes room."),
    "warm": Key(integer(0, 100), "Processes that wait, started, for new sessions like the last."),
    "idle": Key(number(0), "Seconds after which a session that nobody continues is ended; 0: never."),
    "park": Key(number(0), "Seconds after which a session that waits for results is ended; 0: never."),
    "call_timeout": Key(number(0), "Seconds that a caller has to return a call's result; 0: no limit."),
    "max_turns": Key(integer(1, 1000), "The most rounds of tool calls that one prompt may take."),
    "denials": Key(
        integer(1, 100), "Calls of undeclared tools after which a turn is ended, with status 403."
    ),
    "command": Key(TEXT, "Claude Code's executable; the one that comes with the SDK, unless named."),
}
TIMEOUTS = {
    "connect": Key(number(0), "To reach the provider; 0 is no limit, here and below."),
    "first_byte": Key(number(0), "To the first byte of the reply; if it is not streamed, to all of it."),
    "idle": Key(number(0), "Between two pieces of the reply."),
    "total": Key(number(0), "For the whole reply."),
}
ROUTE = {
    "match": Key(TEXT, "The model that the client asks for; `*` stands for any part of a name."),
    "target": Key(TEXT_OR_TEXTS, "`provider/model`; of several, the next is tried when one fails."),
    "strict": Key(FLAG, "Refuse requests that cannot be translated without loss."),
    "governance": Key(TABLE, "What is asked of the tool calls that come back."),
}


def model_keys() -> dict[str, Key]:
    return {**facts(), "governance": Key(TABLE, "What is asked of the tool calls of these models.")}


class Table(NamedTuple):
    """One table of the file: how its heading is written, its keys, and the value it becomes."""

    heading: str
    keys: dict[str, Key]
    value: type[msgspec.Struct]

    def default(self, key: str) -> object:
        """What holds if the key is left out; None if nothing does."""
        fields = {field.name: field.default for field in msgspec.structs.fields(self.value)}
        default = fields.get(key)
        return default if isinstance(default, bool | int | float | str) and default != "" else None


def tables() -> tuple[Table, ...]:
    """All tables, in the order in which a file has them."""
    return (
        Table("", ROOT, Config),
        Table("[server]", SERVER, Server),
        Table("[responses]", RESPONSES, Responses),
        Table("[telemetry]", TELEMETRY, Telemetry),
        Table("[providers.NAME]", PROVIDER, Provider),
        Table("[providers.NAME.timeouts]", TIMEOUTS, Timeouts),
        Table("[providers.NAME.sessions]", SESSIONS, Sessions),
        Table('[providers.NAME.models."MODEL"]', model_keys(), msgspec.Struct),
        Table("[[routes]]", ROUTE, Route),
        Table("[routes.governance]", governance_keys(), Governance),
    )
