"""`ExchangeKind`: what many exchanges have in common, so that their log lines and metrics share work."""

from collections.abc import Mapping
from typing import NamedTuple

from dragoman.telemetry.log import make_printable

#: Characters of one value in a log line, and of a short one.
MAX_SHOWN = 300
MAX_SHORT = 80


class ExchangeKind(NamedTuple):
    """The client, the target and the outcome of an exchange, without ids, times and counts."""

    client: str
    agent: str
    sub_agent: str
    #: The names and values of what rules found out.
    traits: tuple[tuple[str, str], ...]
    key: str
    model: str
    rule: str
    route: str
    target: str
    session: str
    lane: str
    stream: bool
    ending: str
    cause: str
    status: int

    def list_fields(self) -> Mapping[str, object]:
        """The fields of the log line for this kind, without empty ones."""
        shown = {
            "client": self.client,
            "agent": make_printable(self.agent)[:MAX_SHORT],
            "sub_agent": make_printable(self.sub_agent)[:MAX_SHORT],
            **{name: make_printable(value)[:MAX_SHOWN] for name, value in self.traits},
            "key": self.key,
            "model": self.model,
            "rule": self.rule,
            "route": self.route,
            "target": self.target,
            "session": self.session,
            "lane": self.lane,
            "stream": self.stream,
            "ending": self.ending,
            "cause": self.cause,
            "status": self.status,
        }
        return {name: value for name, value in shown.items() if value != ""}
