"""The HTTP side of the Gemini API, with the paths of Vertex AI, and its token counts."""

import re
from collections.abc import Sequence
from urllib.parse import parse_qs, quote

from dragoman.dialects.http_api import READ, AgentRule, EndpointPattern, HttpApi, UpstreamPath
from dragoman.dialects.interfaces import CountFormat, HistoryFields, Json
from dragoman.hub.errors import ClientProtocolError
from dragoman.providers.profile import Profile
from dragoman.wire.fields import json_type

#: The version segment may be missing: LiteLLM and aider leave it out behind a base URL of their own.
_VERSION = r"(?:/v1(?:beta1?|alpha)?){0,2}(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/[^/]+)?"
_MODEL = rf"{_VERSION}/(?:models|tunedModels)/(?P<model>.+)"

#: Names with these beginnings are paths of the API already; see `t_model` of google-genai.
_RESOURCES = ("models/", "tunedModels/", "publishers/", "projects/")

#: The fields in which clients may wrap the request whose tokens are counted.
_COUNT_WRAPPERS = ("generateContentRequest", "generate_content_request")

#: Gemini CLI shows an error in a stream that ends well, and takes a broken stream for fatal.
_READS_STREAM_ERRORS = "GeminiCLI"

#: The end of an address that is not the API's root: `/models`, or a model with its method.
_ENDPOINT = re.compile(r"/models(?:/[^/:]+(?::[A-Za-z]+)?)?$")


class GeminiHttpApi(HttpApi):
    """Paths that name the model and the method, key headers, and model lists of Google's API."""

    endpoints = (
        EndpointPattern(rf"{_MODEL}:generateContent", "turn"),
        EndpointPattern(rf"{_MODEL}:streamGenerateContent", "stream"),
        EndpointPattern(rf"{_MODEL}:countTokens", "count"),
        EndpointPattern(rf"{_VERSION}/models", "models", READ),
        EndpointPattern(rf"{_VERSION}/models/(?P<model>.+)", "model", READ),
    )
    client_headers = ("x-goog-api-client", "x-goog-api-key")
    key_headers = ("x-goog-api-key",)
    error_prefixes = ("/v1beta", "/v1alpha")
    version = "v1beta"
    # Gemini CLI repeats a request for minutes after a 5xx. It replaces the messages about a used quota and an
    # unknown model by its own: the first advises another login. It shows the message of a 400 at once.
    agent_rules = (
        AgentRule(
            "GeminiCLI",
            frozenset({"unreachable", "misconfigured", "quota", "billing", "not_found"}),
            "misconfigured",
            400,
        ),
    )
    stream_bytes_per_token = 30
    telemetry_provider = "gcp.gemini"
    telemetry_operation = "generate_content"

    def is_error_path(self, path: str) -> bool:
        return super().is_error_path(path) or ":" in path.rpartition("/")[2]

    def wants_json_array(self, query: str) -> bool:
        return parse_qs(query).get("alt", [""])[0] != "sse"

    def must_abort_failed_stream(self, agent: str) -> bool:
        return _READS_STREAM_ERRORS not in agent

    def find_endpoint(self, path: str) -> str:
        found = _ENDPOINT.search(path)
        return found[0] if found else ""

    def build_upstream_path(self, model: str, *, stream: bool, endpoint: str = "") -> UpstreamPath:
        verb = endpoint or ("streamGenerateContent" if stream else "generateContent")
        query = "alt=sse" if stream and not endpoint else ""
        return UpstreamPath(f"{_build_model_path(model)}:{verb}", query)

    def build_key_header(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

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


def _build_model_path(model: str) -> str:
    """The path of a model. A slash in a name is escaped: the API's path has one segment for a name.

    A name with `..` could leave the API's root: it is refused.
    """
    segments = model.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        raise ClientProtocolError("expected a model's name, got a path", path="model")
    if model.startswith(_RESOURCES):
        return "/".join(quote(segment, safe="@") for segment in segments)
    return f"models/{quote(model, safe='@')}"


HTTP_API = GeminiHttpApi()


def _read_count_body(body: Json) -> Json:
    for name in _COUNT_WRAPPERS:
        if name in body:
            inner = body[name]
            if not isinstance(inner, dict):
                raise ClientProtocolError(f"expected an object, got {json_type(inner)}", path=name)
            return inner
    return body


def _write_count(tokens: int) -> Json:
    return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}


_SYSTEM = frozenset({"systemInstruction", "system_instruction"})
HISTORY = HistoryFields(conversation="contents", independent=_SYSTEM, system=_SYSTEM)

COUNTING = CountFormat(tokenizer="gemini", read_body=_read_count_body, write_answer=_write_count)
