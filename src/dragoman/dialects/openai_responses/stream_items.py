"""Reads output items while they stream, one class for each kind of item, and finds the item of an event.

A text may arrive in deltas, in a `done` event, with the finished item, or only with the finished response.
Each may hold more of it than the one before, and adds what is missing. Nothing is reported twice.
"""

from abc import ABC, abstractmethod
from typing import TypeVar

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_logprobs import read_tokens
from dragoman.dialects.openai_responses.citations import read_citation
from dragoman.dialects.openai_responses.hosted import ITEM, read_hosted
from dragoman.dialects.openai_responses.names import (
    CALL_OF_ITEM,
    get_text,
    is_for_client,
    omit,
    read_arguments,
)
from dragoman.dialects.openai_responses.reasoning import PART_TYPE, read_texts, take_parts
from dragoman.dialects.openai_responses.streamed_text import ReplyContext, StreamedText
from dragoman.hub.blocks import Extras, Opaque, Reasoning, Refusal, ReplyBlock, Text, ToolCall
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError
from dragoman.hub.seal import Seal
from dragoman.wire.partial_json import parse_object

#: Types of a content part that is a text; some servers omit the type.
_TEXT_TYPES = ("output_text", "text", "")


class StreamItem(ABC):
    """What all items have in common. `start` comes at most once, `finish` at the end of the item or reply."""

    def __init__(self, context: ReplyContext, item_type: str) -> None:
        self.context = context
        self.builder = context.builder
        #: The item of its `added` event.
        self.added: Json = {}
        self.is_done = False

    def start(self, item: Json) -> None:
        """Read the item of its `added` event."""
        self.added = item

    def finish(self, item: Json, *, is_last: bool = False) -> None:
        """Read the finished item. `item` is empty if the reply ended without it.

        `is_last`: no later event has more of this item, so it ends now.
        """
        if self.is_done:
            return
        if not is_last and not self._can_finish(item):
            self.added = {**self.added, **item}
        else:
            self.is_done = True
            # Without a finished item, the added one counts, but not its status `in_progress`.
            finished = item or omit(self.added, ("status",))
            self.added = self.added or item
            self._finish(finished)

    def _can_finish(self, item: Json) -> bool:
        """Whether a finished item has everything; otherwise the terminal event must have the rest."""
        return True

    @abstractmethod
    def _finish(self, item: Json) -> None:
        """Report the content of the finished item that was not reported before."""


class MessageItem(StreamItem):
    """A message: each content part is a block, open until the next part or until the item is done."""

    def __init__(self, context: ReplyContext, item_type: str) -> None:
        super().__init__(context, item_type)
        #: The parts, and the number of citations of each.
        self._parts: dict[int, StreamedText] = {}
        self._citations: dict[int, int] = {}
        #: Members of finished parts that the hub does not know.
        self._rest: dict[int, Extras] = {}
        self._last = -1

    def open_part(self, index: int, part: Json) -> StreamedText:
        """The text of this part, whose block opens with its first event."""
        known = self._parts.get(index)
        if known is not None:
            return known
        self._close_last({})
        head = omit(self.added, ("type", "content"))
        extras: Extras = {ITEM: head} if head else {}
        opened: ReplyBlock = Text(text="", extras=extras)
        part_type = get_text(part, "type")
        if part_type == "refusal":
            self.context.has_refusal = True
            opened = Refusal(text="", extras=extras)
        elif part_type not in _TEXT_TYPES:
            opened = Opaque(kind=part_type, value=part, form="part", extras=extras)
        self._parts[index] = streamed = StreamedText(self.context, self.builder.open(opened))
        self._last = index
        return streamed

    def append(self, index: int, text: str, part_type: str) -> StreamedText:
        """Add a delta. Returns the part's text."""
        streamed = self.open_part(index, {"type": part_type})
        streamed.append(text)
        return streamed

    def cite(self, index: int, annotation: Json) -> None:
        block = self.open_part(index, {}).block
        self._citations[index] = self._citations.get(index, 0) + 1
        self.builder.cite(block, read_citation(annotation))

    def complete(self, index: int, text: str, part_type: str) -> None:
        """Read the whole text of a part."""
        self.open_part(index, {"type": part_type}).complete(text)

    def complete_part(self, index: int, part: Json) -> None:
        self.open_part(index, part)
        part_type = get_text(part, "type")
        if part_type != "refusal" and part_type not in _TEXT_TYPES:
            return
        self.complete(index, get_text(part, "refusal" if part_type == "refusal" else "text"), part_type)
        annotations = part.get("annotations")
        if isinstance(annotations, list):
            for annotation in annotations[self._citations.get(index, 0) :]:
                if isinstance(annotation, dict):
                    self.cite(index, annotation)
        self._rest[index] = omit(part, ("type", "text", "refusal", "annotations"))

    def _close_last(self, extras: Extras) -> None:
        if self._last >= 0:
            tokens = read_tokens(self._rest.get(self._last, {}).get("logprobs"))
            self.builder.add_logprobs(self._parts[self._last].block, tokens)
            self.builder.close(self._parts[self._last].block, {**self._rest.get(self._last, {}), **extras})
            self._last = -1

    def _finish(self, item: Json) -> None:
        content = item.get("content")
        for index, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict):
                self.complete_part(index, part)
        rest = omit(item, ("type", "content"))
        self._close_last({ITEM: rest} if rest else {})


