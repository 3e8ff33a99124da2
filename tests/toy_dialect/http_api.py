"""The HTTP side of the toy API."""

import re
from collections.abc import Sequence

from dragoman.dialects.http_api import READ, EndpointPattern, HttpApi
from dragoman.dialects.interfaces import CountFormat, HistoryFields, Json
from dragoman.dialects.rate_limits import RateLimitFormat
from dragoman.providers.profile import Profile


class ToyHttpApi(HttpApi):
    endpoints = (
        EndpointPattern("/toy/chat", "turn"),
        EndpointPattern("/toy/count", "count"),
        EndpointPattern("/toy/models", "models", READ),
        EndpointPattern("/toy/models/(?P<model>.+)", "model", READ),
    )
    key_headers = ("x-toy-key",)
    error_prefixes = ("/toy",)
    request_id_header = "x-toy-request"
    version = "toy"
    turn_path = "chat"
    rate_limits = RateLimitFormat(
        vendor="toy",
        name="x-toy-{part}-{unit}",
        reset="duration",
        forwarded=re.compile("x-toy-(?:limit|remaining|reset)-[a-z]{1,20}"),
    )

    def build_key_header(self, key: str) -> dict[str, str]:
        return {"x-toy-key": key}

    def describe_model(self, name: str, profile: Profile) -> Json:
        return {"model": name, "served_by": profile.provider}

    def list_models(self, names: Sequence[str], entries: list[Json]) -> Json:
        return {"models": entries}


HTTP_API = ToyHttpApi()

HISTORY = HistoryFields(conversation="lines")
COUNTING = CountFormat(tokenizer="open", write_answer=lambda tokens: {"tokens": tokens})
