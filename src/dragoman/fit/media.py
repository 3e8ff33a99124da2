"""Images, documents, audio and video: placeholders where the target takes none, a turn of their own where
it takes none inside results.

A placeholder tells the model that something was there; only the loss tells the client that it is gone.
"""

from dragoman.fit.editing import edit_blocks, is_foreign, kinds_of, replace, with_blocks, with_turns
from dragoman.hub.content import AnyBlock, Media, Text, ToolResult
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target

#: Addresses that anyone can fetch. Others (`gs://`, a vendor's own file store) mean something to one vendor.
OPEN_ADDRESSES = ("http://", "https://", "data:")


def media(request: Request, target: Target, losses: Losses) -> Request:
    """Replace what the target cannot take at all."""
    taken = {
        "image": target.images,
        "document": target.documents,
        "audio": target.audio,
        "video": target.video,
    }
    foreign = is_foreign(request, target)

    def change(block: AnyBlock, turn: Turn) -> AnyBlock | tuple[AnyBlock, ...]:
        if type(block) is not Media:
            return block
        if not taken[block.kind]:
            if block.text:
                return Text(text=_as_text(block), at=block.at, cache=block.cache)
            reason = f"the target takes no {block.kind}"
        elif foreign and block.file_id:
            reason = "the file is stored with another vendor"
        elif foreign and block.url and not block.url.lower().startswith(OPEN_ADDRESSES):
            reason = "the address means something to one vendor only"
        elif turn.role == "assistant" and not target.media_in_answers:
            reason = f"the target takes no {block.kind} in the assistant's turns"
        elif block.title and not target.media_titles:
            return (Text(text=block.title, at=block.at), replace(block, title=""))
        else:
            return block
        losses.add(block.at, reason)
        return Text(text=f"[{block.kind}{_called(block)} left out]", at=block.at, cache=block.cache)

    return edit_blocks(request, change, only=frozenset({Media}))


def media_beside_results(request: Request, target: Target, losses: Losses) -> Request:
    """Move media out of results into a user's turn right behind them, labelled with the call's id.

    It stands there from the first time on, so that a longer conversation begins like a shorter one.
    """
    if target.media_in_results or Media not in kinds_of(request.turns):
        return request
    turns: list[Turn] = []
    for turn in request.turns:
        moved: list[AnyBlock] = []
        blocks = tuple(
            _emptied(block, moved) if type(block) is ToolResult else block for block in turn.blocks
        )
        if not moved:
            turns.append(turn)
        elif turn.role == "tool":
            turns.append(with_blocks(turn, blocks))
            turns.append(Turn(role="user", blocks=tuple(moved), at=turn.at))
        else:
            results = tuple(block for block in blocks if type(block) is ToolResult)
            others = tuple(block for block in blocks if type(block) is not ToolResult)
            turns.append(with_blocks(turn, (*results, *moved, *others)))
    return with_turns(request, turns)


def _emptied(result: ToolResult, moved: list[AnyBlock]) -> ToolResult:
    if not any(type(block) is Media for block in result.content):
        return result
    content: list[AnyBlock] = []
    for block in result.content:
        if type(block) is Media:
            content.append(Text(text=f"[{block.kind}{_called(block)}: see the next message]", at=block.at))
            moved.append(Text(text=f"The {block.kind} that call {result.call_id} returned:", at=block.at))
            moved.append(block)
        else:
            content.append(block)
    return replace(result, content=tuple(content), form="", extras={})


def _as_text(document: Media) -> str:
    return f"{document.title}\n\n{document.text}" if document.title else document.text


def _called(block: Media) -> str:
    return f" {block.title!r}" if block.title else ""
