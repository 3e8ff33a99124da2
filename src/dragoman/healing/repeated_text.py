"""Finds text of the client in the message of a refusal.

Servers repeat names and values of a request in their errors. A client can write there what looks like the
message of a server, and it would become a fact about the model for all clients.
"""

import re
from collections.abc import Iterator

import msgspec

#: A shorter text, or one without a space, is a name or a value that a refusal is about.
MIN_REPEATED = 6


def repeats_request(match: re.Match[str], body: bytes) -> bool:
    """Whether the matched part of a message is, or contains a part of, a text in the request.

    `body` is JSON; a body that cannot be read is compared as it is.
    """
    matched, message = _normalize(match[0]), _normalize(match.string)
    start = len(_normalize(match.string[: match.start()] + "x")) - 1
    end = start + len(matched)
    for text in map(_normalize, _list_texts(body)):
        if matched in text:
            return True
        if len(text) < MIN_REPEATED or " " not in text:
            continue
        place = message.find(text)
        while place >= 0:
            if place < end and start < place + len(text):
                return True
            place = message.find(text, place + 1)
    return False


def _normalize(text: str) -> str:
    return " ".join(text.lower().split())


def _list_texts(body: bytes) -> Iterator[str]:
    """All names and texts in the body, decoded."""
    try:
        value = msgspec.json.decode(body) if body else None
    except (ValueError, RecursionError):
        value = body.decode(errors="replace")
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
