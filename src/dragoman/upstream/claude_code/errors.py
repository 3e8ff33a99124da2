"""What can go wrong with a session, each in its own words and with its own status."""

from dragoman.hub.errors import Failure, UpstreamFailed, kind_of_status

EXTRA = "pip install 'dragoman[claude-code]'"


def session_not_found(session: str) -> UpstreamFailed:
    what = f"there is no session {session[:80]!r} here" if session else "no session waits for these results"
    message = f"{what}; send the whole history without X-Session-ID to begin a new one"
    return UpstreamFailed(Failure(kind="not_found", status=404, message=message, code="session_not_found"))


def nothing_to_answer() -> UpstreamFailed:
    message = (
        "the conversation ends without anything that is still to be answered; add a message of the user, "
        "since Claude Code continues no answer of others"
    )
    return UpstreamFailed(Failure(kind="invalid_request", status=400, message=message, param="messages"))


def tool_call_timeout(seconds: float) -> UpstreamFailed:
    message = (
        f"this result came too late: a call is given up after {seconds:g} s, and Claude is told so; "
        "go on with a new message (sessions.call_timeout sets the limit)"
    )
    return UpstreamFailed(Failure(kind="timeout", status=504, message=message, code="tool_call_timeout"))


def permission_denied(names: list[str]) -> UpstreamFailed:
    called = ", ".join(sorted(set(names)))[:200]
    message = (
        f"Claude insists on tools that this request did not declare: {called}; declare them, or ask otherwise"
    )
    return UpstreamFailed(Failure(kind="permission", status=403, message=message, code="permission_denied"))


def too_many_turns(limit: int) -> UpstreamFailed:
    message = (
        f"the prompt has taken {limit} rounds of tool calls and Claude asks for more; "
        "go on with a new message, or raise sessions.max_turns"
    )
    return UpstreamFailed(
        Failure(kind="invalid_request", status=400, message=message, code="max_turns_exceeded")
    )


def no_room(limit: int) -> UpstreamFailed:
    message = (
        f"all {limit} sessions are at work; try again in a moment (sessions.limit sets how many there are)"
    )
    return UpstreamFailed(
        Failure(kind="overloaded", status=503, message=message, code="no_session_free", retry_after=2.0)
    )


def crashed(why: str) -> UpstreamFailed:
    message = f"Claude Code ended in the middle of the turn{': ' + why if why else ''}"
    return UpstreamFailed(Failure(kind="server", status=502, message=message, code="claude_code_crashed"))


def sdk_missing(module: str) -> UpstreamFailed:
    message = f"the Agent SDK is not installed (no module {module!r}); install the extra: {EXTRA}"
    return UpstreamFailed(Failure(kind="server", status=500, message=message, code="claude_code_missing"))


def command_missing(path: str) -> UpstreamFailed:
    message = (
        f"Claude Code's executable was not found{' at ' + path if path else ''}; install the extra again "
        f"({EXTRA}) or name the executable in sessions.command"
    )
    return UpstreamFailed(Failure(kind="server", status=500, message=message, code="claude_code_missing"))


def told_by_api(status: int | None, text: str) -> UpstreamFailed:
    """What the API that Claude Code calls said no to."""
    known = status or 502
    message = f"Claude Code could not go on: {text or 'its API failed'}"
    return UpstreamFailed(Failure(kind=kind_of_status(known), status=known, message=message[:2000]))
