"""The errors of the Claude Code upstream. Each has its own status and code."""

from dragoman.hub.errors import Failure, FailureKind, UpstreamFailed, kind_of_status

#: The packages of the extra `claude-code`. A user of pipx needs them in dragoman's own environment.
EXTRA = "pip install claude-agent-sdk mcp mcp-types, or pipx inject dragoman claude-agent-sdk mcp mcp-types"


def _fail(
    kind: FailureKind, status: int, code: str, message: str, retry_after: float | None = None
) -> UpstreamFailed:
    return UpstreamFailed(
        Failure(kind=kind, status=status, code=code, message=message, retry_after=retry_after)
    )


def session_not_found(session: str) -> UpstreamFailed:
    subject = f"there is no session {session[:80]!r}" if session else "no session waits for these results"
    hint = "send the whole history without X-Session-ID to begin a new session"
    return _fail("not_found", 404, "session_not_found", f"{subject}; {hint}")


def nothing_to_answer() -> UpstreamFailed:
    message = (
        "the conversation ends with an assistant message or an old result, so there is nothing to answer; "
        "add a user message (Claude Code cannot continue an assistant message)"
    )
    return UpstreamFailed(Failure(kind="invalid_request", status=400, message=message, param="messages"))


def tool_call_timeout(seconds: float) -> UpstreamFailed:
    message = (
        f"the result came later than {seconds:g} s after its call (sessions.call_timeout); "
        "continue with a new user message"
    )
    return _fail("timeout", 504, "tool_call_timeout", message)


def permission_denied(names: list[str]) -> UpstreamFailed:
    tools = ", ".join(sorted(set(names)))[:200]
    message = f"Claude keeps calling tools that this request does not declare: {tools}; declare them"
    return _fail("permission", 403, "permission_denied", message)


def too_many_turns(limit: int) -> UpstreamFailed:
    message = (
        f"the prompt took {limit} rounds of tool calls and Claude asks for more; "
        "continue with a new user message, or raise sessions.max_turns"
    )
    return _fail("invalid_request", 400, "max_turns_exceeded", message)


def no_session_free(limit: int) -> UpstreamFailed:
    message = f"all {limit} sessions are busy (sessions.limit); try again in a moment"
    return _fail("overloaded", 503, "no_session_free", message, retry_after=2.0)


def process_crashed(reason: str) -> UpstreamFailed:
    message = f"Claude Code ended in the middle of the turn{': ' + reason if reason else ''}"
    return _fail("server", 502, "claude_code_crashed", message)


def sdk_missing(module: str) -> UpstreamFailed:
    message = f"the Agent SDK is not installed (no module {module!r}); install the extra: {EXTRA}"
    return _fail("misconfigured", 500, "claude_code_missing", message)


def executable_missing(path: str) -> UpstreamFailed:
    message = (
        f"Claude Code's executable was not found{' at ' + path if path else ''}; install the extra again "
        f"({EXTRA}) or name the executable in sessions.command"
    )
    return _fail("misconfigured", 500, "claude_code_missing", message)


def api_failed(status: int | None, text: str) -> UpstreamFailed:
    """The API behind Claude Code returned an error; its status is kept."""
    status = status or 502
    message = f"Claude Code could not continue: {text or 'its API failed'}"
    return UpstreamFailed(Failure(kind=kind_of_status(status), status=status, message=message[:2000]))
