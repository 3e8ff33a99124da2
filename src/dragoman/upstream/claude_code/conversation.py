"""A Messages body as a list of items, and the fingerprints by which a history is recognised.

Two histories have the same fingerprint if they have the same content. These differences do not count: null
or absent members, the order of keys, blanks in texts, where texts are split, and thinking, which many clients
drop. A call that was requested twice (because the results of other calls came first) counts once.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from dragoman.hub.ids import digest

Json = dict[str, Any]
ItemKind = Literal["text", "media", "call", "result", "thinking"]

_encode_sorted = msgspec.json.Encoder(order="sorted").encode

#: Types of thinking blocks, and the member that holds the signature.
_SIGNATURES = {"thinking": "signature", "redacted_thinking": "data"}
#: Members that change how a request is processed and not its content.
_HINTS = frozenset({"cache_control", "citations"})


class HistoryItem(msgspec.Struct, frozen=True):
    """One block of a conversation. `key` is its content in a canonical form."""

    role: Literal["user", "assistant"]
    kind: ItemKind
    key: str
    #: The id of a call, on the call and on its result.
    id: str = ""
    #: The block as the client sent it.
    block: Json = {}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a request. The first `history_length` items end with the last item of the assistant."""

    items: tuple[HistoryItem, ...]
    history_length: int
    system: str = ""

    @property
    def history(self) -> tuple[HistoryItem, ...]:
        return self.items[: self.history_length]

    @property
    def new_items(self) -> tuple[HistoryItem, ...]:
        """What the caller adds with this request: results and user content."""
        return self.items[self.history_length :]

    @property
    def results(self) -> tuple[HistoryItem, ...]:
        """The results among the new items."""
        return tuple(item for item in self.new_items if item.kind == "result")

    @property
    def prompt(self) -> tuple[HistoryItem, ...]:
        """The user content among the new items."""
        return tuple(item for item in self.new_items if item.kind != "result")

    @property
    def open_calls(self) -> tuple[HistoryItem, ...]:
        """Calls of the last assistant message that have no result."""
        answered = {item.id for item in self.items if item.kind == "result"}
        calls: list[HistoryItem] = []
        for item in reversed(self.history):
            if item.role != "assistant":
                # Results in between belong to a batch that came in parts.
                if item.kind == "result":
                    continue
                break
            if item.kind == "call" and item.id not in answered:
                calls.insert(0, item)
        return tuple(calls)

    @property
    def call_groups(self) -> int:
        """The number of groups of tool calls since the last user content."""
        groups = 0
        before: HistoryItem | None = None
        for item in self.items:
            if item.kind == "thinking":
                continue
            if item.role == "user" and item.kind != "result":
                groups = 0
            elif item.kind == "call" and (before is None or before.kind != "call"):
                groups += 1
            before = item
        return groups

    @property
    def lacks_thinking(self) -> bool:
        """Whether the new results answer calls whose thinking blocks are missing from the history."""
        if self.prompt or not self.results:
            return False
        relevant = [item for item in self.history if item.role == "user" or item.kind in ("call", "thinking")]
        turn: list[HistoryItem] = []
        while relevant and relevant[-1].role == "assistant":
            turn.append(relevant.pop())
        return not any(item.kind == "thinking" for item in turn)


def read_conversation(body: Json) -> Conversation:
    """Read the body of a Messages request."""
    items = _merge_texts(_remove_repeats(_read_items(body.get("messages") or [])))
    return Conversation(
        items=tuple(items), history_length=_count_history(items), system=_read_system(body.get("system"))
    )


def extend_history(conversation: Conversation, blocks: Sequence[Json]) -> tuple[HistoryItem, ...]:
    """Return the history that the next request will show after a reply of these blocks.

    Calls that were only requested again add nothing to it.
    """
    reply = _read_items([{"role": "assistant", "content": list(blocks)}])
    items = _merge_texts(_remove_repeats((*conversation.items, *reply)))
    return tuple(items[: _count_history(items)])


def fingerprint(items: Iterable[HistoryItem], seed: str = "") -> str:
    """Compute the fingerprint of all items except thinking."""
    value = digest(seed)
    for item in _merge_texts(item for item in items if item.kind != "thinking"):
        value = digest(value, item.role, item.kind, item.id, item.key)
    return value


def outline(items: Sequence[HistoryItem], seed: str = "") -> str:
    """Compute the fingerprint without assistant texts, which clients often drop beside a call."""
    return fingerprint([item for item in items if item.role == "user" or item.kind == "call"], seed)


def _count_history(items: Sequence[HistoryItem]) -> int:
    return max((index + 1 for index, item in enumerate(items) if item.role == "assistant"), default=0)


def _read_items(messages: Sequence[Json]) -> Iterator[HistoryItem]:
    for message in messages:
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for block in blocks:
            item = _read_item("assistant" if message.get("role") == "assistant" else "user", block)
            if item is not None:
                yield item


def _read_item(role: Literal["user", "assistant"], block: Json) -> HistoryItem | None:
    """Read one block. An empty text and thinking without a signature have no item."""
    match block.get("type"):
        case "text":
            text = str(block.get("text") or "")
            return HistoryItem(role, "text", " ".join(text.split()), block=block) if text.strip() else None
        case "tool_use":
            key = f"{block.get('name')} {_write_canonical(block.get('input') or {})}"
            return HistoryItem("assistant", "call", key, str(block.get("id") or ""), block)
        case "tool_result":
            key = _read_result(block.get("content"))
            return HistoryItem("user", "result", key, str(block.get("tool_use_id") or ""), block)
        case kind if kind in _SIGNATURES:
            has_signature = bool(block.get(_SIGNATURES[kind]))
            return HistoryItem("assistant", "thinking", "", block=block) if has_signature else None
        case _:
            return HistoryItem(role, "media", _write_canonical(block), block=block)


def _remove_repeats(items: Iterable[HistoryItem]) -> Iterator[HistoryItem]:
    """Keep each call and each result where it first occurs."""
    seen: set[tuple[str, str]] = set()
    for item in items:
        if item.id and (item.kind, item.id) in seen:
            continue
        seen.add((item.kind, item.id))
        yield item


def _merge_texts(items: Iterable[HistoryItem]) -> list[HistoryItem]:
    """Merge neighbouring texts of one role."""
    merged: list[HistoryItem] = []
    for item in items:
        last = merged[-1] if merged else None
        if last is not None and item.kind == "text" and (last.role, last.kind) == (item.role, "text"):
            block = {"type": "text", "text": f"{last.block['text']}\n\n{item.block['text']}"}
            merged[-1] = HistoryItem(item.role, "text", f"{last.key} {item.key}", block=block)
        else:
            merged.append(item)
    return merged


def _read_result(content: object) -> str:
    """Read the text of a result, given as a text or as a list of blocks."""
    if not isinstance(content, list):
        return str(content or "")
    return "\n".join(
        block.get("text") or "" if block.get("type") == "text" else _write_canonical(block)
        for block in content
    )


def _read_system(system: object) -> str:
    if isinstance(system, list):
        texts = [str(block.get("text") or "") for block in system if isinstance(block, dict)]
        return "\n\n".join(text for text in texts if text)
    return str(system or "")


def _write_canonical(value: object) -> str:
    return _encode_sorted(_remove_hints(value)).decode()


def _remove_hints(value: object) -> object:
    """Remove nulls and hints at every depth."""
    if isinstance(value, dict):
        return {
            name: _remove_hints(inner)
            for name, inner in value.items()
            if inner is not None and name not in _HINTS
        }
    if isinstance(value, list):
        return [_remove_hints(inner) for inner in value]
    return value
