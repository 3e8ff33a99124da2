"""A request's prompt as a provider reads it, and where two prompts begin to differ.

Providers cache the beginning of a prompt: tools, then system text, then messages, whatever the order of
the JSON's members. A later request uses the cache up to the first difference.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dragoman.records.differences import find_first_difference, join_path

#: The members that make up the prompt, of all dialects, in the order in which providers read them.
PROMPT_MEMBERS = (
    *("tools", "functions"),
    *("system", "instructions", "systemInstruction", "system_instruction"),
    *("messages", "input", "contents"),
)
#: Settings whose change makes providers read the prompt anew, wholly or from the messages on.
SETTINGS = ("model", "thinking", "reasoning", "tool_choice", "response_format", "text", "toolConfig")
#: Members that mark places of the prompt and are not part of it.
_MARKS = frozenset({"cache_control"})
#: Members that hold a text or a list of blocks.
_TEXTS = frozenset({"content", "system"})


class PromptPart(msgspec.Struct, frozen=True):
    """One value of the prompt: a text, a number, or the mark of an empty list or object.

    `key` is the path in the longest form: a message's text and a list of one text block have the same.
    """

    path: str
    text: str
    key: str


class PromptBreak(msgspec.Struct, frozen=True, kw_only=True):
    """The first place where a prompt differs from an earlier one.

    `path` and `position` (in characters) are those of the later prompt; `before` and `after` show some
    characters from there on.
    """

    path: str
    position: int
    before: str
    after: str
    #: The share of the earlier prompt's characters before that place, from 0 to 1.
    shared: float


def list_parts(request: Mapping[str, object]) -> list[PromptPart]:
    """The parts of the prompt of a decoded request, in the order of the provider."""
    parts: list[PromptPart] = []
    for name in PROMPT_MEMBERS:
        if name in request:
            parts.extend(_flatten(request[name], name, name))
    return parts


def find_break(before: Sequence[PromptPart], after: Sequence[PromptPart]) -> PromptBreak | None:
    """Where the later prompt leaves the earlier one; None if it only continues it, or ends before it."""
    pairs = enumerate(zip(before, after, strict=False))
    found = next(((number, *pair) for number, pair in pairs if not _are_equal(*pair)), None)
    if found is None:
        return None
    number, old, new = found
    total = sum(len(part.text) for part in before) or 1
    shared = sum(len(part.text) for part in before[:number])
    if old.key != new.key:
        return PromptBreak(
            path=new.path, position=0, before=_cut(old.text), after=_cut(new.text), shared=shared / total
        )
    position = find_first_difference(old.text, new.text)
    return PromptBreak(
        path=new.path,
        position=position,
        before=_cut(old.text[position:]),
        after=_cut(new.text[position:]),
        shared=(shared + position) / total,
    )


def list_changed_settings(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The settings with an influence on the cache that differ."""
    return [name for name in SETTINGS if before.get(name) != after.get(name)]


def _are_equal(before: PromptPart, after: PromptPart) -> bool:
    return before.key == after.key and before.text == after.text


def _flatten(value: object, path: str, name: str = "") -> Iterator[PromptPart]:
    if isinstance(value, dict) and value:
        for member, each in value.items():
            # Claude Code writes a text as a list of one block while it has a cache mark, and as a text later.
            is_implied = member == "type" and each == "text"
            if member not in _MARKS and not is_implied:
                yield from _flatten(each, join_path(path, member), member)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _flatten(each, f"{path}[{number}]")
    else:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        is_short = name in _TEXTS and isinstance(value, str)
        yield PromptPart(path, text, f"{path}[0].text" if is_short else path)


def _cut(text: str) -> str:
    return text[:60]
