"""Thought on the wire: the many fields in which Chat servers and clients carry reasoning and its seals.

Plain text travels in one of several string fields. Sealed thought travels in lists of entries
(OpenRouter's `reasoning_details`, LiteLLM's `thinking_blocks`) that must come back exactly as they
went out: so the value of a native seal is the whole entry as JSON, without the text and the index.
"""

from typing import NamedTuple

import msgspec

from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode

#: String fields, the likeliest first. A server that fills two of them says the same in both.
TEXT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
LIST_FIELDS = ("reasoning_details", "thinking_blocks")

#: The mark of the entries that carry foreign seals in our envelope.
WRAPPED_FORMAT = "dragoman"


class EntryFields(NamedTuple):
    """Where an entry of this type keeps its text and its proof, and in which list it stands."""

    text: str
    proof: str
    field: str


ENTRY_TYPES: dict[str, EntryFields] = {
    "reasoning.text": EntryFields("text", "signature", "reasoning_details"),
    "reasoning.summary": EntryFields("summary", "", "reasoning_details"),
    "reasoning.encrypted": EntryFields("", "data", "reasoning_details"),
    "thinking": EntryFields("thinking", "signature", "thinking_blocks"),
    "redacted_thinking": EntryFields("", "data", "thinking_blocks"),
}


class Thought(NamedTuple):
    """One entry, taken apart. `seal` is the value of a native seal, or empty."""

    text: str
    seal: str
    raw: bool
    redacted: bool


def read_entry(entry: object) -> Thought | None:
    """What an entry of a reasoning list says; None for a type that we do not know."""
    if not isinstance(entry, dict):
        return None
    kind = entry.get("type")
    fields = ENTRY_TYPES.get(kind) if isinstance(kind, str) else None
    if fields is None:
        return None
    text, proof = entry.get(fields.text), entry.get(fields.proof)
    is_sealed = isinstance(proof, str) and bool(proof)
    return Thought(
        text=text if isinstance(text, str) else "",
        seal=encode(without_text(entry, "index")).decode() if is_sealed else "",
        raw=kind != "reasoning.summary",
        redacted=not fields.text,
    )


def without_text(entry: dict[str, object], *others: str) -> dict[str, object]:
    """What an entry says beside its text. No text, said as null or empty, stays."""
    field = ENTRY_TYPES[str(entry["type"])].text
    has_text = isinstance(entry.get(field), str) and bool(entry[field])
    left_out = (*others, field) if has_text else others
    return {name: value for name, value in entry.items() if name not in left_out}


def written_entry(seal: Seal, text: str, *, redacted: bool) -> dict[str, object]:
    """The entry that a native seal stands for, with the text it seals."""
    entry = _decoded_entry(seal.value)
    if entry is None:
        if redacted:
            return {"type": "reasoning.encrypted", "data": seal.value}
        return {"type": "reasoning.text", "text": text, "signature": seal.value}
    return with_text(entry, text)


def with_text(entry: dict[str, object], text: str) -> dict[str, object]:
    """What `without_text` left, with the text in its place."""
    field = ENTRY_TYPES[str(entry["type"])].text
    return {**entry, field: text} if field and text else entry


def _decoded_entry(value: str) -> dict[str, object] | None:
    try:
        entry = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    kind = entry.get("type") if isinstance(entry, dict) else None
    return entry if isinstance(kind, str) and kind in ENTRY_TYPES else None


def field_of(entry: dict[str, object]) -> str:
    """The list in which an entry stands."""
    return ENTRY_TYPES[str(entry["type"])].field
