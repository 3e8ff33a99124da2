"""What a stream writer remembers of each open block, by kind of block.

Text and refusals keep nothing but where they began. Thought keeps its text, because its seal is written
with the text it seals. Calls keep the number by which clients of this dialect know them.
"""

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS, WRAPPED_FORMAT, written_entry
from dragoman.dialects.openai_chat.spelling import NAME
from dragoman.hub.content import Reasoning, ToolCall
from dragoman.hub.seal import Seal, SealedItem, write_envelope

#: Issuers whose seals on calls have a field of their own here, which Google defined.
GOOGLE_ISSUERS = frozenset(("gemini", NAME))


class OpenText:
    """`field` is the key of the delta that carries the text; `before` counts earlier visible characters."""

    __slots__ = ("before", "field", "seal")

    def __init__(self, field: str, before: int = 0) -> None:
        self.field = field
        self.before = before
        self.seal: Seal | None = None


class OpenThought:
    __slots__ = ("field", "is_summary", "parts", "redacted", "seal")

    def __init__(self, block: Reasoning, *, own: bool) -> None:
        self.field = block.form if own and block.form in TEXT_FIELDS else TEXT_FIELDS[0]
        self.parts: dict[int, list[str]] = {}
        self.redacted = block.redacted
        self.is_summary = not block.raw
        self.seal = block.seal

    def details(self) -> list[Json]:
        """The entries that bring the thought back with its seal: native, or ours in an envelope."""
        seal = self.seal
        if seal is None:
            return []
        parts = tuple("".join(self.parts[number]) for number in sorted(self.parts))
        if seal.issuer != NAME:
            return [wrapped(SealedItem(kind="reasoning", seal=seal, parts=parts, redacted=self.redacted))]
        text = "\n\n".join(parts)
        entry = written_entry(seal, text, redacted=self.redacted)
        if text and self.is_summary and entry["type"] == "reasoning.encrypted":
            return [{"type": "reasoning.summary", "summary": text}, entry]
        return [entry]


class OpenCall:
    """`number` counts the calls that the client knows of; -1 for a call that it cannot be told."""

    __slots__ = ("block", "number", "said", "written")

    def __init__(self, block: ToolCall, number: int) -> None:
        self.block = block
        self.number = number
        #: Whether there were any arguments.
        self.said = False
        #: Whether the first fragment has gone out; a seal that comes before that goes with it.
        self.written = False

    def first_fragment(self, seal: Seal | None, *, own: bool) -> Json:
        block = self.block
        body: Json = {"name": block.name, "input" if block.kind == "custom" else "arguments": ""}
        kind = "custom" if block.kind == "custom" else "function"
        fragment: Json = {"index": self.number, "id": block.id, "type": kind, kind: body}
        if seal is not None:
            fragment["extra_content"] = google_content(seal.value)
        if own:
            fragment.update(block.extras)
        return fragment


def google_content(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def wrapped(carried: SealedItem) -> Json:
    """An entry of `reasoning_details` that holds a seal of another dialect."""
    return {"type": "reasoning.encrypted", "data": write_envelope([carried]), "format": WRAPPED_FORMAT}
