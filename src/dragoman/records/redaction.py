"""Masks secrets in the contents of records, before anything is written.

Only what has the form of a secret is masked: a call's id or a commit's hash must stay, because replay needs
them. A mask has the length of the secret, so that the times of a stream's pieces still fit.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import re2  # type: ignore[import-untyped]  # the package has no stubs

from dragoman.accounts.keys import ANY_KEY
from dragoman.records.compact import TEXT, TEXT_NAME, CompactStream, StreamParts, TextRun, compact_stream
from dragoman.telemetry.redaction import URL_PASSWORD, VENDOR_KEY

_MASK = b"[redacted]"

#: Names whose value is a secret: `password`, `DB_PASS`, `AWS_SECRET_ACCESS_KEY`, `Authorization`.
_NAME = (
    rb"(?:password|passwd|passphrase|_pass|secret(?:[_-]?access)?(?:[_-]?key)?|token"
    rb"|(?:api|access|private)[_-]?key|authorization)"
)
#: What stands between such a name and its value.
_BETWEEN = (
    rb"(?:\\{0,3}[\"'])?\s{0,4}[:=]\s{0,4}(?:\\{0,3}[\"'])?"
    rb"(?:(?:bearer|basic)\s{1,4})?"
)
#: A value after a name such as `api_key`: at least eight characters, with a digit and a letter. All lengths
#: are bounded: a text may consist of such names.
_NAMED_VALUE = re.compile(
    rb"(?i)"
    + _NAME
    + _BETWEEN
    + rb"(?=[a-z_+/=.-]{0,200}\d)(?=[\d_+/=.-]{0,200}[a-z])([a-z0-9_+/=.-]{8,200})"
)
#: Beginnings of vendors' keys, and how many further characters these have at least.
_LONG_KEY = (
    rb"(?:sk-|sk-or-v1-|gsk_|hf_|npm_|r8_)[A-Za-z0-9]{32}"
    rb"|(?:xai|nvapi|pplx|pypi)-[A-Za-z0-9_-]{32}|dgm_[A-Za-z0-9]{40}"
)
#: What is masked as a whole. RE2 takes the same time for every text of a length.
_WHOLE = (
    re2.compile(VENDOR_KEY.pattern.encode()),
    re2.compile(rb"\b(?:(?:" + _LONG_KEY + rb")[A-Za-z0-9_-]*|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,})"),
    # No quote is part of it, so that the JSON around it stays whole.
    re2.compile(
        rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]|\\+[nr])*"
        rb"(?:-----END [A-Z ]{0,20}KEY-----)?"
    ),
)
#: Whether there may be a secret. RE2 reads each byte once, which is ten times faster than all the patterns.
_WHOLE_SECRET = (
    VENDOR_KEY.pattern.encode()
    + rb"|eyJ[\w-]{10,}\.eyJ|-----BEGIN [A-Z ]*PRIVATE KEY|://[^\s/:@\"]+:[^\s/@\"]+@|"
    + _LONG_KEY
)
_NAMED_SECRET = rb"(?i:" + _NAME + _BETWEEN + rb")[A-Za-z0-9_+/=.-]{8}"
_SECRET = _WHOLE_SECRET + b"|" + _NAMED_SECRET
_SUSPICION = re2.compile(_SECRET)
_WHOLE_SUSPICION = re2.compile(_WHOLE_SECRET)
_NAMED_SUSPICION = re2.compile(_NAMED_SECRET)
#: The same for a stream with codes for its runs: also a text outside them, which may be a part of a secret.
_STREAM_SUSPICION = re2.compile(_SECRET + b"|" + TEXT_NAME + rb'[^"\xf8-\xff]')
_PASSWORD = re.compile(URL_PASSWORD.pattern.encode())


#: Headers of a client that may hold its own credential.
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key")
#: Bytes. Shorter values of the configuration or of a header are no secrets.
MIN_SECRET = 6
_NO_SECRET = ANY_KEY.encode()


def list_credentials(headers: Mapping[str, str]) -> list[bytes]:
    """The client's credentials in the headers of a request, which a provider may quote in its reply."""
    tokens = (headers.get(name, "").rpartition(" ")[2].encode() for name in _CREDENTIALS)
    return [token for token in tokens if len(token) >= MIN_SECRET and token != _NO_SECRET]


