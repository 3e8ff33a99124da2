"""Finds the item of an event.

Every event names its item by id and by position. Either may be missing, wrong or changed, so the search uses
the id, the `call_id` and the position, in this order.
"""

from collections.abc import Callable
from typing import TypeVar

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.names import CALL_OF_ITEM
from dragoman.dialects.openai_responses.stream_items import (
    CallStreamItem,
    MessageItem,
    ReasoningItem,
    ReplyContext,
    StreamItem,
    build_item,
    find_kind,
    text_in,
)
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError

Item = TypeVar("Item", bound=StreamItem)


class ItemTable:
    """The items of one reply, in the order of their first event."""

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.all: list[StreamItem] = []
        self._by_id: dict[str, StreamItem] = {}
        self._by_call: dict[str, StreamItem] = {}
        self._by_index: dict[int, StreamItem] = {}

    def find_added(self, item: Json, index: object) -> StreamItem:
        """The item of an `added` event. Its deltas may have come earlier, with only its position."""
        found = self._by_id.get(text_in(item, "id"))
        if found is None:
            ahead = self._find_at(index)
            if ahead is not None and not ahead.added and not ahead.is_done and ahead.kind == find_kind(item):
                found = ahead
        return self._index(found or self._add(build_item(item, self._context)), item, index)

    def find_done(self, item: Json, index: object, *, open_only: bool) -> StreamItem:
        """The item of a `done` event, new if it was never added.

        `open_only`: an item at the same position that is done already is another item.
        """
        found = self._by_id.get(text_in(item, "id")) or self._by_call.get(text_in(item, "call_id"))
        if found is None:
            there = self._find_at(index)
            if there is not None and there.kind == find_kind(item) and not (open_only and there.is_done):
                found = there
        return self._index(found or self._add(build_item(item, self._context)), item, index)

    def find_message(self, payload: Json) -> MessageItem:
        return self._find_or_add(payload, MessageItem, MessageItem)

    def find_reasoning(self, payload: Json) -> ReasoningItem:
        return self._find_or_add(payload, ReasoningItem, ReasoningItem)

    def find_call(self, payload: Json, item_type: str) -> CallStreamItem:
        call = CALL_OF_ITEM[item_type]
        return self._find_or_add(payload, CallStreamItem, lambda context: CallStreamItem(context, call))

    def _find_or_add(self, payload: Json, kind: type[Item], make: Callable[[ReplyContext], Item]) -> Item:
        """The item of an event with `item_id` and `output_index`, new if it is unknown."""
        item_id, index = text_in(payload, "item_id"), payload.get("output_index")
        found = self._by_id.get(item_id) if item_id else None
        if found is None:
            found = self._find_at(index)
            if found is not None and found.is_done and item_id:
                found = None
        if found is None and not item_id and type(index) is not int and self.all:
            found = self.all[-1]
        if isinstance(found, kind):
            if item_id:
                self._by_id.setdefault(item_id, found)
            return found
        created = make(self._context)
        self._add(created)
        if item_id:
            self._by_id[item_id] = created
        if type(index) is int:
            self._by_index.setdefault(index, created)
        return created

    def _find_at(self, index: object) -> StreamItem | None:
        return self._by_index.get(index) if type(index) is int else None

    def _add(self, item: StreamItem) -> StreamItem:
        if len(self.all) >= ReplyBuilder.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_BLOCKS} items in one reply")
        self.all.append(item)
        return item

    def _index(self, found: StreamItem, item: Json, index: object) -> StreamItem:
        item_id, call_id = text_in(item, "id"), text_in(item, "call_id")
        if item_id:
            self._by_id[item_id] = found
        if call_id:
            self._by_call[call_id] = found
        if type(index) is int:
            self._by_index[index] = found
        return found
