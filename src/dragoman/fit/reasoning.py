"""How much the model reasons, in the target's own terms.

The neutral scale between all vendors is `hub.request.EFFORTS`. A client sends an effort, a budget in tokens
or a mode. The target gets what its style asks for: `effort` (an effort), `level` (one of four efforts),
`adaptive` (a mode and an effort), `budget` (tokens), `none` (nothing).
"""

from collections.abc import Callable

from dragoman.fit.editing import is_foreign, replace, replace_blocks, replace_messages
from dragoman.fit.messages import find_open_calls
from dragoman.hub.blocks import Reasoning
from dragoman.hub.loss import Losses
from dragoman.hub.request import EFFORTS, Effort, Message, ReasoningSettings, Request
from dragoman.providers.facts import ReasoningStyle
from dragoman.providers.profile import TargetFacts

#: The budget in tokens that stands for an effort.
BUDGETS: dict[Effort, int] = {
    "minimal": 512,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 32_768,
    "max": 32_768,
}

#: The effort that stands for a budget: the first whose bound is above the budget.
EFFORT_BELOW: tuple[tuple[int, Effort], ...] = (
    (1_024, "minimal"),
    (4_096, "low"),
    (16_384, "medium"),
    (32_768, "high"),
)
LARGEST_EFFORT: Effort = "xhigh"

LEVELS: tuple[Effort, ...] = ("minimal", "low", "medium", "high")

DEFAULT: Effort = "medium"

#: The reasoning of a message that has none. Moonshot refuses an empty text.
BLANK = Reasoning(parts=(" ",))