def redact_content(data: bytes, secrets: Iterable[bytes] = ()) -> bytes:
    """The data with masks of the same length. `secrets`: values that are known, such as providers' keys."""
    for secret in secrets:
        if data.find(secret) >= 0:
            data = data.replace(secret, _build_mask(len(secret)))
    if _SUSPICION.search(data) is None:
        return data
    has_whole = _WHOLE_SUSPICION.search(data) is not None
    for pattern in _WHOLE if has_whole else ():
        data = pattern.sub(lambda found: _build_mask(len(found[0])), data)
    data = _mask_named_values(data)
    if not has_whole:
        return data
    return _PASSWORD.sub(lambda found: found[1] + _build_mask(len(found[0]) - len(found[1])), data)


def _mask_named_values(data: bytes) -> bytes:
    """The data without values after names such as `api_key`. The slow pattern is tried where one may be."""
    parts, copied, position = [], 0, 0
    while (suspicion := _NAMED_SUSPICION.search(data, position)) is not None:
        at = suspicion.start()
        found = _NAMED_VALUE.match(data, at)
        position = at + 1 if found is None else found.end()
        if found is not None:
            parts += [data[copied : found.start(1)], _build_mask(len(found[1]))]
            copied = position
    return b"".join((*parts, data[copied:])) if parts else data


def redact_stream(
    data: bytes, secrets: Sequence[bytes] = (), runs: Sequence[TextRun] = (), clean: Collection[bytes] = ()
) -> CompactStream:
    """The compact form of a stream of events, with secrets masked, also those cut across several texts.

    `runs`: texts that the stream probably has. `clean`: texts without secrets.
    """
    parts = compact_stream(data, runs)
    if find_clean_texts(parts, secrets, clean) is None:
        parts = compact_stream(redact_texts(data, secrets))
    return parts.compact


def find_clean_texts(
    parts: StreamParts, secrets: Sequence[bytes] = (), clean: Collection[bytes] = ()
) -> list[bytes] | None:
    """The texts of a stream, joined by their fields; None if there may be a secret.

    All texts of one field are joined, because an event of another kind, such as a ping, may stand between two
    halves of a secret. The bytes around the texts of a run are searched once: those before a text in the
    first event of the run, those after it in the last one.
    """
    texts = parts.list_texts()
    searched = b"\n".join((parts.rest, *(text for text in texts if text not in clean)))
    if _STREAM_SUSPICION.search(searched) is None and not _has_any(searched, secrets):
        return texts
    all_texts = parts.list_all_texts()
    if all_texts is None:
        return None
    searched = b"\n".join((parts.rest, *(text for text in all_texts if text not in clean)))
    if _has_any(searched, secrets):
        return None
    if _SUSPICION.search(searched) is not None:
        # Code often has the form of a secret's name and value. What decides is slow, so only this is read.
        separate = b"\n".join([text for run in parts.runs for text in run.texts.split(run.code)])
        if any(redact_content(each) != each for each in (searched, separate)):
            return None
    return all_texts


def _has_any(data: bytes, secrets: Iterable[bytes]) -> bool:
    return any(data.find(secret) >= 0 for secret in secrets)


def redact_texts(data: bytes, secrets: Sequence[bytes] = ()) -> bytes:
    """A stream with masks, also where a secret is cut across several texts."""
    texts: dict[bytes, list[tuple[int, bytes]]] = {}
    for found in TEXT.finditer(data):
        texts.setdefault(found[1], []).append((found.start(2), found[2]))
    changed = bytearray(data)
    # Joined texts are first: a part of a secret may have the form of a whole one.
    for pieces in texts.values():
        joined = b"".join(text for _, text in pieces)
        masked = redact_content(joined, secrets)
        if masked == joined:
            continue
        position = 0
        for start, text in pieces:
            changed[start : start + len(text)] = masked[position : position + len(text)]
            position += len(text)
    return redact_content(bytes(changed), secrets)


def _build_mask(length: int) -> bytes:
    return _MASK[:length].ljust(length, b"*")
