"""Structured log lines on standard error: one line per exchange, as short text, as text or as JSON.

A terminal and the log file of a gateway in the background get short lines, unless `verbose` asks for all
fields. Another file or a pipe gets all fields.

Any value can come from outside. Control characters are escaped, so they never reach a terminal.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from dragoman.hub.errors import Failure
from dragoman.telemetry.log_file import LineHandler, LogFile, LogFileHandler
from dragoman.telemetry.short_line import ShortLine

if TYPE_CHECKING:
    from dragoman.exchange.kind import ExchangeKind
    from dragoman.exchange.record import ExchangeRecord

LOGGER = logging.getLogger("dragoman")
#: The log level of each logger. Of uvicorn only errors matter. OpenTelemetry warns for each failed export.
_LEVELS = (
    (LOGGER, logging.INFO),
    (logging.getLogger("uvicorn.error"), logging.ERROR),
    (logging.getLogger("opentelemetry"), logging.ERROR),
)

#: The messages of lines about exchanges, and about a change that governance made.
EXCHANGE = "exchange"
GOVERNANCE = "governance"

#: How much is logged: short lines on a terminal, all fields, or only failures.
LogDetail = Literal["normal", "verbose", "quiet"]
#: The detail of the log, as the only element; and the log file, if there is one.
_details: list[LogDetail] = ["normal"]
_log_files: list[LogFile] = []

MAX_PATH = 200
#: Kinds of exchanges whose part of a line is kept. It is bounded because clients choose the names.
MAX_KINDS = 500
#: Characters of a text in a header, a span or a log line.
MAX_PRINTABLE = 900

#: Characters that start a line, move the cursor of a terminal, or change the direction of text.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Values that need no quotes.
_is_plain = re.compile(r"[!#-<>-~]+").fullmatch
_NOT_PRINTABLE = re.compile(r"[^ -~]")
_format_pair = "%s=%s".__mod__


class LogFormatter(logging.Formatter):
    """`text`: the time, the message and `key=value`; `json`: one JSON object per line; `short`: for eyes.

    `is_file`: the lines are read later, so they have the date, and no colours.
    """

    def __init__(self, style: str, *, is_file: bool = False) -> None:
        super().__init__()
        self._is_json = style == "json"
        self._time_format = "%Y-%m-%d %H:%M:%S" if is_file else "%H:%M:%S"
        has_colours = not is_file and not os.environ.get("NO_COLOR")
        self._short = ShortLine(has_colours=has_colours) if style == "short" else None
        self._second = 0
        self._time = ""

    def format(self, record: logging.LogRecord) -> str:
        exchange: ExchangeRecord | None = getattr(record, "exchange", None)
        if exchange is not None and not self._is_json and self._short is None:
            date, request = self._format_date(record), exchange.request_id
            shown = request if _is_plain(request) else _quote(request)
            numbers, texts = exchange.list_numbers(), exchange.list_texts()
            line = f"{date} {EXCHANGE} request={shown} {_format_kind(exchange.kind)} {_join_pairs(numbers)}"
            return f"{line} {_format_pairs(texts)}" if texts else line
        fields: Mapping[str, object] = exchange.line() if exchange else getattr(record, "fields", {})
        message = record.getMessage().strip()
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._is_json:
            entry = {"time": record.created, "level": record.levelname.lower(), "message": message}
            return msgspec.json.encode({**entry, **({"trace": trace} if trace else {}), **fields}).decode()
        date = self._format_date(record)
        if self._short is not None and message == EXCHANGE:
            values = {name: _escape(each) if isinstance(each, str) else each for name, each in fields.items()}
            return f"{date} {self._short.format(values)}"
        line = f"{date} {_escape(message)} {_format_pairs(fields)}".rstrip()
        return "\n  | ".join([line, *map(_escape, trace.splitlines())]) if trace else line

    def _format_date(self, record: logging.LogRecord) -> str:
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._time = self.formatTime(record, self._time_format)
        return self._time


def _format_pairs(fields: Mapping[str, object]) -> str:
    """The fields as `key=value`. Texts that need quotes get them."""
    return _join_pairs(
        {
            name: _quote(value) if isinstance(value, str) and not _is_plain(value) else value
            for name, value in fields.items()
        }
    )


def _join_pairs(fields: Mapping[str, object]) -> str:
    return " ".join(map(_format_pair, fields.items()))


@lru_cache(MAX_KINDS)
def _format_kind(kind: "ExchangeKind") -> str:
    """The `key=value` text of an `ExchangeKind`. Cached, because many exchanges have the same kind."""
    return _format_pairs(kind.list_fields())


def _quote(text: str) -> str:
    return '"' + _escape(text).replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def make_printable(text: str) -> str:
    """The text as visible ASCII of limited length, so that it is safe in a header."""
    text = text[:MAX_PRINTABLE]
    return text if text.isascii() and text.isprintable() else _NOT_PRINTABLE.sub("?", text)


def set_detail(detail: LogDetail) -> None:
    """Set how much is logged, for this call of `set_up_logging` and all later ones."""
    _details[:] = [detail]


def use_log_file(path: Path) -> None:
    """Write standard output, standard error and all log lines to this file. Call it before anything else."""
    _log_files[:] = [LogFile(path)]


def set_up_logging(style: str) -> None:
    """Send all log lines to standard error in this style, `text` or `json`. May be called again."""
    (detail,) = _details
    # Finding these values costs more than writing the line, and no line contains them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    file = _log_files[0] if _log_files else None
    handler = LogFileHandler(file) if file else LineHandler(sys.stderr)
    is_short = style == "text" and detail != "verbose" and (file is not None or sys.stderr.isatty())
    handler.setFormatter(LogFormatter("short" if is_short else style, is_file=file is not None))
    if is_short:
        # The line of the exchange has the number of changes.
        handler.addFilter(lambda record: record.levelno > logging.INFO or record.msg != GOVERNANCE)
    handler.setLevel(logging.WARNING if detail == "quiet" else logging.NOTSET)
    for logger, level in _LEVELS:
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def log_exchange(exchange: "ExchangeRecord") -> None:
    """Log an exchange that has ended, and one line for each intervention of governance."""
    level = logging.INFO if exchange.kind.ending == "finished" else logging.WARNING
    if LOGGER.isEnabledFor(level):
        _emit(_build_record(level, EXCHANGE, exchange=exchange))
    if exchange.interventions.is_governed and LOGGER.isEnabledFor(logging.INFO):
        for fields in exchange.governance_lines():
            _write(logging.INFO if fields["ok"] else logging.WARNING, GOVERNANCE, fields)


def log_refusal(request_id: str, method: str, path: str, status: int, failure: Failure) -> None:
    """Log a request that did not become an exchange. `path` has no query, because that may hold a key."""
    fields = {
        "request": request_id,
        "method": method,
        "path": path[:MAX_PATH],
        "status": status,
        "error": failure.kind,
    }
    _write(logging.WARNING, "refused", fields)


def log_reload(reason: str, path: str, changes: Mapping[str, object], waiting: Sequence[str]) -> None:
    """Log a new configuration. `waiting`: the changed keys that need a restart."""
    fields = {
        "config": path,
        "because": reason,
        "changed": ", ".join(_format_change(name, what) for name, what in changes.items()) or "nothing",
    }
    if waiting:
        fields["needs_restart"] = ", ".join(waiting)
    _write(logging.WARNING if waiting else logging.INFO, "reloaded", fields)


def _format_change(name: str, what: object) -> str:
    return f"{name} ({', '.join(map(str, what))})" if isinstance(what, list) else name


def log_reload_refused(reason: str, error: str) -> None:
    """Log a configuration file with an error."""
    fields = {"because": reason, "error": error, "in_force": "the previous configuration"}
    _write(logging.ERROR, "reload refused", fields)


def log_closing(count: int, seconds: float) -> None:
    """Log that the gateway waits for its open exchanges before it stops."""
    fields = {"open_exchanges": count, "within": seconds}
    _write(logging.INFO, "closing; send the signal again to stop at once", fields)


def log_socket(agent: str, responses: int, seconds: float) -> None:
    """Log a WebSocket that has closed, with the number of its responses."""
    fields = {"agent": make_printable(agent)[:80], "responses": responses, "seconds": round(seconds, 1)}
    _write(logging.INFO, "socket closed", fields)


def log_start(url: str, path: str, warnings: Iterable[str]) -> None:
    """Log the address and the configuration file at the start, and each warning about that file."""
    _write(logging.INFO, "listening", {"url": url, "config": path})
    for warning in warnings:
        _write(logging.WARNING, "configuration", {"warning": warning})


def log_warning(message: str, **fields: object) -> None:
    """Log something that the gateway cannot do, although it serves."""
    _write(logging.WARNING, message, {name: value for name, value in fields.items() if value})


def log_error(message: str, **fields: object) -> None:
    """Log an error of the gateway itself that does not stop exchanges."""
    _write(logging.ERROR, message, fields)


def _write(level: int, message: str, fields: Mapping[str, object]) -> None:
    """Emit one log record. `Logger.log` would search the stack for its caller."""
    _emit(_build_record(level, message, fields=fields))


def _emit(record: logging.LogRecord) -> None:
    """Give a record to the handlers. Our logger has no filters and, once it is set up, no parents."""
    if LOGGER.propagate:
        return LOGGER.handle(record)
    for handler in LOGGER.handlers:
        if record.levelno >= handler.level:
            handler.handle(record)


def _build_record(level: int, message: str, **attributes: object) -> logging.LogRecord:
    """A log record: a copy of one that the standard library has built, with the time of now."""
    record = logging.LogRecord.__new__(logging.LogRecord)
    now = time.time()
    record.__dict__.update(
        _build_example(level, message).__dict__, created=now, msecs=now % 1 * 1000, **attributes
    )
    return record


@lru_cache(64)
def _build_example(level: int, message: str) -> logging.LogRecord:
    return logging.LogRecord(LOGGER.name, level, "", 0, message, None, None)
