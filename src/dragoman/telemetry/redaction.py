"""Removes text that looks like a secret."""

import re

MASK = "[redacted]"
#: A key or token of an unknown vendor: long, without spaces, letters and digits mixed.
MIN_TOKEN = 20

_TOKEN = re.compile(r"[A-Za-z0-9_+/=.-]{20,}")
_URL_PASSWORD = re.compile(r"(://[^\s/:@\"]{1,64}:)[^\s/@\"]{1,128}(?=@)")
_NAMED_VALUE = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|authorization)\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
    r"(?:bearer\s{1,4})?[^\s\"'\\,;}]{1,200}"
)
#: Prefixes that identify a vendor's key, even if it is short or has no digit.
_VENDOR_KEY = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-ant-|sk-proj-|[rs]k_live_|AIza|AKIA|ASIA)"
    r"[A-Za-z0-9_-]{10,}"
)
_PRIVATE_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]{0,20}PRIVATE KEY.*?(?:-----END [A-Z ]{0,20}KEY-----|\Z)")


def redact(text: str) -> str:
    """Replace everything in the text that looks like a secret by `MASK`."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _VENDOR_KEY.sub(MASK, text)
    text = _NAMED_VALUE.sub(rf"\1{MASK}", text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}", text)
    return _TOKEN.sub(_mask_token, text)


def _mask_token(match: re.Match[str]) -> str:
    token = match[0]
    is_mixed = any(each.isdigit() for each in token) and any(each.isalpha() for each in token)
    # A file path is also long and mixed, but its parts are short.
    longest = max(map(len, re.split(r"[/.]", token)))
    return MASK if is_mixed and longest >= MIN_TOKEN else token
