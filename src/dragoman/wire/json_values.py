"""Counts the values of a JSON text before it is decoded.

Decoding holds the interpreter, so that a thread does not help: a text of 50 MB with millions of values stops
all other work for seconds. A scan takes a small part of that time, piece by piece.
"""

#: The most values of one text. The largest sessions of agents have some ten thousand.
MAX_VALUES = 500_000
#: Bytes. Shorter texts are not scanned: they are decoded in a fraction of a second with any content.
MIN_SCANNED = 1024 * 1024
#: Bytes that are scanned at a time. Other threads can run in between.
PIECE = 1024 * 1024


def has_too_many_values(
    data: bytes, most: int = MAX_VALUES, *, shortest: int = MIN_SCANNED, piece: int = PIECE
) -> bool:
    """Whether a JSON text has more than `most` values: its commas and opening brackets are counted.

    The answer for a text that is no JSON has no meaning.
    """
    if len(data) < shortest or _count_marks(data) <= most:
        return False
    # The texts of an agent hold these marks too: code is full of them. They do not count.
    found, start, is_inside = 0, 0, False
    while start < len(data) and found <= most:
        part = data[start : start + piece]
        if (len(part) - len(part.rstrip(b"\\"))) % 2:
            # The character that the last backslash escapes.
            part += data[start + piece : start + piece + 1]
        start += len(part)
        parts = part.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        found += _count_marks(b"".join(parts[is_inside::2]))
        is_inside ^= len(parts) % 2 == 0
    return found > most


def _count_marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
