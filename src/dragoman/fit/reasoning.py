"""How much the model should think, in the target's own terms, by way of one neutral scale.

The scale is `hub.request.EFFORTS`. A wish arrives as an effort, a budget in tokens or a mode, and leaves
as what the target's style asks for: `effort` (an effort), `level` (an effort of four), `adaptive` (a mode
and an effort), `budget` (tokens), `none` (nothing).
"""

from collections.abc import Callable

from dragoman.fit.editing import is_foreign, replace
from dragoman.fit.turns import open_calls
from dragoman.hub.content import Reasoning
from dragoman.hub.loss import Losses
from dragoman.hub.request import EFFORTS, Effort, ReasoningSettings, Request
from dragoman.providers.facts import ReasoningStyle
from dragoman.providers.profile import Target

#: Tokens that an effort is worth.
BUDGETS: dict[Effort, int] = {
    "minimal": 512,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 32_768,
}

#: Budgets below these are worth the effort beside them.
EFFORT_BELOW: tuple[tuple[int, Effort], ...] = (
    (1_024, "minimal"),
    (4_096, "low"),
    (16_384, "medium"),
    (32_768, "high"),
)
EFFORT_BEYOND: Effort = "xhigh"

LEVELS: tuple[Effort, ...] = ("minimal", "low", "medium", "high")

DEFAULT: Effort = "medium"


def reasoning(request: Request, target: Target, losses: Losses) -> Request:
    wish = request.reasoning
    if wish is None:
        return request
    if target.reasoning is None:
        fitted: ReasoningSettings | None = _with_known_effort(wish, request, target, losses)
    else:
        fitted = STYLES[target.reasoning](wish, request, target, losses)
        if fitted is not None and is_foreign(request, target):
            fitted = replace(fitted, style="", extras={})
    if fitted != wish:
        request = replace(request, reasoning=fitted)
    return _with_reasoned_calls(_with_room(request, target, losses), target, losses)


def is_off(wish: ReasoningSettings) -> bool:
    return wish.mode == "off" or wish.effort == "none" or wish.budget == 0


def effort_of(wish: ReasoningSettings) -> Effort | None:
    """The wish on the neutral scale; None leaves it to the model."""
    if wish.effort is not None:
        return wish.effort
    if wish.budget is None or wish.budget < 0:
        return None
    return next((effort for bound, effort in EFFORT_BELOW if wish.budget < bound), EFFORT_BEYOND)


def nearest(effort: Effort, known: tuple[Effort, ...]) -> Effort:
    """The known effort closest by; of two equally close, the smaller."""
    place = EFFORTS.index(effort)
    return min(known, key=lambda other: (abs(EFFORTS.index(other) - place), EFFORTS.index(other)))


def _clamped(effort: Effort, known: tuple[Effort, ...], request: Request, losses: Losses) -> Effort | None:
    """`none` is a wish of its own: no amount of thinking is near it."""
    known = tuple(other for other in known if other != "none")
    if not known:
        losses.add(_path_of_effort(request), "the target knows no efforts")
        return None
    clamped = nearest(effort, known)
    if clamped != effort:
        losses.add(_path_of_effort(request), f"the target has no effort {effort!r}, {clamped!r} was sent")
    return clamped


def _path_of_effort(request: Request) -> str:
    """Where the client named the effort, if it did and has a place of its own for it."""
    named = request.reasoning is not None and request.reasoning.effort is not None
    return request.paths.get("effort" if named else "reasoning", request.path_of("reasoning"))


def _with_known_effort(
    wish: ReasoningSettings, request: Request, target: Target, losses: Losses
) -> ReasoningSettings:
    if wish.effort is None or wish.effort in target.efforts or wish.effort == "none":
        return wish
    return replace(wish, effort=_clamped(wish.effort, target.efforts, request, losses))


def _as_effort(
    wish: ReasoningSettings, request: Request, target: Target, losses: Losses
) -> ReasoningSettings:
    plain = replace(wish, mode=None, effort=None, budget=None)
    if is_off(wish):
        return _least(plain, target.efforts, request, losses)
    effort = effort_of(wish)
    if effort is None:
        return plain
    return replace(plain, effort=_clamped(effort, target.efforts, request, losses))


def _least(
    plain: ReasoningSettings, known: tuple[Effort, ...], request: Request, losses: Losses
) -> ReasoningSettings:
    """Off, or as near to it as the target can get."""
    off = replace(plain, mode="off")
    if "none" in known:
        return replace(off, effort="none")
    if not known:
        return off
    least = min(known, key=EFFORTS.index)
    losses.add(request.path_of("reasoning"), f"the target cannot stop reasoning, {least!r} was sent")
    return replace(plain, effort=least)


