"""`dragoman statusline`: the status line of Claude Code, with what the gateway knows about the session.

Claude Code starts the command after each turn, and gives it a JSON object on standard input. So it imports
little, waits only a moment for the gateway, and prints what it knows if there is no gateway.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import click
import msgspec

#: Bytes of the input and of the gateway's answer.
MAX_INPUT = 1024 * 1024
#: Seconds for the gateway's answer.
TIMEOUT = 0.5
#: The used parts of a window or a budget from which on they are yellow, and red.
WARNING, ALARM = 0.75, 0.95

Json = dict[str, object]


@click.command()
@click.option("--url", default="", help="The address of the gateway. Default: ANTHROPIC_BASE_URL.")
def statusline(url: str) -> None:
    """Print the status line of Claude Code: model, context, cost, cache and budget.

    Claude Code calls it. Put it into your settings, ~/.claude/settings.json:

    \b
    {"statusLine": {"type": "command", "command": "dragoman statusline"}}

    `dragoman run claude` does so for its run, unless your settings have a status line.
    """
    given = _decode(sys.stdin.buffer.read(MAX_INPUT))
    address = url or os.environ.get("ANTHROPIC_BASE_URL", "")
    key = os.environ.get("ANTHROPIC_AUTH_TOKEN") or os.environ.get("ANTHROPIC_API_KEY", "")
    found = ask_gateway(address, key, _text(given, "session_id"), _text(given, "version"))
    click.echo(build_line(given, found), color=True)


def ask_gateway(address: str, key: str, session: str, version: str) -> Json:
    """What the gateway knows about the session; empty if none answers in time."""
    try:
        parts = urlsplit(address)
        if not session or parts.scheme not in ("http", "https"):
            return {}
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = connect(parts.hostname or "", parts.port, timeout=TIMEOUT)
        headers = {"x-claude-code-session-id": session, "user-agent": f"claude-cli/{version or '0'}"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        connection.request("GET", f"{parts.path.rstrip('/')}/session", headers=headers)
        response = connection.getresponse()
        return _decode(response.read(MAX_INPUT)) if response.status == 200 else {}
    except (OSError, HTTPException, ValueError):
        return {}


def build_line(given: Json, found: Json) -> str:
    """The line. `given` is the object of Claude Code, `found` the gateway's answer. Both may be empty."""
    is_known = bool(found.get("requests"))
    model = _text(found, "target") or _text(_object(given, "model"), "display_name")
    parts = [click.style(_clean(model), bold=True) if model else "", _describe_context(given, found)]
    cost = _number(_object(given, "cost"), "total_cost_usd")
    if is_known:
        # Claude Code computes the cost with Anthropic's prices, for any model that answers.
        unknown = found.get("cost_usd") is None
        parts.append("cost unknown" if unknown else f"${_number(found, 'cost_usd'):.2f}")
    elif cost and not found:
        parts.append(f"${cost:.2f}")
    parts += [_describe_cache(given, found), _describe_budget(_object(found, "budget"))]
    return " · ".join(filter(None, parts)) or "dragoman"


def _describe_context(given: Json, found: Json) -> str:
    window = _object(given, "context_window")
    used = _number(found, "context") or _number(window, "total_input_tokens")
    size = _number(found, "context_window") or _number(window, "context_window_size")
    if not used or not size:
        return ""
    return _color(f"{_shorten(used)}/{_shorten(size)} ({used / size:.0%})", used / size)


def _describe_cache(given: Json, found: Json) -> str:
    total = _number(found, "input")
    share = _number(found, "cache_read") / total if total else None
    if share is None and not found:
        ratio = _object(given, "prompt_cache").get("hit_ratio")
        share = float(ratio) if isinstance(ratio, int | float) else None
    return "" if share is None else f"cache {share:.0%}"


def _describe_budget(budget: Json) -> str:
    limit, used = _number(budget, "limit"), _number(budget, "used")
    if not limit:
        return ""
    in_dollars = budget.get("unit") == "dollars"
    amounts = f"${used:.2f}/${limit:.2f}" if in_dollars else f"{used / limit:.0%} of tokens"
    period = "today" if budget.get("period") == "day" else "this month"
    return _color(f"{amounts} {period}", used / limit)


def _color(text: str, share: float) -> str:
    return click.style(text, fg="red" if share >= ALARM else "yellow") if share >= WARNING else text


def _shorten(tokens: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:.0f}"


def _decode(data: bytes) -> Json:
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _object(holder: Json, name: str) -> Json:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _text(holder: Json, name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def _number(holder: Json, name: str) -> float:
    value = holder.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _clean(text: str) -> str:
    """The text without control characters: a terminal shows it."""
    return "".join(letter for letter in text if letter.isprintable())[:80]
