"""The state of the open blocks of a stream writer, by kind of block.

Text and refusals keep only their offset. A thought keeps its text, because its seal is written together with
the text. A call keeps its number in the client's list.
"""

from dragoman.dialects.base import Json
from dragoman.dialects.openai_chat.reasoning import TEXT_FIELDS, WRAPPED_FORMAT, write_entry
from dragoman.dialects.openai_chat.spelling import NAME
from dragoman.hub.content import Reasoning, ToolCall
from dragoman.hub.seal import Seal, SealedItem, write_envelope

#: Issuers whose seals on calls have a field in this API, which Google defined.
GOOGLE_ISSUERS = frozenset(("gemini", NAME))


class OpenText:
    """A text or refusal. `field` is its field in deltas; `before` counts the earlier visible characters."""

    __slots__ = ("before", "field", "seal")

    def __init__(self, field: str, before: int = 0) -> None:
        self.field = field
        self.before = before
        self.seal: Seal | None = None


class OpenThought:
    """A thought, with its text by part."""

    __slots__ = ("field", "is_summary", "parts", "redacted", "seal")

    def __init__(self, block: Reasoning, *, own: bool) -> None:
        self.field = block.form if own and block.form in TEXT_FIELDS else TEXT_FIELDS[0]
        self.parts: dict[int, list[str]] = {}
        self.redacted = block.redacted
        self.is_summary = not block.raw
        self.seal = block.seal

    def write_details(self) -> list[Json]:
        """The entries with which the client sends the thought and its seal back, native or in an envelope."""
        seal = self.seal
        if seal is None:
            return []
        parts = tuple("".join(self.parts[number]) for number in sorted(self.parts))
        if seal.issuer != NAME:
            return [
                write_envelope_entry(
                    SealedItem(kind="reasoning", seal=seal, parts=parts, redacted=self.redacted)
                )
            ]
        text = "\n\n".join(parts)
        entry = write_entry(seal, text, redacted=self.redacted)
        if text and self.is_summary and entry["type"] == "reasoning.encrypted":
            return [{"type": "reasoning.summary", "summary": text}, entry]
        return [entry]


class OpenCall:
    """A call. `number` is its index in the client's list; -1 for a call that is not written."""

    __slots__ = ("block", "has_arguments", "is_written", "number")

    def __init__(self, block: ToolCall, number: int) -> None:
        self.block = block
        self.number = number
        self.has_arguments = False
        #: Whether the first fragment is written. A seal that arrives earlier is written with it.
        self.is_written = False

    def build_first_fragment(self, seal: Seal | None, *, own: bool) -> Json:
        block = self.block
        body: Json = {"name": block.name, "input" if block.kind == "custom" else "arguments": ""}
        kind = "custom" if block.kind == "custom" else "function"
        fragment: Json = {"index": self.number, "id": block.id, "type": kind, kind: body}
        if seal is not None:
            fragment["extra_content"] = build_google_content(seal.value)
        if own:
            fragment.update(block.extras)
        return fragment


def build_google_content(signature: str) -> Json:
    return {"google": {"thought_signature": signature}}


def write_envelope_entry(carried: SealedItem) -> Json:
    """The entry of `reasoning_details` with a seal of another vendor in an envelope."""
    return {"type": "reasoning.encrypted", "data": write_envelope([carried]), "format": WRAPPED_FORMAT}
