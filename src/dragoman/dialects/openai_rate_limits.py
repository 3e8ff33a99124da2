"""The rate-limit headers of OpenAI, which Chat Completions and Responses share."""

import re

from dragoman.dialects.rate_limits import RateLimitFormat

#: Headers of OpenAI that its clients may see.
_FORWARDED = r"x-ratelimit-[a-z0-9-]{1,60}|openai-(?:processing-ms|version)"


def build_openai_rate_limits(*further: str) -> RateLimitFormat:
    """The format of one of OpenAI's APIs. `further`: patterns of headers that only this API has."""
    return RateLimitFormat(
        vendor="openai",
        name="x-ratelimit-{part}-{unit}",
        reset="duration",
        forwarded=re.compile("|".join((_FORWARDED, *further))),
    )
