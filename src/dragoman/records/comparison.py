"""Two recorded sessions compared: the first turn where they part, and what differs."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from dragoman.records.differences import Difference, compare
from dragoman.records.replay import RecordedTurn, normalise_text
from dragoman.records.stream_events import decode, list_events


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    """The turns with the same position in both sessions; 0 if one session has none."""

    first: int
    second: int
    request: list[Difference]
    is_reply_equal: bool


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first turn whose request or reply differs.

    `reply`: the model answered differently to equal requests. `request`: after equal replies, the agent or a
    tool's result differs. `end`: one session ends here.
    """

    first: int
    second: int
    kind: Literal["reply", "request", "end"]
    differences: list[Difference] = []
    #: How many pairs of turns were compared.
    comparisons: int = 0


def pair_turns(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> list[TurnPair]:
    """Compare the turns of two sessions one by one."""
    pairs = []
    for number in range(max(len(first), len(second))):
        left = first[number] if number < len(first) else None
        right = second[number] if number < len(second) else None
        pairs.append(
            TurnPair(
                first=left.number if left else 0,
                second=right.number if right else 0,
                request=compare(left.request, right.request) if left and right else [],
                is_reply_equal=left is not None
                and right is not None
                and _read_reply(left) == _read_reply(right),
            )
        )
    return pairs


def find_divergence(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> Divergence | None:
    """The turn where two sessions part; None if they are equal.

    Each request repeats the history before it. So a request is equal only if all before it are, and the turn
    is found in a logarithmic number of comparisons.
    """
    shared = min(len(first), len(second))
    low, high, count = 0, shared, 0
    # Turns before `low` have equal requests, the turn at `high` has not.
    while low < high:
        middle = (low + high) // 2
        count += 1
        if first[middle].fingerprint == second[middle].fingerprint:
            low = middle + 1
        else:
            high = middle
    # An agent that does not repeat a reply sends equal requests after different replies.
    pairs = zip(first[:low], second[:low], strict=True)
    parted = next((pair for pair in pairs if _read_reply(pair[0]) != _read_reply(pair[1])), None)
    if parted is not None:
        left, right = parted
        differences = compare(_read_reply(left), _read_reply(right))
        return Divergence(
            first=left.number,
            second=right.number,
            kind="reply",
            differences=differences,
            comparisons=count + 1,
        )
    if low < shared:
        left, right = first[low], second[low]
        differences = compare(left.request, right.request)
        return Divergence(
            first=left.number,
            second=right.number,
            kind="request",
            differences=differences,
            comparisons=count + 1,
        )
    if len(first) == len(second):
        return None
    turns = first[shared:] or second[shared:]
    is_first = bool(first[shared:])
    number = turns[0].number
    return Divergence(
        first=number if is_first else 0, second=0 if is_first else number, kind="end", comparisons=count
    )


#: The members of events with text that grows, of all dialects.
_GROWING = ("text", "partial_json", "thinking", "delta", "content", "arguments", "reasoning_content")


def _read_reply(turn: RecordedTurn) -> object:
    """The contents of a reply, without ids, times and the cuts between its deltas."""
    events = list_events(turn.reply, [(0, len(turn.reply))])
    if len(events) == 1 and not events[0].event:
        return _strip(decode(turn.reply))
    texts: dict[str, str] = {}
    for event in events:
        _collect(event.data, "", texts)
    return {path: normalise_text(text) for path, text in texts.items()}


def _collect(value: object, path: str, texts: dict[str, str]) -> None:
    """Add the texts that arrive in deltas (`_GROWING`), joined by path, and the values of `name`."""
    if isinstance(value, dict):
        index = value.get("index", value.get("output_index", ""))
        for name, each in value.items():
            here = f"{path}.{name}{f'[{index}]' if index != '' else ''}" if path else f"{name}[{index}]"
            if isinstance(each, str):
                if name in _GROWING:
                    texts[here] = texts.get(here, "") + each
                elif name == "name":
                    texts[here] = each
            else:
                _collect(each, here, texts)
    elif isinstance(value, list):
        for each in value:
            _collect(each, path, texts)


def _strip(value: object) -> object:
    if isinstance(value, dict):
        varied = ("id", "created", "created_at", "usage", "request_id", "responseId")
        return {name: _strip(each) for name, each in value.items() if name not in varied}
    if isinstance(value, list):
        return [_strip(each) for each in value]
    return normalise_text(value) if isinstance(value, str) else value
