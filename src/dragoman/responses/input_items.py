"""The items that led to a response: a check of new ones, and the list that clients read in pages."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.openai_responses.hosted import PREFIXES
from dragoman.dialects.openai_responses.names import CALL_OF_ITEM, CALL_OF_OUTPUT
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.ids import digest
from dragoman.responses.stored_response import StoredTurn

DEFAULT_LIMIT = 20
MAX_LIMIT = 100

_decode_items = msgspec.json.Decoder(list[dict[str, object]]).decode

#: The prefix of an item's id, by the item's type.
_ID_PREFIXES: Mapping[str, str] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call_output": "fco_",
    "custom_tool_call_output": "ctco_",
    **PREFIXES,
    **{name: call.prefix for name, call in CALL_OF_ITEM.items()},
}


class CallReference(msgspec.Struct):
    """The members of an item that identify the call that it makes or answers."""

    type: object = "message"
    call_id: object = None


_decode_call = msgspec.json.Decoder(CallReference).decode


def check_outputs(before: Sequence[msgspec.Raw], new: Sequence[msgspec.Raw]) -> None:
    """Raise if a new item is the output of a call that neither the conversation nor the new items contain.

    For requests that continue a response. OpenAI refuses them, and the Open Responses suite checks it.
    """
    outputs = {place: item for place, item in enumerate(new) if b"_output" in bytes(item)}
    if not outputs:
        return
    known = {call.call_id for call in map(_read_call, (*before, *new)) if call.type in CALL_OF_ITEM}
    for place, item in outputs.items():
        output = _read_call(item)
        if output.type in CALL_OF_OUTPUT and isinstance(output.call_id, str) and output.call_id not in known:
            raise ClientProtocolError("the conversation has no such call", path=f"input[{place}].call_id")


def _read_call(item: msgspec.Raw) -> CallReference:
    """The item; one without a call if it cannot be read. The dialect's reader refuses wrong types."""
    try:
        return _decode_call(item)
    except (ValueError, RecursionError):
        return CallReference(type=None)


class ItemPage(msgspec.Struct, frozen=True):
    """The part of the list that a client requests. `after` is the id of the item before the part."""

    limit: int = DEFAULT_LIMIT
    order: str = "desc"
    after: str = ""


def read_page(query: Mapping[str, Sequence[str]]) -> ItemPage:
    """The page that the parsed query of a URL requests."""
    limit = query.get("limit", [str(DEFAULT_LIMIT)])[0]
    order = query.get("order", ["desc"])[0]
    if not (limit.isdecimal() and len(limit) <= len(str(MAX_LIMIT)) and 1 <= int(limit) <= MAX_LIMIT):
        raise ClientProtocolError(f"expected a number from 1 to {MAX_LIMIT}", path="limit")
    if order not in ("asc", "desc"):
        raise ClientProtocolError("expected asc or desc", path="order")
    return ItemPage(int(limit), order, query.get("after", [""])[0])


def list_input_items(turns: Sequence[StoredTurn], page: ItemPage) -> Json:
    """One page of the input of the last turn and of everything before it."""
    items: list[Json] = []
    for turn in turns:
        items += (describe_item(item, turn.id, place) for place, item in enumerate(_decode_items(turn.input)))
        if turn is not turns[-1]:
            items += _decode_items(turn.output)
    if page.order == "desc":
        items.reverse()
    start = 0
    if page.after:
        places = [place for place, item in enumerate(items) if item.get("id") == page.after]
        if not places:
            raise ClientProtocolError("no item of this list has this id", path="after")
        start = places[0] + 1
    selected = items[start : start + page.limit]
    return {
        "object": "list",
        "data": selected,
        "first_id": selected[0].get("id") if selected else None,
        "last_id": selected[-1].get("id") if selected else None,
        "has_more": start + page.limit < len(items),
    }


def describe_item(item: Json, response_id: str, place: int) -> Json:
    """An input item with the members that a list has. An item without an id gets the same id every time."""
    kind = str(item.get("type") or "message")
    described = {
        "id": _ID_PREFIXES.get(kind, "item_") + digest(response_id, str(place)),
        **item,
        "type": kind,
    }
    complete = _COMPLETIONS.get(kind)
    return complete(described) if complete is not None else described


def _complete_message(item: Json) -> Json:
    content = item.get("content")
    if isinstance(content, str):
        part: Json = {"type": "input_text", "text": content}
        if item.get("role") == "assistant":
            part = {"type": "output_text", "text": content, "annotations": []}
        item["content"] = [part]
    return {"status": "completed", **item}


def _complete_output(item: Json) -> Json:
    return {"status": "completed", **item}


#: Members that an item of a type gets in lists.
_COMPLETIONS: dict[str, Callable[[Json], Json]] = {
    "message": _complete_message,
    "function_call_output": _complete_output,
    "custom_tool_call_output": _complete_output,
}