def fit_reasoning(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write the reasoning settings in the target's style, and make budget and token cap agree."""
    wanted = request.reasoning
    if not target.whole_reasoning and not request.stream:
        if wanted is not None and not is_off(wanted):
            losses.add(_find_effort_path(request), "the target reasons only in streams")
        return replace(request, reasoning=ReasoningSettings(mode="off"))
    if wanted is None:
        return request
    if target.reasoning is None:
        fitted: ReasoningSettings | None = _fit_effort(wanted, request, target, losses)
    else:
        fitted = STYLES[target.reasoning](wanted, request, target, losses)
        if fitted is not None and is_foreign(request, target):
            fitted = replace(fitted, style="", extras={})
    if fitted != wanted:
        request = replace(request, reasoning=fitted)
    return _fit_budget_below_cap(request, target, losses)


def add_blank_reasoning(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Give each message of the model that has no reasoning a blank one, for servers that refuse it otherwise.

    DeepSeek and Moonshot do in their reasoning modes. The client or an earlier target did not keep it.
    """
    if not target.turns_need_reasoning:
        return request
    return replace_messages(request, tuple(map(_add_blank, request.messages)))


def _add_blank(message: Message) -> Message:
    if message.role != "assistant" or any(
        isinstance(block, Reasoning) and block.text for block in message.blocks
    ):
        return message
    return replace_blocks(message, (BLANK, *message.blocks)) if message.blocks else message


def is_off(wanted: ReasoningSettings) -> bool:
    return wanted.mode == "off" or wanted.effort == "none" or wanted.budget == 0


def find_effort(wanted: ReasoningSettings) -> Effort | None:
    """The settings on the neutral scale; None leaves the effort to the model."""
    if wanted.effort is not None:
        return wanted.effort
    if wanted.budget is None or wanted.budget < 0:
        return None
    return next((effort for bound, effort in EFFORT_BELOW if wanted.budget < bound), LARGEST_EFFORT)


def find_nearest(effort: Effort, known: tuple[Effort, ...]) -> Effort:
    """The known effort with the smallest distance; of two, the smaller."""
    place = EFFORTS.index(effort)
    return min(known, key=lambda other: (abs(EFFORTS.index(other) - place), EFFORTS.index(other)))


def _clamp(effort: Effort, known: tuple[Effort, ...], request: Request, losses: Losses) -> Effort | None:
    """The nearest effort that the target knows. `none` is near no other effort."""
    known = tuple(other for other in known if other != "none")
    if not known:
        losses.add(_find_effort_path(request), "the target has no setting for the effort")
        return None
    nearest = find_nearest(effort, known)
    if nearest != effort:
        losses.add(_find_effort_path(request), f"the target has no effort {effort!r}, {nearest!r} was sent")
    return nearest


def _find_effort_path(request: Request) -> str:
    """The path of the effort in the client's JSON; of the reasoning settings if it has none of its own."""
    named = request.reasoning is not None and request.reasoning.effort is not None
    return request.paths.get("effort" if named else "reasoning", request.path_of("reasoning"))


def _fit_effort(
    wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses
) -> ReasoningSettings:
    if wanted.effort is None or wanted.effort in target.efforts or wanted.effort == "none":
        return wanted
    return replace(wanted, effort=_clamp(wanted.effort, target.efforts, request, losses))


def _write_effort(
    wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses
) -> ReasoningSettings:
    plain = replace(wanted, mode=None, effort=None, budget=None)
    if is_off(wanted):
        return _switch_off(plain, target.efforts, request, losses)
    effort = find_effort(wanted)
    if effort is None:
        return plain
    return replace(plain, effort=_clamp(effort, target.efforts, request, losses))


def _switch_off(
    plain: ReasoningSettings, known: tuple[Effort, ...], request: Request, losses: Losses
) -> ReasoningSettings:
    """Switch reasoning off, or set the least effort if the target cannot stop reasoning, which is a loss.

    `plain`: the settings without effort and budget. `known`: the efforts that the target accepts here.
    """
    off = replace(plain, mode="off")
    if "none" in known:
        return replace(off, effort="none")
    if not known:
        return off
    least = min(known, key=EFFORTS.index)
    losses.add(request.path_of("reasoning"), f"the target cannot stop reasoning, {least!r} was sent")
    return replace(plain, effort=least)


def _write_level(
    wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses
) -> ReasoningSettings:
    plain = replace(wanted, mode=None, effort=None, budget=None)
    levels = tuple(effort for effort in target.efforts if effort in LEVELS)
    if is_off(wanted):
        # This style has no off; its lowest level is the nearest.
        return replace(plain, mode="off", effort=min(levels, key=EFFORTS.index, default=None))
    effort = find_effort(wanted)
    if effort is None or not levels:
        return plain
    # `high` is the top of this scale, so a higher effort is no loss.
    return replace(plain, effort=find_nearest(effort, levels))


def _write_adaptive(
    wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses
) -> ReasoningSettings:
    plain = replace(wanted, mode="adaptive", effort=None, budget=None)
    if is_off(wanted) and target.always_reasons:
        return _switch_off(plain, tuple(e for e in target.efforts if e != "none"), request, losses)
    if is_off(wanted):
        return replace(plain, mode="off")
    if (wanted.budget or 0) > 0 and not is_foreign(request, target):
        losses.add(request.path_of("reasoning"), "the target takes no reasoning budget and chooses it itself")
    effort = find_effort(wanted)
    if effort is None:
        # A client that wants to see reasoning wants some. Codex sends no more than that for unknown models.
        return plain if wanted.mode or wanted.budget or wanted.show else replace(plain, mode=wanted.mode)
    if effort == "minimal" and "minimal" not in target.efforts and target.efforts:
        # The lowest effort of an adaptive model means its minimum, so this is no loss.
        return replace(plain, effort=find_nearest(effort, target.efforts))
    return replace(plain, effort=_clamp(effort, target.efforts, request, losses))


def _write_budget(
    wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses
) -> ReasoningSettings:
    plain = replace(wanted, mode=None, effort=None, budget=None)
    if is_off(wanted) and target.always_reasons:
        losses.add(request.path_of("reasoning"), "the target cannot stop reasoning, little was asked for")
        return replace(plain, mode="on", budget=_clamp_budget(BUDGETS["minimal"], target))
    if is_off(wanted):
        return replace(plain, mode="off", budget=0)
    if wanted.budget is not None and wanted.budget > 0:
        budget = _clamp_budget(wanted.budget, target)
        # A budget of another API is converted in any case: its models count other tokens.
        if budget != wanted.budget and not is_foreign(request, target):
            losses.add(request.path_of("reasoning"), f"the target takes no such budget, {budget} was sent")
        return replace(plain, mode="on", budget=budget)
    effort = find_effort(wanted)
    if effort is None and wanted.mode is None and wanted.budget is None:
        return plain
    if effort is None and target.budget_dynamic:
        return replace(plain, mode="adaptive", budget=-1)
    return replace(plain, mode="on", budget=_clamp_budget(BUDGETS[effort or DEFAULT], target))


def _write_none(wanted: ReasoningSettings, request: Request, target: TargetFacts, losses: Losses) -> None:
    if not is_off(wanted) and (wanted.mode or wanted.effort or wanted.budget):
        losses.add(request.path_of("reasoning"), "the target does not reason on demand")


STYLES: dict[
    ReasoningStyle, Callable[[ReasoningSettings, Request, TargetFacts, Losses], ReasoningSettings | None]
] = {
    "effort": _write_effort,
    "level": _write_level,
    "adaptive": _write_adaptive,
    "budget": _write_budget,
    "none": _write_none,
}


def _clamp_budget(budget: int, target: TargetFacts) -> int:
    least, most = target.budget_range
    budget = max(budget, least)
    return min(budget, most) if most else budget


def _fit_budget_below_cap(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Keep the budget below the cap on all output; raise the cap if no room is left for the answer."""
    wanted, cap = request.reasoning, request.max_tokens
    if target.reasoning != "budget" or wanted is None or cap is None or wanted.budget is None:
        return request
    if wanted.budget < cap or wanted.budget <= 0:
        return request
    least = max(target.budget_range[0], 1)
    budget = cap * 3 // 4
    if budget < least:
        budget = least
        losses.add(request.path_of("max_tokens"), "raised to leave room for reasoning")
        # Some clients send -1 for no cap.
        request = replace(request, max_tokens=max(cap, 1) + least)
    else:
        losses.add(request.path_of("reasoning"), "the reasoning budget was cut to fit below the token cap")
    return replace(request, reasoning=replace(wanted, budget=budget))


def fit_calls_without_reasoning(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Switch reasoning off if the open calls come without reasoning that the target accepts.

    That is so for calls of another model. The target refuses to continue its reasoning behind them.
    """
    wanted = request.reasoning
    if (
        not target.calls_need_reasoning
        or target.reasoning not in ("budget", None)
        or wanted is None
        or wanted.mode != "on"
    ):
        return request
    message = find_open_calls(request.messages)
    if message is None or type(message.blocks[0]) is Reasoning:
        return request
    losses.add(request.path_of("reasoning"), "the calls being answered came without their reasoning")
    return replace(request, reasoning=replace(wanted, mode="off", budget=0, style=""))
