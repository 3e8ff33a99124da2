"""The HTTP side of a dialect, on both sides: what clients call, and how an upstream is called.

`HttpApi` has the defaults; each dialect's `http_api.py` has a subclass with what its API does differently.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from dragoman.dialects.interfaces import Json
from dragoman.dialects.rate_limits import BudgetStanding, RateLimitFormat
from dragoman.hub.errors import Failure, FailureKind
from dragoman.providers.profile import Profile

#: Response headers with the request's id at servers that imitate a dialect, after the dialect's own.
REQUEST_ID_HEADERS = ("request-id", "x-request-id")

#: `turn`: a model's turn. `stream`: a turn that is always streamed. `models`, `model`: what can be asked for.
#: `usage`: what the client's key has spent. `settings`: settings for the agent. `telemetry`: what the agent
#: reports. The others are those of the Responses API.
EndpointName = Literal[
    "turn",
    "stream",
    "count",
    "models",
    "model",
    "usage",
    "settings",
    "telemetry",
    "compact",
    "cancel",
    "tool_outputs",
    "response",
    "input_items",
]

POST = ("POST",)
READ = ("GET", "HEAD")

#: Users write addresses by hand, so a version segment that is missing or doubled is accepted.
V1 = "(?:/v1){0,2}"

#: A model's creation time is required by some APIs. The gateway knows names only, so it is constant.
CREATED = 1_700_000_000
CREATED_TEXT = "2023-11-14T22:13:20Z"


class EndpointPattern(NamedTuple):
    """A path as a regular expression, with the groups `model` and `id` where it has them."""

    pattern: str
    name: EndpointName
    methods: tuple[str, ...] = POST


class UpstreamPath(NamedTuple):
    """The path of a request to an upstream, below the version segment, and its query."""

    path: str
    query: str = ""


class AgentRule(NamedTuple):
    """How an agent must get failures of some kinds so that it shows their message at once.

    Agents replace the message of some statuses by a text of their own, and repeat a request for a minute
    after others.
    """

    #: The beginning of the agent's `user-agent`.
    agent: str
    #: The kinds of failure.
    kinds: frozenset[FailureKind]
    #: The kind, the status and the code that the agent gets instead.
    kind: FailureKind
    status: int
    code: str = ""


class HttpApi:
    """What a dialect's HTTP API looks like to clients, and to the gateway as a client of an upstream."""

    endpoints: tuple[EndpointPattern, ...] = ()
    #: Request headers that only clients of this dialect send.
    client_headers: tuple[str, ...] = ()
    #: Request headers in which clients send their key, besides `authorization`.
    key_headers: tuple[str, ...] = ()
    #: The response header with the request's id.
    request_id_header = "x-request-id"
    rate_limits: RateLimitFormat | None = None
    agent_rules: tuple[AgentRule, ...] = ()
    #: The version segment of an upstream's address (empty: none), and the path of a turn below it.
    version = "v1"
    turn_path = ""
    #: Client headers that an upstream of this dialect receives.
    forwarded_headers: tuple[str, ...] = ()
    #: Values of forwarded headers that an upstream needs also if the client sends none.
    default_headers: Mapping[str, str] = {}
    #: Bytes of an upstream's stream per output token, with all framing: the high end of what vendors send.
    stream_bytes_per_token = 4
    #: `gen_ai.provider.name` and `gen_ai.operation.name` of OpenTelemetry's conventions.
    telemetry_provider = "_OTHER"
    telemetry_operation = "chat"
    #: Beginnings of paths whose errors are written in this dialect even if they are no endpoint.
    error_prefixes: tuple[str, ...] = ()

    def is_error_path(self, path: str) -> bool:
        """Whether an error for this unknown path is written in this dialect."""
        return path.startswith(self.error_prefixes) if self.error_prefixes else False

    def wants_json_array(self, query: str) -> bool:
        """Whether the client of a `stream` endpoint expects one JSON array instead of server-sent events."""
        return False

    def must_abort_failed_stream(self, agent: str) -> bool:
        """Whether a failed stream must break off because the client ignores an error in it."""
        return False

    def find_request_id(self, headers: Mapping[str, str]) -> str:
        """The id of a request in the headers of an upstream's reply; empty if it has none."""
        for name in (self.request_id_header, *REQUEST_ID_HEADERS):
            if name in headers:
                return headers[name]
        return ""

    def has_long_context(self, headers: Mapping[str, str]) -> bool:
        """Whether the headers ask an upstream for a longer context window than the model usually has."""
        return False

    def adapt_failure(self, failure: Failure, agent: str) -> Failure:
        """The failure as this agent shows it; unchanged for all other clients."""
        for rule in self.agent_rules:
            if agent.startswith(rule.agent) and failure.kind in rule.kinds:
                return msgspec.structs.replace(
                    failure, kind=rule.kind, status=rule.status, code=rule.code, raw_type=""
                )
        return failure

    def find_endpoint(self, path: str) -> str:
        """The path of an endpoint at the end of an address's path; empty if it is only the API's root.

        Users copy whole endpoints from documentation where the root is expected.
        """
        tails = (f"/{tail}" for tail in (self.turn_path, "models") if tail)
        return next((tail for tail in tails if path.endswith(tail)), "")

    def build_upstream_path(self, model: str, *, stream: bool, endpoint: str = "") -> UpstreamPath:
        """The path of a turn, or of the endpoint below it, at an upstream."""
        return UpstreamPath(f"{self.turn_path}{endpoint}")

    def build_key_header(self, key: str) -> dict[str, str]:
        """The header with the key for an upstream."""
        return {"authorization": f"Bearer {key}"}

    def write_budget(self, standing: BudgetStanding, now: float) -> dict[str, str]:
        """The response headers about the budget of the client's key."""
        return {}

    def describe_model(self, name: str, profile: Profile) -> Json:
        """One model, as the API's model list shows it."""
        owner = profile.provider or "dragoman"
        # OpenAI's list has no limits. Clients of OpenRouter read them from these fields.
        limits = {
            "context_length": profile.facts.context_tokens,
            "max_output_tokens": profile.facts.max_output_tokens,
        }
        known = {key: limit for key, limit in limits.items() if limit}
        return {"id": name, "object": "model", "created": CREATED, "owned_by": owner, **known}

    def lists_model(self, name: str, agent: str) -> bool:
        """Whether this agent lists a model of this name; if not, it gets an alias in the field `id`."""
        return True

    def list_models(self, names: Sequence[str], entries: list[Json]) -> Json:
        """The body of the model list. `entries`: the result of `describe_model` for each name."""
        return {"object": "list", "data": entries}
