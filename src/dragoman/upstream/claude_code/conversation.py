"""A Messages body as a row of atoms, and the fingerprints by which a history is known again.

Two histories are alike if they say the same: null or absent, the order of keys, how arguments are spaced,
where texts are cut, and reasoning, which many clients drop, make no difference. Nor does a call that was
asked for twice, because some of its siblings' results came first.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from dragoman.hub.ids import digest

Json = dict[str, Any]
Kind = Literal["text", "media", "call", "result", "thought"]

_sorted = msgspec.json.Encoder(order="sorted").encode

#: What the model said to itself, and the member that proves it; clients keep it or not.
_REASONING = {"thinking": "signature", "redacted_thinking": "data"}
#: Members that change how a request is processed, not what it says.
_MARKS = frozenset({"cache_control", "citations"})


class Atom(msgspec.Struct, frozen=True):
    """One thing that was said. `key` is its content in the one spelling that all spellings share."""

    role: Literal["user", "assistant"]
    kind: Kind
    key: str
    #: A call's id, on the call and on its result.
    id: str = ""
    #: As it came.
    block: Json = {}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request's history and its new words; `said` atoms are the history, up to the last of Claude's."""

    atoms: tuple[Atom, ...]
    said: int
    system: str = ""

    @property
    def history(self) -> tuple[Atom, ...]:
        return self.atoms[: self.said]

    @property
    def news(self) -> tuple[Atom, ...]:
        """What the caller adds now: results, and words of the user."""
        return self.atoms[self.said :]

    @property
    def results(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.news if atom.kind == "result")

    @property
    def words(self) -> tuple[Atom, ...]:
        return tuple(atom for atom in self.news if atom.kind != "result")

    @property
    def open_calls(self) -> tuple[Atom, ...]:
        """Calls that the history shows without a result, in its last message only."""
        answered = {atom.id for atom in self.atoms if atom.kind == "result"}
        calls: list[Atom] = []
        for atom in reversed(self.history):
            if atom.role != "assistant":
                # Results in between are those of a batch that came in parts.
                if atom.kind == "result":
                    continue
                break
            if atom.kind == "call" and atom.id not in answered:
                calls.insert(0, atom)
        return tuple(calls)

    @property
    def rounds(self) -> int:
        """How many rounds of calls the last prompt of the user has taken so far."""
        rounds = 0
        before: Atom | None = None
        for atom in self.atoms:
            if atom.kind == "thought":
                continue
            if atom.role == "user" and atom.kind != "result":
                rounds = 0
            elif atom.kind == "call" and (before is None or before.kind != "call"):
                rounds += 1
            before = atom
        return rounds

    @property
    def lacks_thoughts(self) -> bool:
        """Whether calls are just being answered of which nobody says what led to them."""
        if self.words or not self.results:
            return False
        last = [atom for atom in self.history if atom.role == "user" or atom.kind in ("call", "thought")]
        turn: list[Atom] = []
        while last and last[-1].role == "assistant":
            turn.append(last.pop())
        return not any(atom.kind == "thought" for atom in turn)


def read(body: Json) -> Conversation:
    """The conversation in the body of a Messages request."""
    atoms = _merged(_once(_atoms(body.get("messages") or [])))
    return Conversation(atoms=tuple(atoms), said=_said(atoms), system=_system(body.get("system")))


def answered(talk: Conversation, blocks: Sequence[Json]) -> tuple[Atom, ...]:
    """The history that the next request will show, after a reply of these blocks.

    Calls that were only asked for again add nothing to it.
    """
    spoken = _atoms([{"role": "assistant", "content": list(blocks)}])
    atoms = _merged(_once((*talk.atoms, *spoken)))
    return tuple(atoms[: _said(atoms)])


def _said(atoms: Sequence[Atom]) -> int:
    return max((at + 1 for at, atom in enumerate(atoms) if atom.role == "assistant"), default=0)


def fingerprint(atoms: Iterable[Atom], seed: str = "") -> str:
    """One number for all that was said aloud."""
    mark = digest(seed)
    for atom in _merged(atom for atom in atoms if atom.kind != "thought"):
        mark = digest(mark, atom.role, atom.kind, atom.id, atom.key)
    return mark


def outline(atoms: Sequence[Atom], seed: str = "") -> str:
    """The same without Claude's words, which clients often shorten beside a call."""
    return fingerprint([atom for atom in atoms if atom.role == "user" or atom.kind == "call"], seed)


def _atoms(messages: Sequence[Json]) -> Iterator[Atom]:
    for message in messages:
        role = "assistant" if message.get("role") == "assistant" else "user"
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        for block in blocks:
            atom = _atom("assistant" if role == "assistant" else "user", block)
            if atom is not None:
                yield atom


def _once(atoms: Iterable[Atom]) -> Iterator[Atom]:
    """Each call and each result once, where it first stood."""
    seen: set[tuple[str, str]] = set()
    for atom in atoms:
        if atom.id and (atom.kind, atom.id) in seen:
            continue
        seen.add((atom.kind, atom.id))
        yield atom


def _atom(role: Literal["user", "assistant"], block: Json) -> Atom | None:
    match block.get("type"):
        case "text":
            text = str(block.get("text") or "")
            return Atom(role, "text", " ".join(text.split()), block=block) if text.strip() else None
        case "tool_use":
            key = f"{block.get('name')} {_spelled(block.get('input') or {})}"
            return Atom("assistant", "call", key, str(block.get("id") or ""), block)
        case "tool_result":
            key = _result_key(block.get("content"))
            return Atom("user", "result", key, str(block.get("tool_use_id") or ""), block)
        case kind if kind in _REASONING:
            return Atom("assistant", "thought", "", block=block) if block.get(_REASONING[kind]) else None
        case _:
            return Atom(role, "media", _spelled(block), block=block)


def _merged(atoms: Iterable[Atom]) -> list[Atom]:
    """Texts of one side that stand side by side are one text to a fingerprint."""
    merged: list[Atom] = []
    for atom in atoms:
        last = merged[-1] if merged else None
        if last is not None and atom.kind == "text" and (last.role, last.kind) == (atom.role, "text"):
            block = {"type": "text", "text": f"{last.block['text']}\n\n{atom.block['text']}"}
            merged[-1] = Atom(atom.role, "text", f"{last.key} {atom.key}", block=block)
        else:
            merged.append(atom)
    return merged


def _result_key(content: object) -> str:
    """A result's text, however it is wrapped."""
    if not isinstance(content, list):
        return str(content or "")
    texts = [block.get("text") or "" if block.get("type") == "text" else _spelled(block) for block in content]
    return "\n".join(texts)


def _system(system: object) -> str:
    if isinstance(system, list):
        texts = [str(block.get("text") or "") for block in system if isinstance(block, dict)]
        return "\n\n".join(text for text in texts if text)
    return str(system or "")


def _spelled(value: object) -> str:
    return _sorted(_plain(value)).decode()


def _plain(value: object) -> object:
    """Without what is null and what only marks."""
    if isinstance(value, dict):
        return {
            name: _plain(inner) for name, inner in value.items() if inner is not None and name not in _MARKS
        }
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
