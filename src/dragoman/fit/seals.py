"""Seals go back to whoever issued them and to nobody else; reasoning goes only where its seal goes.

Reasoning is never turned into text: models take it for something they said aloud. A call or a text
that loses a foreign seal has lost nothing that the target could read, so that is no loss; reasoning
that stays behind is one, as soon as it held a text or stood for one.
"""

from dragoman.fit.editing import edit_blocks, is_foreign, replace, with_turns
from dragoman.hub.content import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.hub.seal import Seal
from dragoman.providers.profile import Target


def seals(request: Request, target: Target, losses: Losses) -> Request:
    if not any(map(_is_sealed, request.turns)):
        return request
    foreign = is_foreign(request, target)
    calling = _calling_turns(request.turns) if target.replay_reasoning else frozenset()

    def change(block: AnyBlock, turn: Turn) -> AnyBlock | tuple[AnyBlock, ...]:
        match block:
            case Reasoning():
                if belongs(block.seal, request, target) if block.seal else not foreign:
                    return block
                if block.text and id(turn) in calling:
                    return block if block.seal is None else replace(block, seal=None, form="", extras={})
                if block.text or block.redacted:
                    losses.add(block.at, "reasoning cannot go to another model")
                return ()
            case Text() | ToolCall() if block.seal is not None and not belongs(block.seal, request, target):
                is_carrier = type(block) is Text and not block.text
                return () if is_carrier else replace(block, seal=None)
            case _:
                return block

    after = edit_blocks(request, change, inside_results=False)
    return after if after is request else _without_emptied_turns(after, request)


def _is_sealed(turn: Turn) -> bool:
    """Whether anything in the turn is a seal's or may need one."""
    for block in turn.blocks:
        if type(block) is Reasoning:
            return True
        if isinstance(block, (Text, ToolCall)) and block.seal is not None:
            return True
    return False


def _without_emptied_turns(after: Request, before: Request) -> Request:
    """A turn that held nothing but what stays behind goes with it; turns that came empty are left alone."""
    kept = [
        turn for turn, was in zip(after.turns, before.turns, strict=True) if turn.blocks or not was.blocks
    ]
    return with_turns(after, kept)


def belongs(seal: Seal, request: Request, target: Target) -> bool:
    """Whether the target minted this seal, for the model that is asked now."""
    model = target.model or request.model
    return seal.issuer == target.issuer and seal.model in ("", model)


def _calling_turns(turns: tuple[Turn, ...]) -> frozenset[int]:
    """The assistant's turns that belong to a run of them in which a tool is called."""
    found: set[int] = set()
    run: list[Turn] = []
    for turn in (*turns, Turn(role="user")):
        if turn.role == "assistant":
            run.append(turn)
            continue
        if any(type(block) is ToolCall for each in run for block in each.blocks):
            found.update(map(id, run))
        run = []
    return frozenset(found)
