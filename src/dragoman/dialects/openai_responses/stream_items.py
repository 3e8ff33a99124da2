"""Reads output items while they stream, one class for each kind of item.

A text may arrive in deltas, in a `done` event, or only with the finished item. Each item uses the first of
these, and adds what is missing when it is done. Nothing is reported twice.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from dragoman.dialects.base import Json, Source
from dragoman.dialects.openai_responses.citations import read_citation
from dragoman.dialects.openai_responses.hosted import ITEM, read_hosted
from dragoman.dialects.openai_responses.names import CALL_OF_ITEM, CallFormat, is_for_client, read_arguments
from dragoman.dialects.openai_responses.reasoning import PART_TYPE, read_texts, take_parts
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.content import Extras, Opaque, Reasoning, Refusal, ReplyBlock, Text, ToolCall
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.seal import Seal


def text_in(value: Json, name: str) -> str:
    """The text of a field; empty for any other value."""
    text = value.get(name)
    return text if isinstance(text, str) else ""


def index_in(value: Json, name: str) -> int:
    index = value.get(name)
    return index if type(index) is int and index >= 0 else 0


class ReplyContext(msgspec.Struct):
    """What all items of one reply share."""

    builder: ReplyBuilder
    source: Source
    model: str = ""
    #: The number of held characters of calls without a name.
    held: int = 0
    refused: bool = False

    def hold(self, text: str) -> None:
        self.held += len(text)
        if self.held > ReplyBuilder.MAX_CHARACTERS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_CHARACTERS} characters in one reply")


class StreamItem(ABC):
    """What all items have in common."""

    kind: ClassVar[str] = ""

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.added: Json = {}
        self.is_done = False

    def adopt(self, item: Json) -> None:
        """Keep the item of its `added` event."""
        self.added = item

    def finish(self, item: Json) -> None:
        """Finish the item. `item` is the finished item; empty if the reply ended without it."""
        if not self.is_done:
            self.is_done = True
            # The item stays as it was added, without its status `in_progress`.
            known = {name: value for name, value in self.added.items() if name != "status"}
            self.added = self.added or item
            self._finish(item or known)

    @abstractmethod
    def _finish(self, item: Json) -> None:
        """Report the content of the finished item that was not reported before."""


class MessageItem(StreamItem):
    """A message: each content part is a block, open until the next part or until the item is done."""

    kind = "message"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks: dict[int, int] = {}
        self._complete_parts: set[int] = set()
        self._cited: dict[int, int] = {}
        self._ends: dict[int, Extras] = {}
        self._last = -1

    def begin(self, index: int, part: Json) -> int:
        """The block of this part, opened by its first event."""
        block = self._blocks.get(index)
        if block is not None:
            return block
        self._close_last({})
        head = {name: value for name, value in self.added.items() if name not in ("type", "content")}
        extras: Extras = {ITEM: head} if head else {}
        opened: ReplyBlock = Text(text="", extras=extras)
        part_type = text_in(part, "type")
        if part_type == "refusal":
            self.context.refused = True
            opened = Refusal(text="", extras=extras)
        elif part_type not in ("output_text", "text", ""):
            opened = Opaque(kind=part_type, value=part, form="part", extras=extras)
        block = self.context.builder.open(opened)
        self._blocks[index] = block
        self._last = index
        return block

    def append(self, index: int, text: str, part_type: str) -> int:
        block = self.begin(index, {"type": part_type})
        self._complete_parts.add(index)
        self.context.builder.append(block, text)
        return block

    def cite(self, index: int, annotation: Json) -> None:
        block = self.begin(index, {})
        self._cited[index] = self._cited.get(index, 0) + 1
        self.context.builder.cite(block, read_citation(annotation))

    def complete(self, index: int, text: str, part_type: str) -> None:
        """Read the whole text of a part, which is new only if there was no delta."""
        if index not in self._complete_parts:
            self.append(index, text, part_type)

    def complete_part(self, index: int, part: Json) -> None:
        part_type = text_in(part, "type")
        if part_type not in ("output_text", "text", "refusal", ""):
            if index not in self._blocks:
                self.begin(index, part)
            return
        self.begin(index, part)
        self.complete(index, text_in(part, "refusal" if part_type == "refusal" else "text"), part_type)
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[self._cited.get(index, 0) :]:
                if isinstance(annotation, dict):
                    self.cite(index, annotation)
        known = ("type", "text", "refusal", "annotations")
        self._ends[index] = {name: value for name, value in part.items() if name not in known}

    def _close_last(self, extras: Extras) -> None:
        if self._last >= 0:
            self.context.builder.close(self._blocks[self._last], {**self._ends.get(self._last, {}), **extras})
            self._last = -1

    def _finish(self, item: Json) -> None:
        content = item.get("content")
        if isinstance(content, list):
            for index, part in enumerate(content):
                if isinstance(part, dict):
                    self.complete_part(index, part)
        rest = {name: value for name, value in item.items() if name not in ("type", "content")}
        self._close_last({ITEM: rest} if rest else {})


class ReasoningItem(StreamItem):
    """A thought: the first of summary and content becomes the block; the other stays in the extras."""

    kind = "reasoning"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._block = -1
        self._field = ""
        self._complete_parts: set[int] = set()

    def begin(self, field: str, *, redacted: bool = False) -> int:
        if self._block < 0:
            self._field = field
            known = ("type", "summary", "content", "encrypted_content")
            head = {name: value for name, value in self.added.items() if name not in known}
            block = Reasoning(raw=field == "content", redacted=redacted, extras=head)
            self._block = self.context.builder.open(block)
        return self._block

    def append(self, field: str, index: int, text: str) -> int:
        block = self.begin(field)
        if self._field != field:
            return -1
        self._complete_parts.add(index)
        self.context.builder.append(block, text, index)
        return block

    def complete(self, field: str, index: int, text: str) -> None:
        if index not in self._complete_parts:
            self.append(field, index, text)

    def _finish(self, item: Json) -> None:
        seal = text_in(item, "encrypted_content")
        rest = {name: value for name, value in item.items() if name != "type"}
        if seal:
            del rest["encrypted_content"]
        if self._block < 0:
            parts, raw = take_parts(rest)
            self.begin("content" if raw else "summary", redacted=bool(seal) and not parts)
            for index, text in enumerate(parts):
                self.append(self._field, index, text)
        else:
            for index, text in enumerate(read_texts(rest.get(self._field), PART_TYPE[self._field])):
                self.complete(self._field, index, text)
            rest.pop(self._field, None)
        if seal:
            source = self.context.source
            self.context.builder.seal(
                self._block, Seal(source.issuer, source.model or self.context.model, seal)
            )
        self.context.builder.close(self._block, rest)


class CallStreamItem(StreamItem):
    """A call for the client. It opens when its name is known; earlier arguments wait."""

    kind = "call"

    def __init__(self, context: ReplyContext, call: CallFormat) -> None:
        super().__init__(context)
        self._call = call
        self._block = -1
        self._complete_parts = False
        self._pieces: list[str] = []
        self._whole = ""

    def adopt(self, item: Json) -> None:
        super().adopt(item)
        if self._call.is_text:
            self._open(item)

    def append(self, text: str) -> int:
        if text:
            self._complete_parts = True
        if self._block < 0:
            self.context.hold(text)
            self._pieces.append(text)
        else:
            self.context.builder.append(self._block, text)
        return self._block

    def complete(self, text: str) -> None:
        self._whole = text

    def _open(self, item: Json) -> None:
        name = self._call.name or text_in(item, "name")
        if self._block >= 0 or not name:
            return
        call_id = text_in(item, "call_id") or self.context.source.ids.make("call_")
        known = ("type", "call_id", "name", "namespace", self._call.field)
        block = ToolCall(
            id=call_id,
            name=name,
            kind=self._call.kind,
            namespace=text_in(item, "namespace"),
            extras={name: value for name, value in item.items() if name not in known},
        )
        self._block = self.context.builder.open(block)
        for piece in self._pieces:
            self.context.builder.append(self._block, piece)
        self._pieces.clear()

    def _finish(self, item: Json) -> None:
        self._open(item)
        if self._block < 0:
            self.context.source.losses.add("", "a tool call without a name was skipped")
            return
        if not self._complete_parts:
            field = self._call.field
            whole = read_arguments(item.get(field)) or self._whole or read_arguments(self.added.get(field))
            self.context.builder.append(self._block, whole)
        known = ["type", "name", self._call.field]
        # Ids may change in the stream; the client knows the first one.
        known += [key for key in ("call_id", "namespace") if isinstance(item.get(key), str)]
        rest = {name: value for name, value in item.items() if name not in known}
        self.context.builder.close(self._block, rest)


class WholeItem(StreamItem):
    """An item of OpenAI's own tools, reported when it is done."""

    kind = "whole"

    def _finish(self, item: Json) -> None:
        if find_kind(item) != self.kind:
            # The finished item has another type than the added one.
            build_item(item, self.context).finish(item)
            return
        for block in read_hosted(item):
            self.context.builder.add_block(block)


def find_kind(item: Json) -> str:
    """The kind of stream item for an item, by its type."""
    item_type = text_in(item, "type")
    if item_type in ("message", "reasoning"):
        return item_type
    return "call" if item_type in CALL_OF_ITEM and is_for_client(item_type, item) else "whole"


def build_item(item: Json, context: ReplyContext) -> StreamItem:
    match find_kind(item):
        case "message":
            return MessageItem(context)
        case "reasoning":
            return ReasoningItem(context)
        case "call":
            return CallStreamItem(context, CALL_OF_ITEM[text_in(item, "type")])
        case _:
            return WholeItem(context)
