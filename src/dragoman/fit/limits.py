"""The cap on output, within what the target takes, and the stop sequences that the target can watch for."""

from dragoman.fit.editing import replace
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

#: Stop sequences are watched for on every piece of text; nobody needs more, and no vendor takes as many.
MAX_STOPS = 64


def max_tokens(request: Request, target: Target, losses: Losses) -> Request:
    cap = request.max_tokens
    path = request.path_of("max_tokens")
    if cap is None:
        cap = target.default_max_tokens or None
    if cap is not None and cap < target.min_output_tokens:
        losses.add(path, f"raised to {target.min_output_tokens}, the least that the target takes")
        cap = target.min_output_tokens
    if cap is not None and 0 < target.max_output_tokens < cap:
        if request.max_tokens is not None:
            losses.add(path, f"lowered to {target.max_output_tokens}, the most that the target gives")
        cap = target.max_output_tokens
    return request if cap == request.max_tokens else replace(request, max_tokens=cap)


def stops(request: Request, target: Target, losses: Losses) -> Request:
    """Send what the target watches for; `watched_stops` are looked for in the reply, so that none is lost."""
    sent = _sendable(request, target)
    if sent == request.stop:
        return request
    if len(request.stop) > MAX_STOPS:
        losses.add(request.path_of("stop"), f"only the first {MAX_STOPS} stop sequences are watched for")
    return replace(request, stop=sent)


def watched_stops(request: Request, target: Target) -> tuple[str, ...]:
    """What the reply must be watched for because the target does not. All of them, so that one rule holds."""
    if _sendable(request, target) == request.stop:
        return ()
    return tuple(stop for stop in request.stop if stop)[:MAX_STOPS]


def _sendable(request: Request, target: Target) -> tuple[str, ...]:
    stop = request.stop
    if not target.blank_text and any(not text.strip() for text in stop):
        stop = tuple(text for text in stop if text.strip())
    return stop if len(stop) <= target.stop_limit else stop[: target.stop_limit]
