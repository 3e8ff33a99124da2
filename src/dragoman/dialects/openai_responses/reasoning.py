"""Reads and writes reasoning items and the seals in them.

A reasoning item holds summaries of the reasoning or the reasoning itself, and optionally all of it encrypted.
Clients send `encrypted_content` back, so this field also carries the seals of other vendors, in an envelope.
"""

from collections.abc import Sequence

from dragoman.dialects.openai_responses.names import NAME
from dragoman.hub.blocks import Extras, Reasoning
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

#: The form of an item without the member `summary`.
NO_SUMMARY = "no-summary"

#: The form of reasoning from another vendor that a client sent back without its seal.
UNSEALED = "unsealed"

#: The type of the parts in each member that holds text.
PART_TYPE = {"summary": "summary_text", "content": "reasoning_text"}


def read_texts(value: object, part_type: str) -> tuple[str, ...]:
    """The texts of the parts of this type in an array."""
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
    """Take the item's texts, and whether they are the reasoning itself. All other members stay in the item.

    Clients show the summary, so it is preferred. Reasoning beside it is for this dialect alone.
    """
    for field, part_type in PART_TYPE.items():
        texts = read_texts(item.get(field), part_type)
        if texts:
            if item[field] == write_texts(texts, part_type):
                del item[field]
            return texts, field == "content"
    if item.get("summary") == []:
        del item["summary"]
    return (), False


def read_reasoning(fields: Fields, losses: Losses) -> tuple[list[Reasoning], list[SealedItem]]:
    """The reasoning of an input item, and the seals in it that belong to calls and texts."""
    at = fields.path
    value = fields.maybe_text("encrypted_content")
    extras = fields.rest()
    form = "" if fields.has("summary") else NO_SUMMARY
    for field in PART_TYPE:
        parts_list = fields.maybe_list(field)
        if parts_list is not None:
            extras[field] = parts_list
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
    blocks = [
        Reasoning(
            parts=item.parts or parts, seal=item.seal, redacted=item.redacted, raw=raw, at=at, extras=extras
        )
        for item in carried
        if item.kind == "reasoning"
    ]
    if not blocks and parts:
        blocks = [Reasoning(parts=parts, raw=raw, form=UNSEALED, at=at, extras=extras)]
    return blocks, [item for item in carried if item.kind != "reasoning"]


def write_encrypted(seal: Seal | None, parts: Sequence[str], *, redacted: bool) -> str:
    """The value of `encrypted_content`: OpenAI's own seal as it is, a seal of another vendor in an envelope.

    Reasoning without a seal gets an empty envelope. Without one, a client would return it as OpenAI's own.
    """
    if seal is None:
        return write_envelope([])
    if seal.issuer == NAME:
        return seal.value
    return write_envelope([SealedItem(kind="reasoning", seal=seal, parts=tuple(parts), redacted=redacted)])


def is_carrier(block: Reasoning) -> bool:
    """Whether a block only carries the seal of another one: of a call, or of the text before it."""
    return block.form == TEXT_CARRIER or block.form.startswith(CALL_CARRIER)


def build_sealed_item(carrier: Reasoning, seal: Seal) -> SealedItem:
    """The envelope item for `seal`.

    `carrier`: the reasoning block that transports the seal of a text or call.
    """
    if carrier.form == TEXT_CARRIER:
        return SealedItem(kind="text", seal=seal)
    return SealedItem(kind="call", seal=seal, call_id=carrier.form.removeprefix(CALL_CARRIER))


def write_reasoning(block: Reasoning, *, same_dialect: bool) -> Extras:
    """A reasoning item without id, status and seal."""
    field = "content" if same_dialect and block.raw else "summary"
    item: Extras = {"type": "reasoning"}
    if not same_dialect or block.form != NO_SUMMARY:
        item["summary"] = []
    if block.parts:
        item[field] = write_texts(block.parts, PART_TYPE[field])
    return item
