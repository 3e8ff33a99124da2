"""Structured logs on stderr: one line per exchange, for people or for machines."""

import logging
import sys

import msgspec

from dragoman.exchange.record import Record

LOGGER = logging.getLogger("dragoman")


class LineFormatter(logging.Formatter):
    """`text`: the time, the message and `key=value`; `json`: one object. Control characters are escaped."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self._json = style == "json"

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = getattr(record, "fields", {})
        if self._json:
            entry = {
                "time": record.created,
                "level": record.levelname.lower(),
                "message": record.getMessage(),
            }
            return msgspec.json.encode({**entry, **fields}).decode()
        shown = " ".join(
            f"{name}={_shown(value)}" for name, value in fields.items() if value not in (None, "")
        )
        return _escaped(f"{self.formatTime(record, '%H:%M:%S')} {record.getMessage()} {shown}".rstrip())


def _shown(value: object) -> str:
    text = str(value)
    return f'"{text}"' if " " in text else text


def _escaped(text: str) -> str:
    return "".join(c if c >= " " and c != "\x7f" else f"\\x{ord(c):02x}" for c in text)


def set_up(style: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(style))
    LOGGER.handlers = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


def log_exchange(record: Record) -> None:
    level = logging.INFO if record.ending == "finished" else logging.WARNING
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "exchange", extra={"fields": record.line()})
