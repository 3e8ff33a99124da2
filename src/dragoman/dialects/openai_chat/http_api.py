"""The HTTP side of the Chat Completions API: paths, headers, rate limits, token counts."""

from dragoman.dialects.http_api import READ, V1, EndpointPattern, HttpApi
from dragoman.dialects.interfaces import CountFormat, HistoryFields
from dragoman.dialects.openai_errors import OPENCODE_RULE
from dragoman.dialects.openai_rate_limits import CHAT_RATE_LIMITS


class ChatHttpApi(HttpApi):
    """Paths and headers of the Chat Completions API."""

    endpoints = (
        EndpointPattern(rf"{V1}/chat/completions", "turn"),
        EndpointPattern(rf"{V1}/models", "models", READ),
        EndpointPattern(rf"{V1}/models/(?P<model>.+)", "model", READ),
    )
    turn_path = "chat/completions"
    agent_rules = (OPENCODE_RULE,)
    forwarded_headers = ("openai-organization", "openai-project")
    stream_bytes_per_token = 100
    telemetry_provider = "openai"
    rate_limits = CHAT_RATE_LIMITS


HTTP_API = ChatHttpApi()

#: The API has no endpoint for token counts; the answer has the form of OpenAI's other API.
HISTORY = HistoryFields(
    conversation="messages",
    independent=frozenset({"metadata", "user"}),
    tools=frozenset({"tools", "functions"}),
)

COUNTING = CountFormat(
    tokenizer="open", write_answer=lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens}
)
