"""Two recorded sessions compared: the first turn where they part, and what differs."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from dragoman.records.differences import Difference, compare
from dragoman.records.replay import RecordedTurn, build_fingerprint, normalise_text
from dragoman.records.stream_events import decode, list_events


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    """The turns with the same position in both sessions, of the same agent; 0 if one session has none."""

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


def pair_turns(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> list[TurnPair]:
    """Compare the turns of two sessions one by one."""
    return [
        TurnPair(
            first=left.number if left else 0,
            second=right.number if right else 0,
            request=compare(left.request, right.request) if left and right else [],
            is_reply_equal=left is not None and right is not None and _read_reply(left) == _read_reply(right),
        )
        for left, right in _align(first, second)
    ]


def find_divergence(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> Divergence | None:
    """The turn where two sessions part; None if they are equal.

    All pairs are compared in their order: a request of a sub-agent may differ although later ones of the main
    agent are equal. The turns before a fork are in one session only, and are left out.
    """
    pairs = _align(first, second)
    shared = [number for number, pair in enumerate(pairs) if all(pair)]
    for left, right in pairs[shared[0] :] if shared else pairs:
        if left is None or right is None:
            return Divergence(
                first=left.number if left else 0, second=right.number if right else 0, kind="end"
            )
        if left.fingerprint != right.fingerprint:
            differences = compare(left.request, right.request)
            return Divergence(first=left.number, second=right.number, kind="request", differences=differences)
        replies = _read_reply(left), _read_reply(right)
        if replies[0] != replies[1]:
            differences = compare(*replies)
            return Divergence(first=left.number, second=right.number, kind="reply", differences=differences)
    return None


_Pair = tuple[RecordedTurn | None, RecordedTurn | None]


def _align(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> list[_Pair]:
    """The turns side by side. A fork begins beside the turn that it answers with another model."""
    if skipped := _find_fork(first, second):
        first, second = [_drop_model(turn) for turn in first], [_drop_model(turn) for turn in second]
        return [*((turn, None) for turn in first[:skipped]), *_pair_by_agent(first[skipped:], second)]
    if skipped := _find_fork(second, first):
        return [(left, right) for right, left in _align(second, first)]
    return _pair_by_agent(first, second)


def _pair_by_agent(first: Sequence[RecordedTurn], second: Sequence[RecordedTurn]) -> list[_Pair]:
    """The turns of each agent side by side, in the order of the first session.

    Sub-agents that run at once take their turns in another order each time.
    """
    ours, theirs = _group_by_agent(first), _group_by_agent(second)
    partners: dict[int, RecordedTurn] = {}
    for name, other in _match_agents(ours, theirs).items():
        partners.update(
            (right.number, left)
            for left, right in zip(ours.get(name, ()), theirs.get(other, ()), strict=False)
        )
    matched = {left.number: right for right in second if (left := partners.get(right.number))}
    pairs: list[_Pair] = [(left, matched.get(left.number)) for left in first]
    # A turn of the second session alone stands behind the pair with the turn before it.
    place = 0
    numbers = [turn.number for turn in first]
    for right in second:
        left = partners.get(right.number)
        if left is None:
            pairs.insert(place, (None, right))
            numbers.insert(place, 0)
            place += 1
        else:
            place = numbers.index(left.number) + 1
    return pairs


def _group_by_agent(turns: Sequence[RecordedTurn]) -> dict[str, list[RecordedTurn]]:
    groups: dict[str, list[RecordedTurn]] = {"": []}
    for turn in turns:
        groups.setdefault(turn.sub_agent, []).append(turn)
    return groups


def _match_agents(
    first: Mapping[str, Sequence[RecordedTurn]], second: Mapping[str, Sequence[RecordedTurn]]
) -> dict[str, str]:
    """The agents of the second session by those of the first one, with the same first request if possible.

    The ids of sub-agents differ from session to session. The main agent has none.
    """
    left = [name for name in second if name]
    matches = {"": ""}
    for name in filter(None, first):
        begin = first[name][0].fingerprint
        if same := next((other for other in left if second[other][0].fingerprint == begin), None):
            matches[name] = same
            left.remove(same)
    others = (name for name in first if name not in matches)
    return {**matches, **dict(zip(others, left, strict=False))}


def _find_fork(whole: Sequence[RecordedTurn], fork: Sequence[RecordedTurn]) -> int:
    """How many turns of `whole` come before the one whose request `fork` begins with; 0 if it is no fork."""
    ours, theirs = ([_drop_model(turn).fingerprint for turn in turns] for turns in (whole, fork))
    begin = ours.index(theirs[0]) if theirs and theirs[0] in ours else 0
    # A fork has none of the turns before. Another session may have them later, after those of another agent.
    return begin if set(theirs).isdisjoint(ours[:begin]) else 0


def _drop_model(turn: RecordedTurn) -> RecordedTurn:
    request = {name: value for name, value in turn.request.items() if name != "model"}
    return msgspec.structs.replace(turn, request=request, fingerprint=build_fingerprint(request))


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
        varied = ("id", "call_id", "created", "created_at", "usage", "request_id", "responseId")
        return {name: _strip(each) for name, each in value.items() if name not in varied}
    if isinstance(value, list):
        return [_strip(each) for each in value]
    return normalise_text(value) if isinstance(value, str) else value
