"""The HTTP surface of the Chat Completions API."""

import re

from dragoman.dialects.rate_limits import RateLimitFormat
from dragoman.dialects.surface import READ, V1, EndpointPattern, Surface


class ChatSurface(Surface):
    endpoints = (
        EndpointPattern(rf"{V1}/chat/completions", "turn"),
        EndpointPattern(rf"{V1}/models", "models", READ),
        EndpointPattern(rf"{V1}/models/(?P<model>.+)", "model", READ),
    )
    turn_path = "chat/completions"
    forwarded_headers = ("openai-organization", "openai-project")
    stream_bytes_per_token = 100
    telemetry_provider = "openai"
    rate_limits = RateLimitFormat(
        vendor="openai",
        name="x-ratelimit-{part}-{unit}",
        reset="duration",
        forwarded=re.compile(r"x-ratelimit-[a-z0-9-]{1,60}|openai-(?:processing-ms|version)"),
    )


SURFACE = ChatSurface()
