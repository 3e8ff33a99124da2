"""The HTTP side of the Chat Completions API: paths, headers, pings, rate limits."""

import re

from dragoman.dialects.http_api import READ, V1, EndpointPattern, HttpApi
from dragoman.dialects.rate_limits import RateLimitFormat


class ChatHttpApi(HttpApi):
    endpoints = (
        EndpointPattern(rf"{V1}/chat/completions", "turn"),
        EndpointPattern(rf"{V1}/models", "models", READ),
        EndpointPattern(rf"{V1}/models/(?P<model>.+)", "model", READ),
    )
    # Comments are the only bytes between chunks that all Chat clients ignore.
    ping = b": keep-alive\n\n"
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


HTTP_API = ChatHttpApi()
