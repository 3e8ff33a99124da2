"""Finds echoes: text that repeats the request, and calls of the server that repeat a harvested call.

A model may repeat a file or a web page that contains a textual call. Harvesting it would run what its author
wrote, so text that stands in the request's user messages or tool results is never harvested.

Some servers read the calls out of a text and leave the text as it was. In a stream the text comes first, and
its call is harvested; `EchoStage` removes a later call of the server that equals a harvested one. Whole
replies: `whole_reply`.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from dragoman.governance.call_queue import CallQueueStage, HeldCall
from dragoman.governance.harvest.stage import HarvestStage
from dragoman.governance.interventions import Intervention, Report
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
from dragoman.hub.events import ReplyEvent
from dragoman.hub.request import Message
from dragoman.wire.partial_json import parse_object

#: What differs between a text and the same text in another place: white space and the escapes of JSON
#: strings, also of JSON in JSON.
_INSIGNIFICANT = re.compile(r"\\+[nrt]|[\s\\]+")
#: What tools and mails put before each line: a line number, also with the file's name, or the mark of a
#: quotation or a diff.
_LINE_PREFIX = re.compile(r"(?m)^[ \t]*(?:\d+[ \t]*[\u2192|:\t]|[^\s:<>{}]+:\d+[:-]|[>+|-])")
#: Ids of calls that may have been harvested: ids that dragoman makes or encodes, and Kimi's with their colon.
_UNPROVEN_ID = re.compile(r"call_[0-9a-f]{24}|dgi[0-9]*_.*|.*:.*")


class RequestText:
    """The texts of a request that its reply may repeat. It keeps them for as long as the reply is read.

    `read_earlier` returns the messages before `messages`, which begin with an answer then. It is called only
    if a text of the reply looks like a call.
    """

    def __init__(
        self, messages: Sequence[Message], read_earlier: Callable[[], Sequence[Message]] | None = None
    ) -> None:
        answers = [message for message in messages if message.role == "assistant"]
        calls = [block for block in answers[-1].blocks if isinstance(block, ToolCall)] if answers else []
        #: The last answer has calls of the server itself, so that it parses its model's calls.
        self.has_server_calls = not all(_UNPROVEN_ID.fullmatch(call.id) for call in calls)
        self._read_earlier = read_earlier
        self._texts = tuple(_list_texts(messages))
        #: The texts without what is insignificant; made when the first text looks like a call.
        self._reduced: tuple[str, ...] | None = None

    def contains(self, text: str) -> bool:
        """Whether a user message or a tool result contains this text, ignoring white space and escapes."""
        if self._reduced is None:
            texts = [variant for text in self._collect() for variant in {text, html.unescape(text)}]
            unprefixed = [_LINE_PREFIX.sub("", text) for text in texts]
            self._reduced = tuple(_INSIGNIFICANT.sub("", text) for text in {*texts, *unprefixed})
            self._texts, self._read_earlier = (), None
        needle = _INSIGNIFICANT.sub("", text)
        return any(needle in known for known in self._reduced)

    def is_equal(self, other: "RequestText") -> bool:
        """Whether both have the same texts. Called before `contains`."""
        return self.has_server_calls == other.has_server_calls and self._collect() == other._collect()

    def _collect(self) -> tuple[str, ...]:
        earlier = self._read_earlier() if self._read_earlier is not None else ()
        return (*_list_texts(earlier), *self._texts)


def _list_texts(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        yield from _iter_texts(message.role, message.blocks)


def _iter_texts(role: str, blocks: Iterable[AnyBlock]) -> Iterator[str]:
    """The texts of a message that the model did not write."""
    for block in blocks:
        match block:
            case ToolResult():
                yield from _iter_texts("tool", block.content)
            case HostedResult():
                yield block.text
            case Text() | Media() | Opaque():
                if role in ("user", "tool"):
                    yield block.text
            case Refusal() | Reasoning() | ToolCall() | HostedCall() | ToolReference() | ToolDeclarations():
                pass
            case _:
                assert_never(block)


class EchoStage(CallQueueStage):
    """Removes calls of a stream that repeat a harvested call; placed directly after `HarvestStage`.

    A call waits for its arguments only if a call of the same name was harvested.
    """

    def __init__(self, harvest: HarvestStage, report: Report, *, limit: int) -> None:
        super().__init__(limit)
        self._harvest = harvest
        self._report = report
        self._known = 0
        self._names: set[str] = set()
        #: The harvested calls by identity, because a server may use the same ids; and by content.
        self._own: set[int] = set()
        self._contents: set[tuple[str, bytes]] = set()

    def must_wait(self, call: ToolCall) -> bool:
        found = self._harvest.found
        for opened, arguments in found[self._known :]:
            self._own.add(id(opened))
            self._names.add(opened.name)
            self._contents.add(_content_of(opened.name, arguments))
        self._known = len(found)
        return call.name in self._names and id(call) not in self._own

    def decide(self, held: HeldCall, *, is_full: bool) -> list[ReplyEvent] | None:
        if is_full or not self.must_wait(held.call):
            return held.events
        if not held.is_closed:
            return None
        if _content_of(held.call.name, held.arguments) not in self._contents:
            return held.events
        self._report(Intervention(kind="dedupe", tool=held.call.name, detail=("text",), before=held.size))
        return []


def _content_of(name: str, arguments: str) -> tuple[str, bytes]:
    """A call's content, independent of how its JSON is written."""
    value = parse_object(arguments)
    if value is None:
        return name, arguments.encode("utf-8", "surrogatepass")
    return name, msgspec.json.encode(value, order="deterministic")