class ReasoningItem(StreamItem):
    """Reasoning: the first of summary and content becomes the block; the other stays in the extras."""

    def __init__(self, context: ReplyContext, item_type: str) -> None:
        super().__init__(context, item_type)
        self._block = -1
        self._field = ""
        self._parts: dict[int, StreamedText] = {}

    def open(self, field: str, *, redacted: bool = False) -> None:
        if self._block < 0:
            self._field = field
            extras = omit(self.added, ("type", "summary", "content", "encrypted_content"))
            block = Reasoning(raw=field == "content", redacted=redacted, extras=extras)
            self._block = self.builder.open(block)

    def append(self, field: str, index: int, text: str) -> StreamedText | None:
        """Add a delta. Returns the text of its part; None if it is not reported."""
        part = self._find_part(field, index)
        if part is not None:
            part.append(text)
        return part

    def complete(self, field: str, index: int, text: str) -> None:
        """Read the whole text of a part. Only the last one can grow: writers append."""
        part = self._find_part(field, index)
        if part is not None and index == max(self._parts):
            part.complete(text)

    def _find_part(self, field: str, index: int) -> StreamedText | None:
        self.open(field)
        if self._field != field:
            return None
        if index not in self._parts:
            self._parts[index] = StreamedText(self.context, self._block, index)
        return self._parts[index]

    def _finish(self, item: Json) -> None:
        seal = get_text(item, "encrypted_content")
        rest = omit(item, ("type", "encrypted_content") if seal else ("type",))
        if self._block < 0:
            parts, raw = take_parts(rest)
            self.open("content" if raw else "summary", redacted=bool(seal) and not parts)
        else:
            parts = read_texts(rest.pop(self._field, None), PART_TYPE[self._field])
        for index, text in enumerate(parts):
            self.complete(self._field, index, text)
        if seal:
            upstream = self.context.upstream
            self.builder.seal(self._block, Seal(upstream.issuer, upstream.model or self.context.model, seal))
        self.builder.close(self._block, rest)


class CallItem(StreamItem):
    """A call for the client. It opens when its name is known; earlier arguments wait."""

    def __init__(self, context: ReplyContext, item_type: str) -> None:
        super().__init__(context, item_type)
        self._call = CALL_OF_ITEM[item_type]
        self._arguments = StreamedText(context)

    def start(self, item: Json) -> None:
        super().start(item)
        if self._call.is_text:
            self._open(item)

    def append(self, text: str) -> StreamedText:
        """Add a delta. Returns the arguments."""
        self._arguments.append(text)
        return self._arguments

    def complete(self, arguments: str) -> None:
        """Read the arguments of a later event. Other arguments than the streamed ones fail the reply."""
        is_known = not arguments or self._arguments.complete(arguments)
        if not is_known and not self.context.upstream.forwards:
            streamed = parse_object("".join(self._arguments.pieces))
            if streamed is None or streamed != parse_object(arguments):
                raise UpstreamProtocolError("the finished arguments of a call differ from the streamed ones")

    def _can_finish(self, item: Json) -> bool:
        has_name = bool(self._call.name or get_text(item, "name")) or self._arguments.block >= 0
        return has_name and (self._call.field in item or bool(self._arguments.pieces))

    def _open(self, item: Json) -> None:
        name = self._call.name or get_text(item, "name")
        if self._arguments.block >= 0 or not name:
            return
        block = ToolCall(
            id=get_text(item, "call_id") or self.context.upstream.ids.make("call_"),
            name=name,
            kind=self._call.kind,
            namespace=get_text(item, "namespace"),
            extras=omit(item, ("type", "call_id", "name", "namespace", self._call.field)),
        )
        self._arguments.open(self.builder.open(block))

    def _finish(self, item: Json) -> None:
        self._open(item)
        if self._arguments.block < 0:
            self.context.upstream.losses.add("", "a tool call without a name was skipped")
            return
        field = self._call.field
        self.complete(read_arguments(item.get(field)) or read_arguments(self.added.get(field)))
        known = ["type", "name", field]
        # Ids may change in the stream; the client knows the first one.
        known += [name for name in ("call_id", "namespace") if isinstance(item.get(name), str)]
        self.builder.close(self._arguments.block, omit(item, known))


