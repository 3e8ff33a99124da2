"""Blocks that only their own dialect knows, as text for a target of another.

What a vendor's own tool did stays in the conversation as words: a call without a tool would be an orphan.
"""

from dragoman.fit.editing import edited, is_foreign, kinds_of, replace, with_blocks, with_turns
from dragoman.hub.content import AnyBlock, HostedCall, HostedResult, Opaque, Refusal, Text, ToolResult
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Request, Turn
from dragoman.providers.profile import Target
from dragoman.wire.fields import encode

ERROR_MARK = "[tool error] "


#: What no other dialect can spell.
_FOREIGN: frozenset[type] = frozenset({HostedCall, HostedResult, Opaque})


def content(request: Request, target: Target, losses: Losses) -> Request:
    """Everything a foreign target cannot spell; for any target, errors that it has no flag for."""
    foreign = is_foreign(request, target)
    unspoken = _FOREIGN if foreign else frozenset()
    if not target.refusals:
        unspoken |= {Refusal}
    if unspoken.isdisjoint(kinds_of(request.turns)) and (target.error_flag or not _has_errors(request)):
        return request

    def spoken(block: AnyBlock, turn: Turn) -> AnyBlock | tuple[AnyBlock, ...]:
        match block:
            case ToolResult():
                inner = edited(block.content, turn, told) if foreign else block.content
                if inner is not block.content:
                    block = replace(block, content=inner, form="", extras={})
                return block if target.error_flag or not block.is_error else _marked(block)
            case Refusal() if not target.refusals:
                return Text(text=block.text, at=block.at, cache=block.cache)
            case HostedCall() if foreign:
                losses.add(block.at, f"what the vendor's own {block.tool} did became text")
                return Text(text=_apart(f"[{block.tool}: {block.arguments}]", target), at=block.at)
            case HostedResult() if foreign:
                losses.add(block.at, f"what the vendor's own {block.tool} found became text")
                words = "failed" if block.is_error else "result"
                return Text(text=_apart(f"[{block.tool} {words}]\n{block.text}", target), at=block.at)
            case Opaque() if foreign:
                return _opened(block, losses)
            case _:
                return block

    def told(block: AnyBlock, turn: Turn) -> AnyBlock | tuple[AnyBlock, ...]:
        """Inside a result nothing is dropped: the model waits for what is in there."""
        if isinstance(block, Opaque) and not block.text:
            return Text(text=encode(block.value, blame=ClientProtocolError).decode(), at=block.at)
        return spoken(block, turn)

    turns = [with_blocks(turn, edited(turn.blocks, turn, spoken)) for turn in request.turns]
    return with_turns(request, turns)


def _has_errors(request: Request) -> bool:
    return any(
        type(block) is ToolResult and block.is_error for turn in request.turns for block in turn.blocks
    )


def _opened(block: Opaque, losses: Losses) -> AnyBlock | tuple[AnyBlock, ...]:
    if block.text:
        return Text(text=block.text, at=block.at, cache=block.cache)
    if not block.is_covered:
        losses.add(block.at, f"no other dialect has blocks of type {block.kind!r}")
    return ()


def _apart(text: str, target: Target) -> str:
    """Words that nobody said do not run into words that somebody did."""
    return f"\n{text}\n" if target.joins_text else text


def _marked(result: ToolResult) -> ToolResult:
    inner = result.content
    first = inner[0] if inner else None
    if type(first) is Text:
        blocks = (replace(first, text=ERROR_MARK + first.text, form=""), *inner[1:])
    else:
        blocks = (Text(text=ERROR_MARK.rstrip(), at=result.at), *inner)
    return replace(result, content=blocks, is_error=False, form="", extras={})
