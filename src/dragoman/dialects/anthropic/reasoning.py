"""Reads and writes the thinking blocks that a client sends back.

A block holds a signature of Anthropic, which stays as it is, or an envelope with the seals of another vendor.
From an envelope come reasoning blocks, and the seals of calls and texts go back to their calls and texts.
"""

import msgspec

from dragoman.dialects.anthropic.names import NAME, read_cache, take_text
from dragoman.dialects.interfaces import Json
from dragoman.hub.blocks import AnyBlock, Reasoning, Text, ToolCall
from dragoman.hub.seal import Seal, SealedItem, read_envelope
from dragoman.wire.fields import Fields

#: The field that holds the seal, for each type of thinking block.
SEAL_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}


class SealReader:
    """Reads thinking blocks, and keeps the seals of calls until their calls are read."""

    __slots__ = ("_of_calls",)

    def __init__(self) -> None:
        self._of_calls: dict[str, Seal] = {}

    def read(self, kind: str, fields: Fields, at: str, blocks: list[AnyBlock]) -> None:
        """Add the content of a thinking block to its message; `fields` has no `type` any more."""
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
            text = self._place_seal(item, text, at, blocks)
        if text:
            blocks.append(Reasoning(at=at, parts=(text,)))

    def _place_seal(self, item: SealedItem, text: str, at: str, blocks: list[AnyBlock]) -> str:
        """Give a seal of an envelope to its block. Returns the text that still belongs to no seal."""
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

    def drop(self) -> None:
        """Forget the kept seals."""
        self._of_calls.clear()

    def attach_to_calls(self, blocks: list[AnyBlock]) -> None:
        """Give the kept seals to the calls of a message."""
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


def write_reasoning(
    block: Reasoning, issuers: frozenset[str], *, same_dialect: bool, replays: bool = False
) -> Json | None:
    """Write a thinking block; None if Anthropic would reject it because it did not sign it.

    `replays`: the server requires the thinking of earlier messages and does not check signatures.
    """
    seal = block.seal
    kind = "redacted_thinking" if block.redacted else "thinking"
    written: Json = {"type": kind}
    if kind == "thinking":
        written["thinking"] = block.text
    if seal is not None and seal.issuer in issuers:
        written[SEAL_FIELDS[kind]] = seal.value
    elif seal is None and replays and block.text and not (same_dialect and block.form):
        # The field is required; there is nothing to put into it.
        written[SEAL_FIELDS["thinking"]] = ""
    elif seal is not None or not same_dialect or not block.form:
        return None
    return written
