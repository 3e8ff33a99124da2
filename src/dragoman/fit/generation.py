"""Settings of the generation: number of answers, token cap, sampling, verbosity, log probabilities.

A setting that the target lacks is removed and is a loss, unless it has the value that holds anyway.
"""

from dragoman.fit.editing import is_foreign, replace
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request
from dragoman.providers.profile import TargetFacts

SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed", "logit_bias")

#: The values that hold when a setting is absent.
DEFAULTS: dict[str, object] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logit_bias": {},
}

#: Settings that some models refuse while they reason.
NOT_WHILE_REASONING = ("temperature", "top_p", "top_k")


def refuse_candidates(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Refuse several answers per request: a hub reply is one answer, so several cannot be translated."""
    if request.candidates is None or (target.candidates and not is_foreign(request, target)):
        return request
    if request.candidates > 1:
        raise ClientProtocolError(
            "this target gives one answer per request",
            path=request.path_of("candidates"),
            hint="ask once for each answer",
        )
    return replace(request, candidates=None)


def fit_max_tokens(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """The cap on output tokens, within the target's bounds."""
    cap = request.max_tokens
    path = request.path_of("max_tokens")
    if cap is not None and not target.limits_output:
        losses.add(path, "the target sets the length of its answers itself")
        cap = None
    if cap is None:
        cap = target.default_max_tokens or None
    if cap is not None and cap < target.min_output_tokens > 0:
        losses.add(path, f"raised to {target.min_output_tokens}, the least that the target takes")
        cap = target.min_output_tokens
    if cap is not None and 0 < target.max_output_tokens < cap:
        if request.max_tokens is not None and target.limits_output:
            losses.add(path, f"lowered to {target.max_output_tokens}, the most that the target gives")
        cap = target.max_output_tokens
    return request if cap == request.max_tokens else replace(request, max_tokens=cap)


def fit_sampling(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Remove sampling settings that the target refuses, alone, together, or while it reasons."""
    removed = {
        name: "the target has no such setting"
        for name in SAMPLING
        if name not in target.sampling and getattr(request, name) is not None
    }
    if _is_reasoning(request) and not target.sampling_with_reasoning:
        for name in NOT_WHILE_REASONING:
            if getattr(request, name) is not None:
                removed.setdefault(name, "the target does not take it while reasoning")
    has_both = request.temperature is not None and request.top_p is not None
    if has_both and not target.temperature_with_top_p and "temperature" not in removed:
        removed.setdefault("top_p", "the target takes temperature or top_p, not both")
    for name, reason in removed.items():
        if name not in DEFAULTS or getattr(request, name) != DEFAULTS[name]:
            losses.add(request.path_of(name), reason)
    if removed:
        request = replace(request, **dict.fromkeys(removed))
    request = _fit_temperature(request, target, losses)
    request = _fit_verbosity(request, target, losses)
    return _fit_log_probabilities(request, target, losses)


def _is_reasoning(request: Request) -> bool:
    wanted = request.reasoning
    if wanted is None:
        return False
    return wanted.mode in ("on", "adaptive") or (wanted.mode is None and wanted.effort not in (None, "none"))


def _fit_temperature(request: Request, target: TargetFacts, losses: Losses) -> Request:
    if request.temperature is None or not 0 < target.temperature_limit < request.temperature:
        return request
    path = request.path_of("temperature")
    losses.add(path, f"lowered to {target.temperature_limit:g}, the most that the target takes")
    return replace(request, temperature=target.temperature_limit)


def _fit_verbosity(request: Request, target: TargetFacts, losses: Losses) -> Request:
    if not request.verbosity or "verbosity" in target.sampling:
        return request
    losses.add(request.path_of("verbosity"), "the target has no such setting")
    return replace(request, verbosity="")


def _fit_log_probabilities(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Remove the request for token probabilities where the target has none.

    The most likely tokens are part of them: a request for these alone is valid at no vendor.
    """
    if request.logprobs is None and request.top_logprobs is None:
        return request
    if "logprobs" in target.sampling and (request.logprobs or not is_foreign(request, target)):
        return request
    for name in ("logprobs", "top_logprobs"):
        if getattr(request, name):
            losses.add(request.path_of(name), "the target's replies have no token probabilities")
    return replace(request, logprobs=None, top_logprobs=None)


def has_limit_field(request: Request, target: TargetFacts) -> bool:
    """Whether the field with the output limit, if there is one, has the name that the target expects."""
    name = target.max_tokens_field
    return request.max_tokens is None or name in ("", request.path_of("max_tokens"))
