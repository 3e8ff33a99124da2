"""System and developer texts where the target wants them.

Targets that know only a leading system text get later ones as reminders in the user's turns; the history
pass then keeps them from standing between calls and results.
"""

from dragoman.fit.editing import is_foreign, replace, with_blocks, with_turns
from dragoman.hub.content import AnyBlock, Text
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

#: Claude Code's note to Anthropic. It changes with every request and would spoil any other vendor's cache.
BILLING = "x-anthropic-billing-header:"

INSTRUCTING = ("system", "developer")


def system(request: Request, target: Target, losses: Losses) -> Request:
    foreign = is_foreign(request, target)
    if not foreign and target.system == "inline" and target.developer_role:
        return request
    turns: list[Turn] = []
    leading = True
    for turn in request.turns:
        if turn.role not in INSTRUCTING:
            leading = False
            turns.append(turn)
            continue
        if foreign:
            turn = _of_text_alone(turn, losses)
            if not turn.blocks:
                continue
        if target.system == "leading" and not leading:
            turns.append(_reminder(turn))
        elif turn.role == "developer" and not target.developer_role:
            turns.append(replace(turn, role="system"))
        else:
            turns.append(turn)
    return with_turns(request, turns)


def _of_text_alone(turn: Turn, losses: Losses) -> Turn:
    kept: list[AnyBlock] = []
    for block in turn.blocks:
        if type(block) is not Text:
            losses.add(block.at, f"system texts cannot hold {type(block).__name__}")
        elif block.text.startswith(BILLING):
            losses.add(block.at, "a billing note for another vendor")
        elif block.text:
            kept.append(block)
    return turn if len(kept) == len(turn.blocks) else with_blocks(turn, tuple(kept))


def _reminder(turn: Turn) -> Turn:
    """The same words, in the wrapping that models know to be no words of the user."""
    blocks = tuple(
        block
        if type(block) is not Text or block.text.startswith("<system-reminder>")
        else Text(text=f"<system-reminder>\n{block.text}\n</system-reminder>", at=block.at, cache=block.cache)
        for block in turn.blocks
    )
    return Turn(role="user", blocks=blocks, at=turn.at)
