"""Translates stop reasons."""

from dragoman.hub.events import ReplyFinished, StopCause

CAUSES: dict[str, StopCause] = {
    "end_turn": "end",
    "max_tokens": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
    "compaction": "compaction",
}

REASONS: dict[StopCause, str] = {
    "end": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "content_filter": "refusal",
    "context_window": "model_context_window_exceeded",
    "pause": "pause_turn",
    "malformed_call": "end_turn",
    # Only clients of a beta know `compaction`.
    "compaction": "end_turn",
    "other": "end_turn",
}


def read_cause(reason: object) -> StopCause:
    """The cause that a `stop_reason` means. None, which some servers send at the end, means a normal end."""
    if reason is None:
        return "end"
    return CAUSES.get(reason, "other") if isinstance(reason, str) else "other"


def choose_reason(finished: ReplyFinished, *, same_dialect: bool, has_calls: bool) -> str:
    """The `stop_reason` to write: the upstream's own if it still fits the cause.

    Agents look for calls only if the reason is `tool_use`, so a reply with calls never ends with `end_turn`.
    """
    reason = REASONS[finished.cause]
    if same_dialect and finished.raw_cause and read_cause(finished.raw_cause) == finished.cause:
        reason = finished.raw_cause
    return "tool_use" if has_calls and reason == "end_turn" else reason
