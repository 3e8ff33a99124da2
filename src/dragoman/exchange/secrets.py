"""Keeps a provider's secrets out of what its own errors repeat.

Only errors are looked at: an answer may well hold such a text because the agent is working on the file it
stands in.
"""

import msgspec

from dragoman.config.model import Provider
from dragoman.hub.errors import Failure, FailureKind
from dragoman.telemetry.redaction import MASK

#: Shorter values are no secrets; hiding them would make holes in every sentence.
SHORTEST = 6

#: What an upstream says about the gateway's key is no news about the client's.
_ABOUT_THE_KEY: frozenset[FailureKind] = frozenset({"authentication", "permission", "billing"})


class Secrets:
    """The secrets of one provider."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider.name
        values = [*provider.keys, *provider.headers.values()]
        texts = {value.reveal() for value in values if len(value.reveal()) >= SHORTEST}
        # A longer one may contain a shorter one.
        self._texts = sorted(texts, key=len, reverse=True)
        self._bytes = [text.encode("utf-8", "replace") for text in self._texts]

    def hidden(self, text: str) -> str:
        for secret in self._texts:
            if secret in text:
                text = text.replace(secret, MASK)
        return text

    def hidden_bytes(self, data: bytes) -> bytes:
        for secret in self._bytes:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        return data

    def told(self, failure: Failure) -> Failure:
        """The failure as clients and logs may see it, saying whose key it is about."""
        message = self.hidden(failure.message)
        if failure.kind in _ABOUT_THE_KEY:
            message = f"provider {self._provider} refuses the gateway's key: {message}"
        return msgspec.structs.replace(
            failure,
            message=message,
            code=self.hidden(failure.code),
            param=self.hidden(failure.param),
            raw_type=self.hidden(failure.raw_type),
        )
