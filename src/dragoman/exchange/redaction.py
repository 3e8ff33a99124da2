"""Removes a provider's secrets from its error texts.

Only errors are changed: an answer may contain such a text because the agent works on the file with the key.
"""

import msgspec

from dragoman.config.provider import Provider
from dragoman.hub.errors import Failure, FailureKind
from dragoman.telemetry.redaction import MASK
from dragoman.wire.sse import Frame, Output, RawEvents

#: Characters. Shorter values are no secrets, and masking them would damage ordinary words.
MIN_LENGTH = 6

#: Failures that concern the gateway's key, not the client's.
_ABOUT_THE_KEY: frozenset[FailureKind] = frozenset({"authentication", "permission", "billing"})


class Redactor:
    """Knows the secrets of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider.name
        values = [*provider.keys, *provider.headers.values()]
        texts = {value.reveal() for value in values if len(value.reveal()) >= MIN_LENGTH}
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
            message = f"provider {self._provider} refuses the gateway's key: {message}"
        return msgspec.structs.replace(
            failure,
            message=message,
            code=self.redact(failure.code),
            param=self.redact(failure.param),
            raw_type=self.redact(failure.raw_type),
        )

    def _redact_frame(self, frame: Frame) -> Frame:
        return Frame(frame.event, self._redact_bytes(frame.data))

    def _redact_bytes(self, data: bytes) -> bytes:
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        return data
