"""Reasoning items and the seals in them, both ways.

A reasoning item holds summaries of thought, or thought itself, and perhaps the whole of it encrypted. The
encrypted field is what clients of this dialect echo, so seals of other vendors travel in it, wrapped.
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

#: The form of an item that leaves out even an empty summary.
NO_SUMMARY = "no-summary"

#: The form of another vendor's thought that came back without a seal.
UNSEALED = "unsealed"

PART_TYPE = {"summary": "summary_text", "content": "reasoning_text"}


def texts_of(value: object, part_type: str) -> tuple[str, ...]:
    """The texts of a list of parts; whatever is no text part is passed over."""
    if not isinstance(value, list):
        return ()
    return tuple(
        part["text"]
        for part in value
        if isinstance(part, dict) and part.get("type") == part_type and isinstance(part.get("text"), str)
    )


def spell_texts(texts: Sequence[str], part_type: str) -> list[Extras]:
    return [{"type": part_type, "text": text} for text in texts]


def settle_parts(item: Extras) -> tuple[tuple[str, ...], bool]:
    """The item's parts, and whether they are thought itself. What the parts do not say stays in the item.

    A summary is what clients show, so it comes first; thought beside it is for this dialect alone.
    """
    for field, raw in (("summary", False), ("content", True)):
        part_type = PART_TYPE[field]
        texts = texts_of(item.get(field), part_type)
        if texts:
            if item[field] == spell_texts(texts, part_type):
                del item[field]
            return texts, raw
    if item.get("summary") == []:
        del item["summary"]
    return (), False


def read_reasoning(fields: Fields, losses: Losses) -> tuple[list[Reasoning], list[SealedItem]]:
    """The thought of an input item, and the seals it carries for things that stand elsewhere."""
    at = fields.path
    value = fields.maybe_text("encrypted_content")
    extras = fields.rest()
    form = "" if fields.has("summary") else NO_SUMMARY
    for field in PART_TYPE:
        listed = fields.maybe_list(field)
        if listed is not None:
            extras[field] = listed
    parts, raw = settle_parts(extras)
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


def encrypted_content(seal: Seal | None, parts: Sequence[str], *, redacted: bool) -> str:
    """What goes into the field that clients echo: our own seals bare, those of others wrapped.

    Thought that nobody sealed gets an empty envelope: without one it would come back looking like OpenAI's.
    """
    if seal is None:
        return write_envelope([])
    if seal.issuer == NAME:
        return seal.value
    return write_envelope([SealedItem(kind="reasoning", seal=seal, parts=tuple(parts), redacted=redacted)])


def is_carrier(block: Reasoning) -> bool:
    """Whether a block only brings the seal of another: of a call, or of the text before it."""
    return block.form == TEXT_CARRIER or block.form.startswith(CALL_CARRIER)


def carried_by(carrier: Reasoning, seal: Seal) -> SealedItem:
    if carrier.form == TEXT_CARRIER:
        return SealedItem(kind="text", seal=seal)
    return SealedItem(kind="call", seal=seal, call_id=carrier.form.removeprefix(CALL_CARRIER))


def spell_reasoning(block: Reasoning, *, own: bool) -> Extras:
    """A reasoning item without id, status and seal."""
    field = "content" if own and block.raw else "summary"
    item: Extras = {"type": "reasoning"}
    if not own or block.form != NO_SUMMARY:
        item["summary"] = []
    if block.parts:
        item[field] = spell_texts(block.parts, PART_TYPE[field])
    return item
