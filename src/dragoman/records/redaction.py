"""Masks secrets in the contents of records, before anything is written.

Only what has the form of a secret is masked: a call's id or a commit's hash must stay, because replay needs
them. A mask has the length of the secret, so that the times of a stream's pieces still fit.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import re2  # type: ignore[import-untyped]  # the package has no stubs

from dragoman.telemetry.redaction import URL_PASSWORD, VENDOR_KEY

_MASK = b"[redacted]"
#: Kinds of deltas of one stream: thinking, text, arguments.
MAX_KINDS = 5

#: A value after a name such as `api_key`: at least eight characters, with a digit and a letter.
_NAMED_VALUE = re.compile(
    rb"(?i)(?:password|passwd|secret|token|api[_-]?key|authorization)(?:\\{0,3}[\"'])?\s{0,4}[:=]\s{0,4}"
    rb"(?:\\{0,3}[\"'])?(?:bearer\s{1,4})?(?=[a-z_+/=.-]*\d)(?=[\d_+/=.-]*[a-z])([a-z0-9_+/=.-]{8,200})"
)
_WHOLE = (
    re.compile(VENDOR_KEY.pattern.encode()),
    re.compile(rb"\b(?:sk-[A-Za-z0-9]{32,}|dgm_[A-Za-z0-9]{40,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"),
    # No quote is part of it, so that the JSON around it stays whole.
    re.compile(
        rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\+[nr])*"
        rb"(?:-----END [A-Z ]{0,20}KEY-----)?"
    ),
)
#: Whether there may be a secret. RE2 reads each byte once, which is ten times faster than all the patterns.
_SUSPICION = re2.compile(
    VENDOR_KEY.pattern.encode()
    + rb"|sk-[A-Za-z0-9]{32}|dgm_[A-Za-z0-9]{40}|eyJ[\w-]{10,}\.eyJ|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"]+:[^\s/@\"]+@"
    + rb"|(?i:password|passwd|secret|token|api[_-]?key|authorization)(?:\\{0,3}[\"'])?\s{0,4}[:=]\s{0,4}"
    + rb"(?:\\{0,3}[\"'])?(?i:bearer\s{1,4})?[A-Za-z0-9_+/=.-]{8}"
)
_PASSWORD = re.compile(URL_PASSWORD.pattern.encode())
#: The strings of a stream that grow from event to event.
_DELTA_NAME = (
    rb'"(text|partial_json|thinking|delta|content|reasoning_content|reasoning|arguments|input)"\s*:\s*"'
)
_DELTA_START = re.compile(_DELTA_NAME)
#: Possessive: three times faster than an alternative per character.
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+')
_DELTA = re.compile(_DELTA_NAME + b"(" + _STRING.pattern + b')"')


def redact_content(data: bytes, secrets: Iterable[bytes] = ()) -> bytes:
    """The data with masks of the same length. `secrets`: values that are known, such as providers' keys."""
    for secret in secrets:
        if secret in data:
            data = data.replace(secret, _build_mask(len(secret)))
    if _SUSPICION.search(data) is None:
        return data
    for pattern in _WHOLE:
        data = pattern.sub(lambda found: _build_mask(len(found[0])), data)
    data = _NAMED_VALUE.sub(lambda found: found[0][: -len(found[1])] + _build_mask(len(found[1])), data)
    return _PASSWORD.sub(lambda found: found[1] + _build_mask(len(found[0]) - len(found[1])), data)


def redact_stream(data: bytes, secrets: Sequence[bytes] = ()) -> bytes:
    """The same for a stream of events: also secrets that are cut across several deltas."""
    reduced = _reduce(data)
    is_known = reduced is None or any(secret in reduced for secret in secrets)
    if is_known or _SUSPICION.search(reduced) is not None:
        return _redact_deltas(data, secrets)
    return data


def _reduce(data: bytes) -> bytes | None:
    """The texts of a stream, joined, and once each what is between them; None if all must be searched.

    The events of a long text differ in one string. To search the rest once takes a fraction of the time.
    """
    texts: list[bytes] = []
    rest = data
    for _ in range(MAX_KINDS):
        mark = _DELTA_START.search(rest)
        if mark is None:
            return b"\n".join((rest, *texts))
        first, *parts = rest.split(mark[0])
        cut = [_cut_string(part) if b"\\" in part else part.partition(b'"') for part in parts]
        texts.append(b"".join([text for text, _, _ in cut]))
        between = Counter([end for _, _, end in cut])
        if any(count > 1 and _DELTA_START.search(end) for end, count in between.items()):
            # It has texts of another kind, which would be searched once instead of joined.
            return None
        rest = b"\n".join((first, *between))
    return None


def _cut_string(part: bytes) -> tuple[bytes, bytes, bytes]:
    """What begins in a JSON string, cut at the quote that ends the string."""
    text = _STRING.match(part)
    at = text.end() if text is not None else 0
    return part[:at], part[at : at + 1], part[at + 1 :]


def _redact_deltas(data: bytes, secrets: Iterable[bytes]) -> bytes:
    data = redact_content(data, secrets)
    texts: dict[bytes, list[tuple[int, bytes]]] = {}
    for found in _DELTA.finditer(data):
        texts.setdefault(found[1], []).append((found.start(2), found[2]))
    changed: bytearray | None = None
    for pieces in texts.values():
        joined = b"".join(text for _, text in pieces)
        masked = redact_content(joined, secrets)
        if masked == joined:
            continue
        changed = bytearray(data) if changed is None else changed
        position = 0
        for start, text in pieces:
            changed[start : start + len(text)] = masked[position : position + len(text)]
            position += len(text)
    return data if changed is None else bytes(changed)


def _build_mask(length: int) -> bytes:
    return _MASK[:length].ljust(length, b"*")
