"""Reads and writes reasoning items and their seals.

A reasoning item holds summaries of a thought, or the thought itself, and possibly the whole thought
encrypted. Clients send the encrypted field back, so it also holds the seals of other vendors, in an
envelope.
"""

from collections.abc import Sequence

from dragoman.dialects.openai_responses.vocabulary import NAME
from dragoman.hub.content import Extras, Reasoning
from dragoman.hub.loss import Losses
from dragoman.hub.seal import (
    CALL_CARRIER,
    TEXT_CARRIER,
    Seal,
    SealedItem,
    is_envelope,
    read_envelope,
    write_envelope,
)
from dragoman.wire.fields import Fields

#: The form of an item without `summary`, not even an empty one.
NO_SUMMARY = "no-summary"

#: The form of another vendor's thought that the client sent back without a seal.
UNSEALED = "unsealed"

PART_TYPE = {"summary": "summary_text", "content": "reasoning_text"}


def read_texts(value: object, part_type: str) -> tuple[str, ...]:
    """The texts of a list of parts; other parts are ignored."""
    if not isinstance(value, list):
        return ()
    return tuple(
        part["text"]
        for part in value
        if isinstance(part, dict) and part.get("type") == part_type and isinstance(part.get("text"), str)
    )


def write_texts(texts: Sequence[str], part_type: str) -> list[Extras]:
    return [{"type": part_type, "text": text} for text in texts]


def take_parts(item: Extras) -> tuple[tuple[str, ...], bool]:
    """Take the parts out of an item. Returns them, and whether they are the thought itself.

    Clients show the summary, so it is preferred. A thought beside a summary stays in the item, for this
    dialect.
    """
    for field, raw in (("summary", False), ("content", True)):
        part_type = PART_TYPE[field]
        texts = read_texts(item.get(field), part_type)
        if texts:
            if item[field] == write_texts(texts, part_type):
                del item[field]
            return texts, raw
    if item.get("summary") == []:
        del item["summary"]
    return (), False


def read_reasoning(fields: Fields, losses: Losses) -> tuple[list[Reasoning], list[SealedItem]]:
    """The thoughts of an input item, and the seals of other blocks in its envelope."""
    at = fields.path
    value = fields.maybe_text("encrypted_content")
    extras = fields.rest()
    form = "" if fields.has("summary") else NO_SUMMARY
    for field in PART_TYPE:
        listed = fields.maybe_list(field)
        if listed is not None:
            extras[field] = listed
    parts, raw = take_parts(extras)
    if value is None or not is_envelope(value):
        seal = None if value is None else Seal(NAME, "", value)
        redacted = seal is not None and not parts
        block = Reasoning(parts=parts, raw=raw, seal=seal, redacted=redacted, form=form, at=at, extras=extras)
        return [block], []
    carried = read_envelope(value)
    if carried is None:
        losses.add(f"{at}.encrypted_content", "the envelope is damaged, so that its seal cannot be returned")
        carried = ()
    thoughts = [
        Reasoning(
            parts=item.parts or parts, seal=item.seal, redacted=item.redacted, raw=raw, at=at, extras=extras
        )
        for item in carried
        if item.kind == "reasoning"
    ]
    if not thoughts and parts:
        thoughts = [Reasoning(parts=parts, raw=raw, form=UNSEALED, at=at, extras=extras)]
    return thoughts, [item for item in carried if item.kind != "reasoning"]


def write_encrypted_content(seal: Seal | None, parts: Sequence[str], *, redacted: bool) -> str:
    """The encrypted field: a seal of this dialect as it is, a seal of another vendor in an envelope.

    A thought without a seal gets an empty envelope. Without it, the thought would come back as if it were
    OpenAI's.
    """
    if seal is None:
        return write_envelope([])
    if seal.issuer == NAME:
        return seal.value
    return write_envelope([SealedItem(kind="reasoning", seal=seal, parts=tuple(parts), redacted=redacted)])


def is_carrier(block: Reasoning) -> bool:
    """Whether a block only carries the seal of another block: of a call, or of the text before it."""
    return block.form == TEXT_CARRIER or block.form.startswith(CALL_CARRIER)


def build_carried_seal(carrier: Reasoning, seal: Seal) -> SealedItem:
    if carrier.form == TEXT_CARRIER:
        return SealedItem(kind="text", seal=seal)
    return SealedItem(kind="call", seal=seal, call_id=carrier.form.removeprefix(CALL_CARRIER))


def write_reasoning(block: Reasoning, *, own: bool) -> Extras:
    """Write a reasoning item without id, status and seal."""
    field = "content" if own and block.raw else "summary"
    item: Extras = {"type": "reasoning"}
    if not own or block.form != NO_SUMMARY:
        item["summary"] = []
    if block.parts:
        item[field] = write_texts(block.parts, PART_TYPE[field])
    return item
