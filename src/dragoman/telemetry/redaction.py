"""Removes secrets: the known ones of a provider from its errors, and text that looks like a secret.

Of a provider's replies only errors are changed: an answer may contain such a text because the agent works on
the file with the key.
"""

import re
from collections.abc import Iterable

import msgspec

from dragoman.config.provider import Provider
from dragoman.hub.errors import Failure, FailureKind
from dragoman.wire.sse import Frame, Output, RawEvents

MASK = "[redacted]"
#: A key or token of an unknown vendor: long, without spaces, letters and digits mixed.
MIN_TOKEN = 20

_TOKEN = re.compile(r"[A-Za-z0-9_+/=.-]{20,}")
URL_PASSWORD = re.compile(r"(://[^\s/:@\"]{1,64}:)[^\s/@\"]{1,128}(?=@)")
_NAMED_VALUE = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|authorization)\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)"
    r"(?:bearer\s{1,4})?[^\s\"'\\,;}]{1,200}"
)
#: Prefixes that identify a vendor's key, even if it is short or has no digit.
VENDOR_KEY = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|sk-ant-|sk-proj-|[rs]k_live_|AIza|AKIA|ASIA)"
    r"[A-Za-z0-9_-]{10,}"
)
_PRIVATE_KEY = re.compile(r"(?s)-----BEGIN [A-Z ]{0,20}PRIVATE KEY.*?(?:-----END [A-Z ]{0,20}KEY-----|\Z)")

#: Characters. Shorter values are no secrets, and masking them would damage ordinary words.
MIN_LENGTH = 6

#: Failures that concern the gateway's key, not the client's.
_ABOUT_THE_KEY: frozenset[FailureKind] = frozenset({"authentication", "permission", "billing"})


def redact(text: str) -> str:
    """Replace everything in the text that looks like a secret by `MASK`."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = VENDOR_KEY.sub(MASK, text)
    text = _NAMED_VALUE.sub(rf"\1{MASK}", text)
    text = URL_PASSWORD.sub(rf"\1{MASK}", text)
    return _TOKEN.sub(_mask_token, text)


def _mask_token(match: re.Match[str]) -> str:
    token = match[0]
    is_mixed = any(each.isdigit() for each in token) and any(each.isalpha() for each in token)
    # A file path is also long and mixed, but its parts are short.
    longest = max(map(len, re.split(r"[/.]", token)))
    return MASK if is_mixed and longest >= MIN_TOKEN else token


class Redactor:
    """Knows the secrets of one provider, and those of the client that the provider got with a request."""

    def __init__(self, provider: Provider, client_secrets: Iterable[str] = ()) -> None:
        self._owner = "client" if provider.uses_client_credential else "gateway"
        self._provider = provider.name
        values = [value.reveal() for value in (*provider.keys, *provider.headers.values())]
        texts = {value for value in (*values, *client_secrets) if len(value) >= MIN_LENGTH}
        # A longer secret may contain a shorter one.
        self._texts = sorted(texts, key=len, reverse=True)
        self._bytes = [text.encode("utf-8", "replace") for text in self._texts]

    def redact(self, text: str) -> str:
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def redact_output(self, output: Output) -> Output:
        """The last output of a failed stream without secrets."""
        if isinstance(output, RawEvents):
            return RawEvents(self._redact_bytes(output.data), tuple(map(self._redact_frame, output.added)))
        return [self._redact_frame(frame) for frame in output]

    def redact_failure(self, failure: Failure) -> Failure:
        """The failure as clients and logs may see it. It names the provider whose key was refused."""
        message = self.redact(failure.message)
        if failure.kind in _ABOUT_THE_KEY:
            message = f"provider {self._provider} refuses the {self._owner}'s key: {message}"
        return msgspec.structs.replace(
            failure,
            message=message,
            code=self.redact(failure.code),
            param=self.redact(failure.param),
            raw_type=self.redact(failure.raw_type),
            request_id=self.redact(failure.request_id),
        )

    def _redact_frame(self, frame: Frame) -> Frame:
        return Frame(frame.event, self._redact_bytes(frame.data))

    def _redact_bytes(self, data: bytes) -> bytes:
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        return data
