"""The rate-limit headers of OpenAI's two APIs, Chat Completions and Responses."""

import re

from dragoman.dialects.rate_limits import RateLimitFormat

#: Headers of OpenAI that its clients may see.
_FORWARDED = r"x-ratelimit-[a-z0-9-]{1,60}|openai-(?:processing-ms|version)"


def _build_format(*further: str) -> RateLimitFormat:
    """The format of one of the APIs. `further`: patterns of headers that only this API has."""
    return RateLimitFormat(
        vendor="openai",
        name="x-ratelimit-{part}-{unit}",
        reset="duration",
        forwarded=re.compile("|".join((_FORWARDED, *further))),
    )


CHAT_RATE_LIMITS = _build_format()
# Codex reads these further headers, if a server sends them.
RESPONSES_RATE_LIMITS = _build_format(r"x-codex-[a-z0-9-]{1,60}", "x-models-etag", "x-reasoning-included")
