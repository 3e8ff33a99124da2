"""Structured logs on stderr: one line per exchange, for people or for machines.

Everything in a line may come from outside, so control characters never reach the terminal.
"""

import logging
import re
import sys
from collections.abc import Mapping, Sequence

import msgspec

from dragoman.exchange.record import Record, printable
from dragoman.hub.errors import Failure

LOGGER = logging.getLogger("dragoman")
#: The server's own complaints; its chatter is not ours.
SERVER_LOGGER = logging.getLogger("uvicorn.error")
#: A collector that cannot be reached is no news in every other line.
TRACES_LOGGER = logging.getLogger("opentelemetry")

MAX_PATH = 200

#: What begins a line, moves a terminal's cursor or turns the direction of writing.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PLAIN = re.compile(r"[!#-<>-~]+")


class LineFormatter(logging.Formatter):
    """`text`: the time, the message and `key=value`; `json`: one object."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self._json = style == "json"
        self._second = 0
        self._time = ""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] = getattr(record, "fields", {})
        message = record.getMessage().strip()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._json:
            entry = {"time": record.created, "level": record.levelname.lower(), "message": message}
            return msgspec.json.encode({**entry, **({"trace": trace} if trace else {}), **fields}).decode()
        if int(record.created) != self._second:
            self._second = int(record.created)
            self._time = self.formatTime(record, "%H:%M:%S")
        shown = " ".join([f"{name}={_shown(value)}" for name, value in fields.items()])
        line = f"{self._time} {_escaped(message)} {shown}".rstrip()
        return "\n  | ".join([line, *(_escaped(each) for each in trace.splitlines())])


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return str(value)
    return value if _PLAIN.fullmatch(value) else '"' + _escaped(value).replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


_LEVELS = ((LOGGER, logging.INFO), (SERVER_LOGGER, logging.ERROR), (TRACES_LOGGER, logging.ERROR))


def set_up(style: str) -> None:
    # Finding these out for every line costs more than writing it, and no line shows them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(style))
    for logger, level in _LEVELS:
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def log_exchange(record: Record) -> None:
    """How one exchange went."""
    level = logging.INFO if record.ending == "finished" else logging.WARNING
    if LOGGER.isEnabledFor(level):
        _write(level, "exchange", record.line())
    if record.interventions and LOGGER.isEnabledFor(logging.INFO):
        for fields in record.governance_lines():
            _write(logging.INFO if fields["ok"] else logging.WARNING, "governance", fields)


def log_refusal(request_id: str, method: str, path: str, status: int, failure: Failure) -> None:
    """A request that never became an exchange. Its query is not shown: it may hold a key."""
    fields = {
        "request": request_id,
        "method": method,
        "path": path[:MAX_PATH],
        "status": status,
        "error": failure.kind,
    }
    _write(logging.WARNING, "refused", fields)


def log_reload(why: str, path: str, changes: Mapping[str, object], waiting: Sequence[str]) -> None:
    """A new configuration is in force, but for what only a new start can change."""
    fields = {
        "config": path,
        "because": why,
        "changed": ", ".join(_change(name, what) for name, what in changes.items()) or "nothing",
    }
    if waiting:
        fields["needs_restart"] = ", ".join(waiting)
    _write(logging.WARNING if waiting else logging.INFO, "reloaded", fields)


def _change(name: str, what: object) -> str:
    return f"{name} ({', '.join(map(str, what))})" if isinstance(what, list) else name


def log_reload_refused(why: str, error: str) -> None:
    """The file is wrong, so the configuration from before stays."""
    fields = {"because": why, "error": error, "in_force": "the configuration from before"}
    _write(logging.ERROR, "reload refused", fields)


def log_closing(count: int, seconds: float) -> None:
    """Why it takes a while to stop, and what to do about it."""
    _write(logging.INFO, "closing; once more to end at once", {"open_exchanges": count, "within": seconds})


def log_socket(agent: str, responses: int, seconds: float) -> None:
    """A WebSocket that has ended, and how many responses were asked for over it."""
    fields = {"agent": printable(agent)[:80], "responses": responses, "seconds": round(seconds, 1)}
    _write(logging.INFO, "socket closed", fields)


def log_trouble(message: str, **fields: object) -> None:
    """Something of the gateway's own that does not work, though exchanges go on."""
    _write(logging.ERROR, message, fields)


def _write(level: int, message: str, fields: Mapping[str, object]) -> None:
    """By way of `handle`, because `log` first looks through the stack for whoever called."""
    record = logging.LogRecord(LOGGER.name, level, "", 0, message, None, None)
    record.fields = fields
    LOGGER.handle(record)
