"""The items that led to a response, as clients list them: page by page, each with an id."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from dragoman.dialects.base import Json
from dragoman.dialects.openai_responses.hosted import PREFIXES
from dragoman.dialects.openai_responses.vocabulary import CALL_OF_ITEM
from dragoman.hub.errors import ClientProtocolError
from dragoman.hub.ids import digest
from dragoman.responses.stored import Kept

DEFAULT_LIMIT = 20
MOST = 100

_items = msgspec.json.Decoder(list[dict[str, object]]).decode

#: How the ids of items begin.
_PREFIX_OF_TYPE: Mapping[str, str] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call_output": "fco_",
    "custom_tool_call_output": "ctco_",
    **PREFIXES,
    **{name: call.prefix for name, call in CALL_OF_ITEM.items()},
}


class Page(msgspec.Struct, frozen=True):
    """What a client wants to see of a list."""

    limit: int = DEFAULT_LIMIT
    order: str = "desc"
    after: str = ""


def page_of(query: Mapping[str, Sequence[str]]) -> Page:
    limit = query.get("limit", [str(DEFAULT_LIMIT)])[0]
    order = query.get("order", ["desc"])[0]
    if not (limit.isdecimal() and len(limit) <= len(str(MOST)) and 1 <= int(limit) <= MOST):
        raise ClientProtocolError(f"expected a number from 1 to {MOST}", path="limit")
    if order not in ("asc", "desc"):
        raise ClientProtocolError("expected asc or desc", path="order")
    return Page(int(limit), order, query.get("after", [""])[0])


def listed(turns: Sequence[Kept], page: Page) -> Json:
    """One page of what went into the last of these turns: its input, and all of the turns before."""
    items: list[Json] = []
    for turn in turns:
        items += (named(item, turn.id, place) for place, item in enumerate(_items(turn.input)))
        if turn is not turns[-1]:
            items += _items(turn.output)
    if page.order == "desc":
        items.reverse()
    start = 0
    if page.after:
        places = [place for place, item in enumerate(items) if item.get("id") == page.after]
        if not places:
            raise ClientProtocolError("no such item is in this list", path="after")
        start = places[0] + 1
    shown = items[start : start + page.limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0].get("id") if shown else None,
        "last_id": shown[-1].get("id") if shown else None,
        "has_more": start + page.limit < len(items),
    }


def named(item: Json, response_id: str, place: int) -> Json:
    """An input item as readers of lists expect it; what the client gave no id has one that stays the same."""
    kind = item.get("type") or "message"
    prefix = _PREFIX_OF_TYPE.get(str(kind), "item_")
    named = {"id": prefix + digest(response_id, str(place)), **item, "type": kind}
    spell = _SPELLINGS.get(str(kind))
    return spell(named) if spell is not None else named


def _message(item: Json) -> Json:
    content = item.get("content")
    if isinstance(content, str):
        part: Json = {"type": "input_text", "text": content}
        if item.get("role") == "assistant":
            part = {"type": "output_text", "text": content, "annotations": []}
        item["content"] = [part]
    return {"status": "completed", **item}


def _output(item: Json) -> Json:
    return {"status": "completed", **item}


_SPELLINGS: dict[str, Callable[[Json], Json]] = {
    "message": _message,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
}
