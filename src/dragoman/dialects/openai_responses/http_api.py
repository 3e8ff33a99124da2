"""The HTTP side of the Responses API: paths, headers, rate limits, token counts."""

from dragoman.dialects.http_api import READ, V1, AgentRule, EndpointPattern, HttpApi
from dragoman.dialects.interfaces import CountFormat, HistoryFields
from dragoman.dialects.openai_errors import OPENCODE_RULE
from dragoman.dialects.openai_rate_limits import RESPONSES_RATE_LIMITS


class ResponsesHttpApi(HttpApi):
    """Paths and headers of the Responses API, also those of its stored responses."""

    endpoints = (
        EndpointPattern(rf"{V1}/responses", "turn", ("POST", "GET")),
        EndpointPattern(rf"{V1}/responses/input_tokens", "count"),
        EndpointPattern(rf"{V1}/responses/compact", "compact"),
        EndpointPattern(rf"{V1}/responses/(?P<id>[^/]+)/cancel", "cancel"),
        EndpointPattern(rf"{V1}/responses/(?P<id>[^/]+)/submit_tool_outputs", "tool_outputs"),
        EndpointPattern(rf"{V1}/responses/(?P<id>[^/]+)", "response", ("GET", "DELETE")),
        EndpointPattern(rf"{V1}/responses/(?P<id>[^/]+)/input_items", "input_items", READ),
    )
    error_prefixes = ("/v1/responses",)
    turn_path = "responses"
    # Codex repeats a request up to 30 times after a 5xx, and replaces the message of a 500, a 503 and a used
    # quota by its own. It shows the message of a 400 with this code at once.
    agent_rules = (
        AgentRule(
            "codex",
            frozenset({"unreachable", "misconfigured", "billing", "quota"}),
            "invalid_request",
            400,
            "invalid_prompt",
        ),
        OPENCODE_RULE,
    )
    forwarded_headers = ("openai-organization", "openai-project", "openai-beta", "session-id", "thread-id")
    stream_bytes_per_token = 80
    telemetry_provider = "openai"
    rate_limits = RESPONSES_RATE_LIMITS


HTTP_API = ResponsesHttpApi()

HISTORY = HistoryFields(
    conversation="input",
    independent=frozenset({"instructions", "metadata", "client_metadata"}),
    system=frozenset({"instructions"}),
)

COUNTING = CountFormat(
    tokenizer="gpt", write_answer=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens}
)
