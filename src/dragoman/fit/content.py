"""Blocks that the target cannot express: vendor blocks, refusals, errors, and media it does not accept.

What a vendor's own tool did stays in the conversation as text: a call would name a tool that is missing. A
placeholder shows the model that something was there; the loss informs the client.
"""

from typing import assert_never

from dragoman.fit.editing import (
    edit_blocks,
    edit_messages,
    is_foreign,
    replace,
    replace_blocks,
    replace_messages,
)
from dragoman.hub.blocks import (
    AnyBlock,
    HostedCall,
    HostedResult,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolDeclarations,
    ToolReference,
    ToolResult,
)
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.loss import Losses
from dragoman.hub.request import Message, Request, list_blocks
from dragoman.providers.profile import TargetFacts
from dragoman.wire.fields import encode

ERROR_MARK = "[tool error] "

#: Addresses that every vendor can fetch. Others (`gs://`, a file store) work with one vendor only.
OPEN_ADDRESSES = ("http://", "https://", "data:")


def fit_content(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write as text the blocks that the target cannot express: vendor blocks and refusals."""
    foreign = is_foreign(request, target)
    if not foreign and target.refusals:
        return request

    def edit(block: AnyBlock, message: Message) -> AnyBlock | tuple[AnyBlock, ...]:
        match block:
            case ToolResult():
                inner = edit_blocks(block.content, message, edit_inside) if foreign else block.content
                return block if inner is block.content else replace(block, content=inner, form="", extras={})
            case Refusal():
                return block if target.refusals else Text(text=block.text, at=block.at, cache=block.cache)
            case HostedCall() | HostedResult() | Opaque():
                return _write_as_text(block, target, losses) if foreign else block
            case Text() | Reasoning() | Media() | ToolCall() | ToolReference() | ToolDeclarations():
                return block
            case _:
                assert_never(block)

    def edit_inside(block: AnyBlock, message: Message) -> AnyBlock | tuple[AnyBlock, ...]:
        """Edit a block of a result. Nothing is removed there: the model needs the content of the result."""
        if isinstance(block, Opaque):
            text = block.text or encode(block.value, error_class=ClientProtocolError).decode()
            return Text(text=text, at=block.at, cache=block.cache)
        return edit(block, message)

    messages = [
        replace_blocks(message, edit_blocks(message.blocks, message, edit)) for message in request.messages
    ]
    return replace_messages(request, messages)


def mark_errors(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Write the error flag of results as text, where the target has no such flag."""
    if target.error_flag:
        return request

    def edit(block: AnyBlock, message: Message) -> AnyBlock:
        return _mark_error(block) if type(block) is ToolResult and block.is_error else block

    for block in list_blocks(request.messages):
        if type(block) is ToolResult and block.is_error:
            return edit_messages(request, edit, inside_results=False)
    return request


def _write_as_text(
    block: HostedCall | HostedResult | Opaque, target: TargetFacts, losses: Losses
) -> AnyBlock | tuple[AnyBlock, ...]:
    match block:
        case HostedCall():
            losses.add(block.at, f"what the vendor's own {block.tool} did became text")
            text = f"[{block.tool}: {block.arguments}]"
        case HostedResult():
            losses.add(block.at, f"what the vendor's own {block.tool} found became text")
            text = f"[{block.tool} {'failed' if block.is_error else 'result'}]\n{block.text}"
        case Opaque():
            if not block.text:
                if not block.is_covered:
                    losses.add(block.at, f"no other dialect has blocks of type {block.kind!r}")
                return ()
            text = block.text
        case _:
            assert_never(block)
    # Separates inserted text from the text of the conversation.
    return Text(text=f"\n{text}\n" if target.joins_text else text, at=block.at, cache=block.cache)


def _mark_error(result: ToolResult) -> ToolResult:
    inner = result.content
    first = inner[0] if inner else None
    if type(first) is Text:
        blocks = (replace(first, text=ERROR_MARK + first.text, form=""), *inner[1:])
    else:
        blocks = (Text(text=ERROR_MARK.rstrip(), at=result.at), *inner)
    return replace(result, content=blocks, is_error=False, form="", extras={})


def fit_media(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Replace images, documents, audio and video that the target does not accept by a placeholder."""
    accepted = {
        "image": target.images,
        "document": target.documents,
        "audio": target.audio,
        "video": target.video,
    }
    foreign = is_foreign(request, target)

    def edit(block: AnyBlock, message: Message) -> AnyBlock | tuple[AnyBlock, ...]:
        if type(block) is not Media:
            return block
        if not accepted[block.kind]:
            if block.text:
                text = f"{block.title}\n\n{block.text}" if block.title else block.text
                return Text(text=text, at=block.at, cache=block.cache)
            reason = f"the target takes no {block.kind}"
        elif foreign and not (block.data or block.url or block.file_id or block.text):
            reason = "its source is known to one vendor only"
        elif foreign and block.file_id and request.dialect not in target.shared_files:
            reason = "the file is stored with another vendor"
        elif foreign and block.url and not block.url.lower().startswith(OPEN_ADDRESSES):
            reason = "the address means something to one vendor only"
        elif message.role == "assistant" and not target.media_in_answers:
            reason = f"the target takes no {block.kind} in the assistant's messages"
        elif block.title and not target.media_titles:
            return (Text(text=block.title, at=block.at), replace(block, title=""))
        else:
            return block
        losses.add(block.at, reason)
        return Text(text=f"[{_write_label(block)} left out]", at=block.at, cache=block.cache)

    return edit_messages(request, edit)


def move_media_from_results(request: Request, target: TargetFacts, losses: Losses) -> Request:
    """Move media from results to a user message right behind them, labelled with the id of the call.

    The media always stand there, so that a longer conversation begins with the same messages as a shorter
    one.
    """
    if target.media_in_results:
        return request
    messages: list[Message] = []
    for message in request.messages:
        moved: list[AnyBlock] = []
        blocks = tuple(
            _move_media(block, moved) if type(block) is ToolResult else block for block in message.blocks
        )
        if not moved:
            messages.append(message)
        elif message.role == "tool":
            messages.append(replace_blocks(message, blocks))
            messages.append(Message(role="user", blocks=tuple(moved), at=message.at))
        else:
            results = tuple(block for block in blocks if type(block) is ToolResult)
            others = tuple(block for block in blocks if type(block) is not ToolResult)
            messages.append(replace_blocks(message, (*results, *moved, *others)))
    return replace_messages(request, messages)


def _move_media(result: ToolResult, moved: list[AnyBlock]) -> ToolResult:
    """The result without its media, which are appended to `moved`."""
    if not any(type(block) is Media for block in result.content):
        return result
    content: list[AnyBlock] = []
    for block in result.content:
        if type(block) is Media:
            content.append(Text(text=f"[{_write_label(block)}: see the next message]", at=block.at))
            moved.append(Text(text=f"The {block.kind} that call {result.call_id} returned:", at=block.at))
            moved.append(block)
        else:
            content.append(block)
    return replace(result, content=tuple(content), form="", extras={})


def _write_label(block: Media) -> str:
    return f"{block.kind} {block.title!r}" if block.title else block.kind
