"""Finds the item that an event is about.

Every event names its item by id and by position; either may be missing, wrong or changed under way, so
an item is found by whichever of its id, its call's id and its position is known, in that order.
"""

from collections.abc import Callable
from typing import TypeVar

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.stream_items import (
    CallStreamItem,
    MessageItem,
    ReasoningItem,
    Scene,
    StreamItem,
    item_for,
    kind_for,
    text_in,
)
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_ITEM
from dragoman.hub.builder import ReplyBuilder
from dragoman.hub.errors import UpstreamProtocolError

Item = TypeVar("Item", bound=StreamItem)


class ItemTable:
    """The items of one reply, in the order they were first heard of."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.all: list[StreamItem] = []
        self._by_id: dict[str, StreamItem] = {}
        self._by_call: dict[str, StreamItem] = {}
        self._by_index: dict[int, StreamItem] = {}

    def announced(self, item: Json, index: object) -> StreamItem:
        """The keeper of an item that begins. Deltas may have run ahead of it, by its place alone."""
        found = self._by_id.get(text_in(item, "id"))
        if found is None:
            ahead = self._at(index)
            if ahead is not None and not ahead.added and not ahead.is_done and ahead.kind == kind_for(item):
                found = ahead
        return self._note(found or self._new(item_for(item, self._scene)), item, index)

    def finished(self, item: Json, index: object, *, open_only: bool) -> StreamItem:
        """The keeper of an item that is done, whether or not it was ever announced.

        `open_only`: what stands at the same place and is done already is another item.
        """
        found = self._by_id.get(text_in(item, "id")) or self._by_call.get(text_in(item, "call_id"))
        if found is None:
            there = self._at(index)
            if there is not None and there.kind == kind_for(item) and not (open_only and there.is_done):
                found = there
        return self._note(found or self._new(item_for(item, self._scene)), item, index)

    def message(self, payload: Json) -> MessageItem:
        return self._about(payload, MessageItem, MessageItem)

    def reasoning(self, payload: Json) -> ReasoningItem:
        return self._about(payload, ReasoningItem, ReasoningItem)

    def call(self, payload: Json, item_type: str) -> CallStreamItem:
        call = CALL_OF_ITEM[item_type]
        return self._about(payload, CallStreamItem, lambda scene: CallStreamItem(scene, call))

    def _about(self, payload: Json, kind: type[Item], make: Callable[[Scene], Item]) -> Item:
        """The item that an event with `item_id` and `output_index` is about, made if it is not there yet."""
        item_id, index = text_in(payload, "item_id"), payload.get("output_index")
        found = self._by_id.get(item_id) if item_id else None
        if found is None:
            found = self._at(index)
            if found is not None and found.is_done and item_id:
                found = None
        if found is None and not item_id and type(index) is not int and self.all:
            found = self.all[-1]
        if isinstance(found, kind):
            if item_id:
                self._by_id.setdefault(item_id, found)
            return found
        made = make(self._scene)
        self._new(made)
        if item_id:
            self._by_id[item_id] = made
        if type(index) is int:
            self._by_index.setdefault(index, made)
        return made

    def _at(self, index: object) -> StreamItem | None:
        return self._by_index.get(index) if type(index) is int else None

    def _new(self, item: StreamItem) -> StreamItem:
        if len(self.all) >= ReplyBuilder.MAX_BLOCKS:
            raise UpstreamProtocolError(f"more than {ReplyBuilder.MAX_BLOCKS} items in one reply")
        self.all.append(item)
        return item

    def _note(self, found: StreamItem, item: Json, index: object) -> StreamItem:
        item_id, call_id = text_in(item, "id"), text_in(item, "call_id")
        if item_id:
            self._by_id[item_id] = found
        if call_id:
            self._by_call[call_id] = found
        if type(index) is int:
            self._by_index[index] = found
        return found
