"""Builds the row of a turn from the `ExchangeRecord` of its exchange and its tap."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from dragoman.exchange.record import MAX_CAUSE, AttemptRecord, ExchangeRecord
from dragoman.hub.errors import Failure
from dragoman.records.redaction import list_credentials, redact_content
from dragoman.records.store import Row
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

_encode = msgspec.json.Encoder().encode


def build_row(record: ExchangeRecord, tap: MetaTap, session: str, project: str, now: float) -> Row:
    """The columns of the turn. `now` is the date of its end."""
    identity, used, failure = tap.identity, record.used, record.failure
    return {
        "request": record.request_id,
        "session": session,
        "number": 0,
        "sub_agent": identity.sub_agent,
        "agent": identity.agent,
        "version": identity.version,
        "project": project,
        "key": record.caller.name,
        "started": now - record.seconds,
        "seconds": round(record.seconds, 4),
        "first_token": round(record.first_token_seconds, 4),
        "client": record.dialect,
        "upstream": tap.calls[-1].dialect if tap.calls else "",
        "model": record.model[:MAX_TEXT],
        "route": record.route[:MAX_TEXT],
        "rule": record.rule[:MAX_TEXT],
        "target": str(record.target)[:MAX_TEXT] if record.target else "",
        "lane": record.lane,
        "stream": int(record.stream),
        "status": record.status,
        "ending": record.ending,
        "cause": record.cause[:MAX_CAUSE],
        "error": _mask(f"{failure.kind}: {failure.message}")[:MAX_TEXT] if failure else "",
        "tries": record.tries,
        "tools": record.tally.calls if record.tally else 0,
        "losses": len(record.losses) + len(record.reply_losses),
        "interventions": record.interventions.changes,
        "input": used.input,
        "cache_read": used.cache_read,
        "cache_write": used.cache_write,
        "output": used.output,
        "reasoning": used.reasoning,
        "cost": record.cost,
        "level": tap.level,
    }


def encode_details(record: ExchangeRecord, tap: MetaTap) -> bytes:
    """What is shown of one turn only, as JSON: attempts, losses, interventions, headers, all counts."""
    client = tap.client if isinstance(tap, BodyTap) else None
    credentials = list_credentials(tap.headers) if client else ()
    used = record.used
    details: dict[str, object] = {
        "attempts": [
            {
                "target": str(attempt.target),
                "began": round(attempt.began, 4),
                "ended": round(attempt.ended, 4),
                "failure": _build_failure(attempt.failure) if attempt.failure else None,
                "cools": attempt.cools,
            }
            for attempt in _list_attempts(record, tap)
        ],
        "calls": [
            {
                "target": str(call.target),
                "dialect": call.dialect,
                "sent": round(call.sent_at - tap.started_at, 4),
                "status": call.status,
                "headers": _mask_values(keep_headers(call.headers), credentials),
                "is_cut": call.is_cut,
            }
            for call in tap.calls
        ],
        "losses": list(record.losses),
        "reply_losses": list(record.reply_losses),
        "interventions": [dict(logged.line(record.redact)) for logged in record.interventions],
        "usage": {name: value for name in used.__struct_fields__ if (value := getattr(used, name))},
        "entry": tap.entry,
        "request_headers": keep_headers(tap.headers),
        "reply_headers": _mask_values(keep_headers(client.headers), credentials) if client else {},
        "transport": type(client.transport).__name__ if client else "",
        "upstream_request": record.upstream_id,
        "upstream_session": record.session,
        "has_alternatives": record.has_alternatives,
    }
    return _encode(details)


def _build_failure(failure: Failure) -> dict[str, object]:
    return {**msgspec.to_builtins(failure), "message": _mask(failure.message)}


def _mask(message: str) -> str:
    """The message without secrets: a provider may quote the request in it."""
    return redact_content(message.encode("utf-8", "replace")).decode("utf-8", "replace")


def _mask_values(headers: dict[str, str], secrets: Sequence[bytes]) -> dict[str, str]:
    """Headers of a provider's reply without the client's credential, which the provider may quote."""
    return {
        name: redact_content(value.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")
        for name, value in headers.items()
    }


def _list_attempts(record: ExchangeRecord, tap: MetaTap) -> list[AttemptRecord]:
    """The calls of targets. The turn is stored before the last one is noted, at the end of the reply."""
    attempts = list(record.attempts)
    if len(attempts) < record.tries and record.target is not None and tap.calls:
        began = tap.calls[-1].sent_at - tap.started_at
        attempts.append(AttemptRecord(record.target, began, record.seconds, record.broken, cools=False))
    return attempts


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are recorded, by their names in lower case."""
    return {kept: value[:MAX_TEXT] for name, value in headers.items() if (kept := _find_recorded_name(name))}


# Bounded, because clients choose the names.
@lru_cache(maxsize=256)
def _find_recorded_name(name: str) -> str:
    """The name in lower case; empty if such headers are not recorded."""
    lower = name.lower()
    return lower if lower in KEPT_HEADERS or lower.startswith(KEPT_PREFIXES) else ""
