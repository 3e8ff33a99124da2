"""Sampling settings that the target has, within its ranges. What it has not is dropped, and told."""

from dragoman.fit.editing import is_foreign, replace
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import Target

PLAIN = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed", "logit_bias")

#: What holds when nothing is said.
USUAL: dict[str, object] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logit_bias": {},
}

#: What models that reason refuse to be given, where they refuse anything.
NOT_WHILE_REASONING = ("temperature", "top_p", "top_k")


def candidates(request: Request, target: Target, losses: Losses) -> Request:
    """Several answers to one request: the hub's replies are single, so they cannot cross dialects."""
    if request.candidates is None or (target.candidates and not is_foreign(request, target)):
        return request
    if request.candidates > 1:
        raise ClientProtocolError(
            "this target gives one answer per request",
            path=request.path_of("candidates"),
            hint="ask once for each answer",
        )
    return replace(request, candidates=None)


def sampling(request: Request, target: Target, losses: Losses) -> Request:
    drops = {
        name: "the target has no such setting"
        for name in PLAIN
        if name not in target.sampling and getattr(request, name) is not None
    }
    if _reasons(request) and not target.sampling_with_reasoning:
        for name in NOT_WHILE_REASONING:
            if getattr(request, name) is not None:
                drops.setdefault(name, "the target does not take it while reasoning")
    both = request.temperature is not None and request.top_p is not None
    if both and not target.temperature_with_top_p and "temperature" not in drops:
        drops.setdefault("top_p", "the target takes temperature or top_p, not both")
    for name, reason in drops.items():
        if not _is_default(request, name):
            losses.add(request.path_of(name), reason)
    if drops:
        request = replace(request, **dict.fromkeys(drops))
    return _log_probabilities(
        _verbosity(_temperature(request, target, losses), target, losses), target, losses
    )


def _reasons(request: Request) -> bool:
    wish = request.reasoning
    if wish is None:
        return False
    return wish.mode in ("on", "adaptive") or (wish.mode is None and wish.effort not in (None, "none"))


def _is_default(request: Request, name: str) -> bool:
    """Saying what holds anyway is no wish."""
    return name in USUAL and getattr(request, name) == USUAL[name]


def _temperature(request: Request, target: Target, losses: Losses) -> Request:
    if request.temperature is None or not 0 < target.temperature_limit < request.temperature:
        return request
    path = request.path_of("temperature")
    losses.add(path, f"lowered to {target.temperature_limit:g}, the most that the target takes")
    return replace(request, temperature=target.temperature_limit)


def _verbosity(request: Request, target: Target, losses: Losses) -> Request:
    if not request.verbosity or "verbosity" in target.sampling:
        return request
    losses.add(request.path_of("verbosity"), "the target has no such setting")
    return replace(request, verbosity="")


def _log_probabilities(request: Request, target: Target, losses: Losses) -> Request:
    """Replies carry no token probabilities between dialects, so asking for them would be a pretence."""
    if request.logprobs is None and request.top_logprobs is None:
        return request
    if "logprobs" in target.sampling and not is_foreign(request, target):
        return request
    for name in ("logprobs", "top_logprobs"):
        if getattr(request, name):
            losses.add(request.path_of(name), "token probabilities do not travel between dialects")
    return replace(request, logprobs=None, top_logprobs=None)
