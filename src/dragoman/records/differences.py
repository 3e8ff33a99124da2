"""Two JSON values compared by path: what was added, removed or changed."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal

import msgspec

#: Differences that are listed, and the elements of a list that are aligned.
MAX_DIFFERENCES = 2000
MAX_ALIGNED = 1000

_encode = msgspec.json.Encoder(order="deterministic").encode


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. `path` is the path in the later value, or in the earlier one if it was removed.

    `position` is the first character that differs, if both values are texts.
    """

    path: str
    kind: Literal["added", "removed", "changed"]
    before: object = None
    after: object = None
    position: int | None = None
    #: What made the difference, if it is known: a pass, a loss, a rule.
    cause: str = ""


def compare(before: object, after: object, path: str = "") -> list[Difference]:
    """The differences of two decoded JSON values, in the order of the later value."""
    found: list[Difference] = []
    for difference in _compare(before, after, path):
        found.append(difference)
        if len(found) >= MAX_DIFFERENCES:
            break
    return found


def find_first_difference(before: str, after: str) -> int:
    """The position of the first character that differs; the length of both if they are equal."""
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _compare(before: object, after: object, path: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name not in after:
                yield Difference(path=join_path(path, name), kind="removed", before=before[name])
        for name, value in after.items():
            if name in before:
                yield from _compare(before[name], value, join_path(path, name))
            else:
                yield Difference(path=join_path(path, name), kind="added", after=value)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare_lists(before, after, path)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            position = find_first_difference(before, after)
            yield Difference(path=path, kind="changed", before=before, after=after, position=position)
    elif type(before) is not type(after) or before != after:
        yield Difference(path=path, kind="changed", before=before, after=after)


def _compare_lists(before: list[object], after: list[object], path: str) -> Iterator[Difference]:
    """Equal elements are aligned first, so that an inserted one does not change all that follow."""
    keys = [_encode(each) for each in before], [_encode(each) for each in after]
    if max(len(before), len(after)) > MAX_ALIGNED:
        shared = min(len(before), len(after))
        steps = [("replace", 0, shared, 0, shared), ("replace", shared, len(before), shared, len(after))]
    else:
        steps = list(SequenceMatcher(None, *keys, autojunk=False).get_opcodes())
    for step, low, high, first, last in steps:
        if step == "equal":
            continue
        shared = min(high - low, last - first)
        for number in range(shared):
            yield from _compare(before[low + number], after[first + number], f"{path}[{first + number}]")
        for number in range(low + shared, high):
            yield Difference(path=f"{path}[{number}]", kind="removed", before=before[number])
        for number in range(first + shared, last):
            yield Difference(path=f"{path}[{number}]", kind="added", after=after[number])


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
