"""The HTTP side of the Messages API: paths, headers, rate limits, model lists, token counts."""

from collections.abc import Mapping, Sequence

from dragoman.dialects.anthropic.rate_limits import RATE_LIMITS, write_budget_headers
from dragoman.dialects.http_api import CREATED_TEXT, READ, V1, AgentRule, EndpointPattern, HttpApi
from dragoman.dialects.interfaces import CountFormat, HistoryFields, Json
from dragoman.dialects.rate_limits import BudgetStanding
from dragoman.providers.profile import Profile


class AnthropicHttpApi(HttpApi):
    """Paths, key and version headers, and model lists of Anthropic's API."""

    endpoints = (
        EndpointPattern(rf"{V1}/messages", "turn"),
        EndpointPattern(rf"{V1}/messages/count_tokens", "count"),
        # Claude Code shows the answer with `/usage`.
        EndpointPattern("/api/oauth/usage", "usage", READ),
        EndpointPattern("/managed/settings", "settings", READ),
        EndpointPattern("/v1/(?:metrics|logs|traces)", "telemetry"),
    )
    client_headers = ("anthropic-version",)
    key_headers = ("x-api-key",)
    error_prefixes = ("/v1/messages",)
    request_id_header = "request-id"
    turn_path = "messages"
    # Claude Code replaces the message of a 404 by "There's an issue with the selected model". After a 400 it
    # repeats the request without parts of it. It shows the message of any other 4xx.
    agent_rules = (AgentRule("claude-cli/", frozenset({"not_found"}), "not_found", 424),)
    forwarded_headers = ("anthropic-beta", "anthropic-version", "x-claude-code-session-id")
    default_headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}
    stream_bytes_per_token = 30
    telemetry_provider = "anthropic"
    rate_limits = RATE_LIMITS

    def has_long_context(self, headers: Mapping[str, str]) -> bool:
        # The beta `context-1m-2025-08-07` gives Sonnet 4 and 4.5 a million tokens instead of 200,000.
        return "context-1m" in headers.get("anthropic-beta", "")

    def build_key_header(self, key: str) -> dict[str, str]:
        # Anthropic accepts OAuth tokens as bearer tokens only, and API keys in this header only.
        is_token = key.startswith("sk-ant-oat")
        return super().build_key_header(key) if is_token else {"x-api-key": key}

    def write_budget(self, standing: BudgetStanding, now: float) -> dict[str, str]:
        return write_budget_headers(standing, now)

    def describe_model(self, name: str, profile: Profile) -> Json:
        limits = {
            "max_input_tokens": profile.facts.context_tokens,
            "max_tokens": profile.facts.max_output_tokens,
        }
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": CREATED_TEXT,
            **{key: limit for key, limit in limits.items() if limit},
        }

    def lists_model(self, name: str, agent: str) -> bool:
        # Claude Code skips every other model of a gateway.
        return not agent.startswith("claude-c") or any(
            word in name.lower() for word in ("claude", "anthropic")
        )

    def list_models(self, names: Sequence[str], entries: list[Json]) -> Json:
        first, last = (names[0], names[-1]) if names else (None, None)
        return {"data": entries, "has_more": False, "first_id": first, "last_id": last}


HTTP_API = AnthropicHttpApi()


def _read_count_body(body: Json) -> Json:
    # A request needs a cap; the body of `count_tokens` has none, because there is no answer to limit.
    body.setdefault("max_tokens", 1)
    return body


HISTORY = HistoryFields(
    conversation="messages", independent=frozenset({"system", "metadata"}), system=frozenset({"system"})
)

COUNTING = CountFormat(
    tokenizer="claude", read_body=_read_count_body, write_answer=lambda tokens: {"input_tokens": tokens}
)
