"""The prompt tokens of a request: all its words, counted as one text, and what the family of models adds."""

from collections.abc import Iterable
from typing import assert_never

from dragoman.hub.content import (
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
from dragoman.hub.request import Request, iter_declared_tools
from dragoman.tokens.costs import Family
from dragoman.tokens.families import OVERHEADS, Overhead
from dragoman.tokens.text import text_tokens
from dragoman.tokens.tools import KNOWN_TOOL, as_json, as_types
from dragoman.wire.fields import encode

#: Base64 characters of an ordinary page, and of a minute of compressed sound.
PAGE = 80_000
MINUTE = 1_300_000
#: What is told as JSON only because we do not know it is rarely words.
MAX_OPAQUE = 2_000


#: Samples that a guess is made from, and their length: little work for a request of any size.
SAMPLES = 32
SAMPLE = 64


def request_tokens(request: Request, family: Family) -> int:
    """About how many tokens the request's prompt has for a model of this family; at least one."""
    texts, extra = _measured(request, family)
    return max(1, round(text_tokens(texts, family) + extra))


def guessed_tokens(request: Request, family: Family) -> int:
    """The same from samples of the text, for where the number is soon replaced by the true one."""
    texts, extra = _measured(request, family)
    distance = len(texts) // SAMPLES
    if distance <= SAMPLE:
        return max(1, round(text_tokens(texts, family) + extra))
    starts = range(0, distance * SAMPLES, distance)
    sample = "".join([texts[start : start + SAMPLE] for start in starts])
    return max(1, round(text_tokens(sample, family) * len(texts) / len(sample) + extra))


def _measured(request: Request, family: Family) -> tuple[str, float]:
    """All words of a request, and the tokens of what is not made of words."""
    tally = _Tally(OVERHEADS[family])
    tally.take_tools(request)
    for turn in request.turns:
        is_system = turn.role in ("system", "developer")
        tally.extra += tally.overhead.system if is_system else tally.overhead.turn
        tally.take(turn.blocks)
    if request.output is not None and request.output.schema is not None:
        tally.texts.append(encode(request.output.schema).decode())
    return "\n".join(tally.texts), tally.extra


class _Tally:
    """Collects the words of a request, and counts what is not made of words."""

    def __init__(self, overhead: Overhead) -> None:
        self.overhead = overhead
        self.texts: list[str] = []
        self.extra: float = overhead.request

    def take_tools(self, request: Request) -> None:
        tools = list(iter_declared_tools(request))
        if any(tool.deferred for tool in tools):
            loaded = _references(request)
            tools = [tool for tool in tools if not tool.deferred or tool.name in loaded]
        if not tools:
            return
        forced = request.tool_choice is not None and request.tool_choice.mode in ("required", "named")
        self.extra += self.overhead.tools[forced] + len(tools) * self.overhead.tool
        if self.overhead.tools_as == "types":
            self.texts += map(as_types, tools)
        else:
            self.texts.append(as_json(tools))
        for tool in tools:
            if tool.kind in ("typed", "hosted"):
                self.extra += KNOWN_TOOL
            if tool.grammar is not None:
                self.texts.append(tool.grammar.definition)

    def take(self, blocks: Iterable[AnyBlock]) -> None:
        for block in blocks:
            match block:
                case Text() | Refusal() | Reasoning():
                    self.texts.append(block.text)
                case ToolCall():
                    self.extra += self.overhead.call
                    self.texts += (block.name, block.arguments)
                case ToolResult():
                    self.extra += self.overhead.result
                    self.take(block.content)
                case HostedCall():
                    self.extra += self.overhead.call
                    self.texts.append(block.arguments)
                case HostedResult():
                    self.extra += self.overhead.result
                    self.texts.append(block.text)
                case Media():
                    self._take_media(block)
                case ToolReference():
                    self.texts.append(block.name)
                case Opaque():
                    self.texts.append(
                        block.text or encode(block.value)[:MAX_OPAQUE].decode("utf-8", "ignore")
                    )
                case ToolDeclarations():
                    pass  # counted with the tools
                case _:
                    assert_never(block)

    def _take_media(self, media: Media) -> None:
        self.texts += (media.text, media.title)
        if media.text:
            return
        each = self.overhead.media[media.kind]
        if media.kind == "image":
            low = media.detail == "low"
            self.extra += each / 9 if low else each
        else:
            size = PAGE if media.kind == "document" else MINUTE
            self.extra += each * max(1.0, len(media.data) / size)


def _references(request: Request) -> set[str]:
    """The deferred tools that the conversation has loaded."""
    found = set()
    for turn in request.turns:
        for block in turn.blocks:
            inner = block.content if isinstance(block, ToolResult) else (block,)
            found |= {reference.name for reference in inner if isinstance(reference, ToolReference)}
    return found