def _as_level(wish: ReasoningSettings, request: Request, target: Target, losses: Losses) -> ReasoningSettings:
    plain = replace(wish, mode=None, effort=None, budget=None)
    levels = tuple(effort for effort in target.efforts if effort in LEVELS)
    if is_off(wish):
        # The lowest level is what this style has for off.
        return replace(plain, mode="off", effort=min(levels, key=EFFORTS.index, default=None))
    effort = effort_of(wish)
    if effort is None or not levels:
        return plain
    # `high` is the top of this scale, so more than it is not a different wish.
    return replace(plain, effort=nearest(effort, levels))


def _as_adaptive(
    wish: ReasoningSettings, request: Request, target: Target, losses: Losses
) -> ReasoningSettings:
    plain = replace(wish, mode="adaptive", effort=None, budget=None)
    if is_off(wish) and target.always_reasons:
        return _least(plain, tuple(e for e in target.efforts if e != "none"), request, losses)
    if is_off(wish):
        return replace(plain, mode="off")
    effort = effort_of(wish)
    if effort is None:
        # Who wants to see thoughts wants some; Codex says no more than that of a model it does not know.
        return plain if wish.mode or wish.budget or wish.show else replace(plain, mode=wish.mode)
    if effort == "minimal" and "minimal" not in target.efforts and target.efforts:
        # The least that an adaptive model does is what its lowest effort means.
        return replace(plain, effort=nearest(effort, target.efforts))
    return replace(plain, effort=_clamped(effort, target.efforts, request, losses))


def _as_budget(
    wish: ReasoningSettings, request: Request, target: Target, losses: Losses
) -> ReasoningSettings:
    plain = replace(wish, mode=None, effort=None, budget=None)
    if is_off(wish) and target.always_reasons:
        losses.add(request.path_of("reasoning"), "the target cannot stop reasoning, little was asked for")
        return replace(plain, mode="on", budget=_within(BUDGETS["minimal"], target))
    if is_off(wish):
        return replace(plain, mode="off", budget=0)
    if wish.budget is not None and wish.budget > 0:
        return replace(plain, mode="on", budget=_within(wish.budget, target))
    effort = effort_of(wish)
    if effort is None and wish.mode is None and wish.budget is None:
        return plain
    if effort is None and target.budget_dynamic:
        return replace(plain, mode="adaptive", budget=-1)
    return replace(plain, mode="on", budget=_within(BUDGETS[effort or DEFAULT], target))


def _as_none(wish: ReasoningSettings, request: Request, target: Target, losses: Losses) -> None:
    if not is_off(wish) and (wish.mode or wish.effort or wish.budget):
        losses.add(request.path_of("reasoning"), "the target does not reason on demand")


STYLES: dict[
    ReasoningStyle, Callable[[ReasoningSettings, Request, Target, Losses], ReasoningSettings | None]
] = {
    "effort": _as_effort,
    "level": _as_level,
    "adaptive": _as_adaptive,
    "budget": _as_budget,
    "none": _as_none,
}


def _within(budget: int, target: Target) -> int:
    least, most = target.budget_range
    budget = max(budget, least)
    return min(budget, most) if most else budget


def _with_room(request: Request, target: Target, losses: Losses) -> Request:
    """Keep the budget below the cap on all output; raise the cap if it leaves the answer no room at all."""
    wish, cap = request.reasoning, request.max_tokens
    if target.reasoning != "budget" or wish is None or cap is None or wish.budget is None:
        return request
    if wish.budget < cap or wish.budget <= 0:
        return request
    least = max(target.budget_range[0], 1)
    budget = cap * 3 // 4
    if budget < least:
        budget = least
        losses.add(request.path_of("max_tokens"), "raised to leave room for reasoning")
        request = replace(request, max_tokens=cap + least)
    else:
        losses.add(request.path_of("reasoning"), "the reasoning budget was cut to fit below the token cap")
    return replace(request, reasoning=replace(wish, budget=budget))


def _with_reasoned_calls(request: Request, target: Target, losses: Losses) -> Request:
    """Calls of another model came without reasoning that the target would take back: it cannot think on."""
    wish = request.reasoning
    if not target.calls_need_reasoning or target.reasoning != "budget" or wish is None or wish.mode != "on":
        return request
    turn = open_calls(request.turns)
    if turn is None or type(turn.blocks[0]) is Reasoning:
        return request
    losses.add(request.path_of("reasoning"), "the calls being answered came without their reasoning")
    return replace(request, reasoning=replace(wish, mode="off", budget=0))