class HostedItem(StreamItem):
    """An item of a tool that the vendor runs, or of an unknown type: reported when it is done."""

    def _finish(self, item: Json) -> None:
        if _find_class(item) is not HostedItem:
            # The finished item has another type than the added one.
            _build_item(item, self.context).finish(item)
            return
        for block in read_hosted(item):
            self.builder.add_block(block)


_ITEM_CLASSES: dict[str, type[StreamItem]] = {"message": MessageItem, "reasoning": ReasoningItem}


def _find_class(item: Json) -> type[StreamItem]:
    item_type = get_text(item, "type")
    if item_type in CALL_OF_ITEM and is_for_client(item_type, item):
        return CallItem
    return _ITEM_CLASSES.get(item_type, HostedItem)


def _build_item(item: Json, context: ReplyContext) -> StreamItem:
    return _find_class(item)(context, get_text(item, "type"))


def _build_call_key(item: Json) -> tuple[str, str]:
    return get_text(item, "type"), get_text(item, "call_id")


_Item = TypeVar("_Item", bound=StreamItem)


class ItemTable:
    """The items of one reply, in the order of their first event.

    Every event names its item by id and by index. Either may be missing, wrong or changed, so the search uses
    the id, the `call_id` and the index, in this order.
    """

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.all: list[StreamItem] = []
        self._by_id: dict[str, StreamItem] = {}
        #: By type and `call_id`, which a call shares with its output: OpenAI streams both for what it runs.
        self._by_call: dict[tuple[str, str], StreamItem] = {}
        self._by_index: dict[int, StreamItem] = {}

    def find_added(self, item: Json, index: object) -> StreamItem:
        """The item of an `added` event. Its deltas may have come earlier, with only its index."""
        found = self._by_id.get(get_text(item, "id"))
        if found is None:
            earlier = self._find_at(index, item)
            if earlier is not None and not earlier.added and not earlier.is_done:
                found = earlier
        return self._register(found, item, index)

    def find_done(self, item: Json, index: object, *, is_terminal: bool) -> StreamItem:
        """The item of a `done` event, new if it was never added.

        `is_terminal`: the item is from the terminal event, so it may be done already. Otherwise an item at
        the same index that is done is another one.
        """
        found = self._by_id.get(get_text(item, "id")) or self._by_call.get(_build_call_key(item))
        if found is None:
            found = self._find_at(index, item)
            if found is not None and found.is_done and not is_terminal:
                found = None
        return self._register(found, item, index)

    def find_message(self, payload: Json) -> MessageItem:
        return self._find_or_add(payload, MessageItem, "message")

    def find_reasoning(self, payload: Json) -> ReasoningItem:
        return self._find_or_add(payload, ReasoningItem, "reasoning")

    def find_call(self, payload: Json, item_type: str) -> CallItem:
        return self._find_or_add(payload, CallItem, item_type)

    def _find_or_add(self, payload: Json, kind: type[_Item], item_type: str) -> _Item:
        """The item of an event with `item_id` and `output_index`, new if it is unknown."""
        item_id, index = get_text(payload, "item_id"), payload.get("output_index")
        found = self._by_id.get(item_id) if item_id else None
        if found is None and type(index) is int:
            found = self._by_index.get(index)
            if found is not None and found.is_done and item_id:
                found = None
        elif found is None and not item_id and self.all:
            found = self.all[-1]
        if isinstance(found, kind):
            if item_id:
                self._by_id.setdefault(item_id, found)
            return found
        created = kind(self._context, item_type)
        self._add(created)
        if item_id:
            self._by_id[item_id] = created
        if type(index) is int:
            self._by_index.setdefault(index, created)
        return created

    def _find_at(self, index: object, item: Json) -> StreamItem | None:
        """The item at this index, if it is of the same kind."""
        found = self._by_index.get(index) if type(index) is int else None
        return found if type(found) is _find_class(item) else None

    def _add(self, item: StreamItem) -> StreamItem:
        if len(self.all) >= ReplyBuilder.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_BLOCKS} items in one reply")
        self.all.append(item)
        return item

    def _register(self, found: StreamItem | None, item: Json, index: object) -> StreamItem:
        """Add an item that was not found, and make it known by the ids and the index of this event."""
        found = found or self._add(_build_item(item, self._context))
        item_id, call_key = get_text(item, "id"), _build_call_key(item)
        if item_id:
            self._by_id[item_id] = found
        if call_key[1]:
            self._by_call[call_key] = found
        if type(index) is int:
            self._by_index[index] = found
        return found
