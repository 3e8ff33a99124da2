"""Thinking blocks that a client sends back: Anthropic's own, or envelopes with what other vendors sealed.

A seal of Anthropic's travels as it is. An envelope is opened here: its thoughts become reasoning blocks, and
the seals of calls and texts return to the calls and texts they belong to.
"""

import msgspec

from dragoman.dialects.anthropic.spelling import NAME, read_cache, take_text
from dragoman.dialects.base import Json
from dragoman.hub.content import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.seal import Seal, SealedItem, read_envelope
from dragoman.wire.fields import Fields

#: Each kind of thinking block, and the field in which its seal stands.
SEAL_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}


class SealKeeper:
    """Seals of calls that were carried ahead of them."""

    __slots__ = ("_of_calls",)

    def __init__(self) -> None:
        self._of_calls: dict[str, Seal] = {}

    def read(self, kind: str, fields: Fields, at: str, blocks: list[AnyBlock]) -> None:
        """Add what a thinking block means to the blocks before it; `fields` are all but its type."""
        cache = read_cache(fields)
        text = fields.text("thinking") if kind == "thinking" else ""
        sealed = take_text(fields.rest(), SEAL_FIELDS[kind])
        items = read_envelope(sealed)
        if items is None:
            blocks.append(
                Reasoning(
                    at=at,
                    form=kind,
                    cache=cache,
                    parts=(text,) if text else (),
                    seal=Seal(NAME, "", sealed) if sealed else None,
                    redacted=kind == "redacted_thinking",
                    extras=fields.rest(),
                )
            )
            return
        for item in items:
            text = self._settle(item, text, at, blocks)
        if text:
            blocks.append(Reasoning(at=at, parts=(text,)))

    def _settle(self, item: SealedItem, text: str, at: str, blocks: list[AnyBlock]) -> str:
        """Put one carried seal where it belongs; gives back the text that no seal has claimed yet."""
        match item.kind:
            case "reasoning":
                parts = item.parts or ((text,) if text else ())
                blocks.append(Reasoning(at=at, parts=parts, seal=item.seal, redacted=item.redacted))
                return ""
            case "call":
                self._of_calls[item.call_id] = item.seal
            case "text":
                _seal_last_text(blocks, item.seal)
        return text

    def return_to_calls(self, blocks: list[AnyBlock]) -> None:
        """Give the calls of a turn the seals that were carried for them."""
        if not self._of_calls:
            return
        for position, block in enumerate(blocks):
            if isinstance(block, ToolCall):
                seal = self._of_calls.pop(block.id, None)
                if seal is not None:
                    blocks[position] = msgspec.structs.replace(block, seal=seal)


def _seal_last_text(blocks: list[AnyBlock], seal: Seal) -> None:
    for position in range(len(blocks) - 1, -1, -1):
        block = blocks[position]
        if isinstance(block, Text):
            blocks[position] = msgspec.structs.replace(block, seal=seal)
            return


def write_reasoning(block: Reasoning, issuers: frozenset[str], *, own: bool) -> Json | None:
    """None: thought that Anthropic would refuse, because nobody there has signed it."""
    seal = block.seal
    kind = "redacted_thinking" if block.redacted else "thinking"
    written: Json = {"type": kind}
    if kind == "thinking":
        written["thinking"] = block.text
    if seal is not None and seal.issuer in issuers:
        written[SEAL_FIELDS[kind]] = seal.value
    elif seal is not None or not own or not block.form:
        return None
    return written
