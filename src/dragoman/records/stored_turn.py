"""A turn as it is stored: the values of its row, and its details.

Both are arrays in JSON, because names take longer to write than values. The event loop builds them, the
journal has them as one line, and the recorder's thread hands the values to SQLite as they are.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from dragoman.hub.loss import Loss
from dragoman.hub.usage import Usage

#: What is read and shown: the columns of a turn by their names.
Row = dict[str, Any]


class TurnRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The columns of a turn, without those that are known when it is written: its number and its project."""

    request: str
    session: str
    sub_agent: str
    agent: str
    version: str
    key: str
    started: float
    seconds: float
    first_token: float
    client: str
    upstream: str
    model: str
    route: str
    rule: str
    target: str
    lane: str
    stream: int
    status: int
    ending: str
    cause: str
    error: str
    tries: int
    tools: int
    losses: int
    interventions: int
    input: int | None
    cache_read: int | None
    cache_write: int | None
    output: int | None
    reasoning: int | None
    cost: int | None
    level: str
    #: Missing in the journals and archives of earlier versions.
    saved: int | None = None


def build_stored_row(row: Row) -> TurnRow:
    """The stored values of a row that has all columns. Rows of earlier versions lack the last ones."""
    return TurnRow(**{name: row[name] for name in TurnRow.__struct_fields__ if name in row})


#: The counts of a turn's details, in the order in which they are stored. Only append.
COUNTS = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_long",
    "reasoning",
    "tool_input",
    "audio_input",
    "audio_output",
    "web_searches",
    "extras",
)
_get_counts = attrgetter(*COUNTS)
#: Decimals of the times in the details.
_DECIMALS = 4


class StoredAttempt(msgspec.Struct, frozen=True, array_like=True):
    """One call of one target, in seconds since the exchange began."""

    target: str
    began: float
    ended: float
    failure: dict[str, Any] | None
    cools: bool


class StoredCall(msgspec.Struct, frozen=True, array_like=True):
    """One request to an upstream and the head of its reply."""

    target: str
    dialect: str
    sent: float
    status: int
    headers: Mapping[str, str]
    is_cut: bool


class TurnDetails(msgspec.Struct, frozen=True, array_like=True):
    """What is shown of one turn only."""

    attempts: Sequence[StoredAttempt]
    calls: Sequence[StoredCall]
    losses: Sequence[Loss]
    reply_losses: Sequence[Loss]
    interventions: Sequence[Mapping[str, object]]
    usage: Sequence[Any]
    entry: str
    #: A JSON object, which many turns have in common.
    request_headers: msgspec.Raw
    reply_headers: Mapping[str, str]
    transport: str
    upstream_request: str
    upstream_session: str
    has_alternatives: bool


class _StoredLosses(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of `TurnDetails`, of which only the losses are read."""

    attempts: msgspec.Raw
    calls: msgspec.Raw
    losses: Sequence[Loss]
    reply_losses: Sequence[Loss]


encode_details = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(TurnDetails)
_LOSS_DECODER = msgspec.json.Decoder(_StoredLosses)


def list_counts(usage: Usage) -> tuple[Any, ...]:
    """The counts in the order of `COUNTS`."""
    counts: tuple[Any, ...] = _get_counts(usage)
    return counts


def decode_details(data: bytes) -> Row:
    """The details as they are shown. Those of earlier versions and of imported turns are a JSON object."""
    if data.startswith(b"{"):
        details: Row = msgspec.json.decode(data)
        return details
    stored = _DECODER.decode(data)
    return {
        **msgspec.structs.asdict(stored),
        "attempts": [_show_times(attempt, "began", "ended") for attempt in stored.attempts],
        "calls": [_show_times(call, "sent") for call in stored.calls],
        "losses": msgspec.to_builtins(stored.losses),
        "reply_losses": msgspec.to_builtins(stored.reply_losses),
        "usage": {name: value for name, value in zip(COUNTS, stored.usage, strict=False) if value},
        "request_headers": msgspec.json.decode(stored.request_headers),
    }


def decode_losses(data: bytes) -> list[Loss]:
    """The losses of a turn's details alone: those of the request, then those of the reply."""
    if data.startswith(b"{"):
        details: Row = msgspec.json.decode(data)
        return msgspec.convert([*details["losses"], *details["reply_losses"]], list[Loss])
    stored = _LOSS_DECODER.decode(data)
    return [*stored.losses, *stored.reply_losses]


def _show_times(stored: msgspec.Struct, *times: str) -> Row:
    shown = msgspec.structs.asdict(stored)
    return {**shown, **{name: round(shown[name], _DECIMALS) for name in times}}
