"""Builds the row of a turn from the `ExchangeRecord` of its exchange and its tap."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from dragoman.exchange.record import MAX_CAUSE
from dragoman.hub.errors import Failure
from dragoman.records.redaction import list_credentials, redact_content
from dragoman.records.stored_turn import (
    StoredAttempt,
    StoredCall,
    TurnDetails,
    TurnRow,
    encode_details,
    list_counts,
)
from dragoman.records.taps import BodyTap, MetaTap

#: Characters of a text in a row.
MAX_TEXT = 500
#: Headers that are recorded. All others are left out: any of them may be a credential.
KEPT_HEADERS = frozenset(
    {
        "accept",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "originator",
        "request-id",
        "retry-after",
        "session-id",
        "thread-id",
        "user-agent",
        "x-app",
        "x-claude-1p-request-class",
        "x-claude-code-agent-id",
        "x-claude-code-request-class",
        "x-claude-code-session-id",
        "x-codex-turn-metadata",
        "x-goog-api-client",
        "x-openai-subagent",
        "x-parent-session-id",
        "x-request-id",
        "x-session-affinity",
        "x-session-id",
        "x-should-retry",
    }
)
#: Beginnings of the names of further headers that are recorded.
KEPT_PREFIXES = ("x-dragoman-", "x-ratelimit-", "anthropic-ratelimit-", "x-stainless-")


def build_row(tap: MetaTap, session: str, now: float) -> TurnRow:
    """The columns of the turn. `now` is the date of its end."""
    record, identity, calls = tap.record, tap.identity, tap.calls
    used, failure, tally, interventions = record.used, record.failure, record.tally, record.interventions
    # The order of the fields. To give their names takes 11,000 instructions.
    return TurnRow(
        record.request_id,
        session,
        identity.sub_agent,
        identity.agent,
        identity.version,
        record.caller.name,
        now - record.seconds,
        round(record.seconds, 4),
        round(record.first_token_seconds, 4),
        record.dialect,
        calls[-1].dialect if calls else "",
        record.model[:MAX_TEXT],
        record.route[:MAX_TEXT],
        record.rule[:MAX_TEXT],
        str(record.target)[:MAX_TEXT] if record.target else "",
        record.lane,
        int(record.stream),
        record.status,
        record.ending,
        record.cause[:MAX_CAUSE],
        _mask(f"{failure.kind}: {failure.message}")[:MAX_TEXT] if failure else "",
        record.tries,
        tally.calls if tally else 0,
        len(record.losses) + len(record.reply_losses),
        interventions.changes if interventions.is_governed else 0,
        used.input,
        used.cache_read,
        used.cache_write,
        used.output,
        used.reasoning,
        record.cost,
        tap.level,
        record.saved,
    )


def build_details(tap: MetaTap) -> bytes:
    """What is shown of one turn only, as JSON: attempts, losses, interventions, headers, all counts."""
    record, metadata = tap.record, tap.metadata
    client = tap.client if isinstance(tap, BodyTap) else None
    credentials = list_credentials(metadata.headers) if client else ()
    details = TurnDetails(
        attempts=_list_attempts(tap),
        calls=[
            StoredCall(
                str(call.target),
                call.dialect,
                call.sent_at - tap.started_at,
                call.status,
                _mask_values(keep_headers(call.headers), credentials) if call.headers else {},
                call.is_cut,
            )
            for call in tap.calls
        ],
        losses=[*record.losses],
        reply_losses=[*record.reply_losses],
        interventions=[dict(logged.line(record.redact)) for logged in record.interventions],
        usage=list_counts(record.used),
        entry=metadata.entry,
        request_headers=_encode_headers(metadata.headers),
        reply_headers=_mask_values(keep_headers(client.headers), credentials) if client else {},
        transport=type(client.transport).__name__ if client else "",
        upstream_request=record.upstream_id,
        upstream_session=record.session,
        has_alternatives=record.has_alternatives,
    )
    return encode_details(details)


def _build_failure(failure: Failure) -> dict[str, object]:
    return {**msgspec.to_builtins(failure), "message": _mask(failure.message)}


def _mask(message: str) -> str:
    """The message without secrets: a provider may quote the request in it."""
    return redact_content(message.encode("utf-8", "replace")).decode("utf-8", "replace")


def _mask_values(headers: dict[str, str], secrets: Sequence[bytes]) -> dict[str, str]:
    """Headers of a provider's reply without the client's credential, which the provider may quote."""
    # One search for all of them: mostly there is nothing to mask.
    text = "\n".join(headers.values()).encode("utf-8", "replace")
    if redact_content(text, secrets) == text:
        return headers
    return {
        name: redact_content(value.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")
        for name, value in headers.items()
    }


def _list_attempts(tap: MetaTap) -> list[StoredAttempt]:
    """The calls of targets. The turn is stored before the last one is noted, at the end of the reply."""
    record = tap.record
    attempts = [
        StoredAttempt(
            str(target), began, ended, _build_failure(failure) if failure is not None else None, cools
        )
        for target, began, ended, failure, cools in record.attempts
    ]
    if len(attempts) < record.tries and record.target is not None and tap.calls:
        began = tap.calls[-1].sent_at - tap.started_at
        broken = _build_failure(record.broken) if record.broken is not None else None
        attempts.append(StoredAttempt(str(record.target), began, record.seconds, broken, cools=False))
    return attempts


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are recorded, by their names in lower case."""
    return {kept: value[:MAX_TEXT] for name, value in headers.items() if (kept := _find_recorded_name(name))}


def _encode_headers(headers: Mapping[str, str]) -> msgspec.Raw:
    """The recorded headers of a request as a JSON object. Those of a session's requests are mostly equal."""
    names = _list_recorded(*headers)
    return _encode_recorded(names, *map(headers.__getitem__, names))


# These are bounded, because clients choose names and values.
@lru_cache(maxsize=64)
def _list_recorded(*names: str) -> tuple[str, ...]:
    return tuple(filter(_find_recorded_name, names))


@lru_cache(maxsize=64)
def _encode_recorded(names: tuple[str, ...], *values: str) -> msgspec.Raw:
    return msgspec.Raw(encode_details(keep_headers(dict(zip(names, values, strict=True)))))


@lru_cache(maxsize=256)
def _find_recorded_name(name: str) -> str:
    """The name in lower case; empty if such headers are not recorded."""
    lower = name.lower()
    return lower if lower in KEPT_HEADERS or lower.startswith(KEPT_PREFIXES) else ""
