"""The HTTP surface of the Gemini API, with the paths of Vertex AI."""

from collections.abc import Sequence

from dragoman.dialects.base import Json
from dragoman.dialects.surface import READ, EndpointPattern, Surface
from dragoman.providers.profile import Profile

_VERSION = r"(?:/v1(?:beta1?|alpha)?){1,2}(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/[^/]+)?"
_MODEL = rf"{_VERSION}/(?:models|tunedModels)/(?P<model>.+)"

#: Gemini CLI shows an error in a stream that ends well, and takes a broken stream for fatal.
_READS_STREAM_ERRORS = "GeminiCLI"


class GeminiSurface(Surface):
    endpoints = (
        EndpointPattern(rf"{_MODEL}:generateContent", "turn"),
        EndpointPattern(rf"{_MODEL}:streamGenerateContent", "stream"),
        EndpointPattern(rf"{_MODEL}:countTokens", "count"),
        EndpointPattern(rf"{_VERSION}/models", "models", READ),
        EndpointPattern(rf"{_VERSION}/models/(?P<model>.+)", "model", READ),
    )
    client_headers = ("x-goog-api-client", "x-goog-api-key")
    error_prefixes = ("/v1beta", "/v1alpha")
    ping = b""

    def is_error_path(self, path: str) -> bool:
        return super().is_error_path(path) or ":" in path.rpartition("/")[2]

    def must_abort_failed_stream(self, agent: str) -> bool:
        return _READS_STREAM_ERRORS not in agent

    def describe_model(self, name: str, profile: Profile) -> Json:
        limits = {
            "inputTokenLimit": profile.facts.context_tokens,
            "outputTokenLimit": profile.facts.max_output_tokens,
        }
        return {
            "name": f"models/{name}",
            "baseModelId": name,
            "version": "1",
            "displayName": name,
            "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
            **{key: limit for key, limit in limits.items() if limit},
        }

    def list_models(self, names: Sequence[str], entries: list[Json]) -> Json:
        return {"models": entries}


SURFACE = GeminiSurface()
