"""What happened in one exchange, for the log line and the response headers. Never the words themselves."""

from collections.abc import Mapping
from typing import Literal

from dragoman.config.model import TargetName
from dragoman.exchange.ask import Ask
from dragoman.hub.errors import Failure
from dragoman.hub.loss import Loss
from dragoman.hub.request import Request
from dragoman.hub.tally import Tally

#: A header must stay short, whatever was lost.
MAX_HEADER = 900

REQUEST_ID_HEADER = {"anthropic": "request-id"}


class Record:
    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.model = ""
        self.stream = False
        self.route = ""
        self.target: TargetName | None = None
        self.failed_tries = 0
        self.losses: tuple[Loss, ...] = ()
        self.tally: Tally | None = None
        self.first_word = 0.0
        self.seconds = 0.0
        self.ending: Literal["", "finished", "failed", "cancelled"] = ""
        self.failure: Failure | None = None

    def asked(self, request: Request) -> None:
        self.model, self.stream = request.model, request.stream

    def ended(self, ending: Literal["finished", "failed", "cancelled"], failure: Failure | None) -> None:
        self.ending, self.failure = ending, failure

    def headers(self) -> Mapping[str, str]:
        """What the client may know: which request, which target, what was lost, how often it was tried."""
        headers = {REQUEST_ID_HEADER.get(self.ask.dialect, "x-request-id"): self.ask.request_id}
        if self.target is not None:
            headers["x-dragoman-target"] = _printable(str(self.target))
        if self.failed_tries:
            headers["x-dragoman-retries"] = str(self.failed_tries)
        if self.losses:
            headers["x-dragoman-losses"] = _printable(
                f"{len(self.losses)}: " + "; ".join(map(str, self.losses))
            )
        return headers

    def line(self) -> dict[str, object]:
        """The exchange in one log line."""
        usage = self.tally.usage if self.tally else None
        return {
            "request": self.ask.request_id,
            "client": self.ask.dialect,
            "agent": _printable(self.ask.headers.get("user-agent", ""))[:80],
            "model": self.model,
            "route": self.route,
            "target": str(self.target) if self.target else "",
            "stream": self.stream,
            "ending": self.ending,
            "error": f"{self.failure.kind}: {self.failure.message}" if self.failure else "",
            "input": usage.input if usage else None,
            "cached": usage.cache_read if usage else None,
            "output": usage.output if usage else None,
            "first_word": round(self.first_word, 4),
            "seconds": round(self.seconds, 4),
            "retries": self.failed_tries,
            "losses": len(self.losses),
        }


def _printable(text: str) -> str:
    """Header-safe: visible ASCII only, bounded."""
    return "".join(c if " " <= c <= "~" else "?" for c in text)[:MAX_HEADER]
