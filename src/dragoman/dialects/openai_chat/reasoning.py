"""Reads and writes the fields in which Chat servers and clients carry thoughts and their seals.

Thoughts without a seal are in one of several string fields. Thoughts with a seal are entries of a list
(OpenRouter's `reasoning_details`, LiteLLM's `thinking_blocks`), which the server must get back unchanged. So
the value of a native seal is the whole entry as JSON, without the text and the index.
"""

from typing import NamedTuple

import msgspec

from dragoman.hub.seal import Seal
from dragoman.wire.fields import encode

#: String fields, the most common first. A server that fills two of them repeats the same text.
TEXT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
LIST_FIELDS = ("reasoning_details", "thinking_blocks")

#: The format of entries that hold seals of other vendors in an envelope of this gateway.
WRAPPED_FORMAT = "dragoman"


class EntryFields(NamedTuple):
    """The fields of an entry's text and signature, and the list that holds entries of this type."""

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
    """The content of one entry. `seal` is the value of a native seal, or empty."""

    text: str
    seal: str
    raw: bool
    redacted: bool


def read_entry(entry: object) -> Thought | None:
    """Read an entry of a reasoning list; None if its type is unknown."""
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
        seal=encode(remove_text(entry, "index")).decode() if is_sealed else "",
        raw=kind != "reasoning.summary",
        redacted=not fields.text,
    )


def remove_text(entry: dict[str, object], *others: str) -> dict[str, object]:
    """The entry without its text. A text that is null or empty stays."""
    field = ENTRY_TYPES[str(entry["type"])].text
    has_text = isinstance(entry.get(field), str) and bool(entry[field])
    left_out = (*others, field) if has_text else others
    return {name: value for name, value in entry.items() if name not in left_out}


def write_entry(seal: Seal, text: str, *, redacted: bool) -> dict[str, object]:
    """The entry of a native seal, with the text that it seals."""
    entry = _decode_entry(seal.value)
    if entry is None:
        if redacted:
            return {"type": "reasoning.encrypted", "data": seal.value}
        return {"type": "reasoning.text", "text": text, "signature": seal.value}
    return add_text(entry, text)


def add_text(entry: dict[str, object], text: str) -> dict[str, object]:
    """The entry with its text: the reverse of `remove_text`."""
    field = ENTRY_TYPES[str(entry["type"])].text
    return {**entry, field: text} if field and text else entry


def _decode_entry(value: str) -> dict[str, object] | None:
    try:
        entry = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    kind = entry.get("type") if isinstance(entry, dict) else None
    return entry if isinstance(kind, str) and kind in ENTRY_TYPES else None


def find_list_field(entry: dict[str, object]) -> str:
    """The name of the list that holds entries of this type."""
    return ENTRY_TYPES[str(entry["type"])].field
