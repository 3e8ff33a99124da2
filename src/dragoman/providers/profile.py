"""Facts about the model at the far end, as data.

A `Profile` is what a user writes: every field may be left out. `target_of` fills the gaps from the
dialect's own facts and gives a `Target`, which the fit passes and the writers read. When the client
already speaks the target's dialect it is trusted to know what the target takes: facts that the
profile does not name then permit everything, so that nothing is changed without need.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from dragoman.hub.request import EFFORTS, Effort

ReasoningStyle = Literal["effort", "adaptive", "budget", "level", "none"]
CachingStyle = Literal["breakpoints", "key", "none"]
SystemPlace = Literal["inline", "leading"]

SAMPLING = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logit_bias",
        "logprobs",
        "verbosity",
    }
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the passes may ask about the far end. The defaults permit everything."""

    dialect: str
    provider: str = ""
    #: The model's name at the far end; empty keeps the client's.
    model: str = ""
    #: Whose seals the far end takes back.
    issuer: str = ""

    images: bool = True
    documents: bool = True
    audio: bool = True
    video: bool = True
    #: Images and documents may stand inside tool results.
    media_in_results: bool = True

    custom_tools: bool = True
    namespaces: bool = True
    #: OpenAI's client-run tools and Anthropic's typed ones are understood as such.
    client_tools: bool = True
    deferred_tools: bool = True
    hosted_tools: frozenset[str] | None = None
    strict_tools: bool = True
    #: False: function schemas must keep to Gemini's subset of OpenAPI.
    json_schema: bool = True
    tool_name_limit: int = 0
    #: Characters beyond letters, digits, `_` and `-` that a tool name may have.
    tool_name_extra: str = "*"
    call_id_limit: int = 0
    #: Some servers want ids of exactly this many letters and digits.
    call_id_exact: int = 0
    choices: frozenset[str] = frozenset({"auto", "required", "none", "named", "allowed"})
    parallel_control: bool = True
    forced_choice_while_reasoning: bool = True
    #: Tool results must directly follow their calls, whole and once each.
    strict_results: bool = True
    error_flag: bool = True

    system: SystemPlace = "inline"
    developer_role: bool = True
    alternation: bool = False
    user_first: bool = False
    prefill: bool = True

    reasoning: ReasoningStyle | None = None
    efforts: tuple[Effort, ...] = EFFORTS
    #: The reasoning text of earlier tool-call turns must be sent back, sealed or not.
    replay_reasoning: bool = False

    sampling: frozenset[str] = SAMPLING
    temperature_limit: float = 2.0
    candidates: bool = True
    stop_limit: int = 1_000
    outputs: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    caching: CachingStyle | None = None
    service_tiers: frozenset[str] | None = None

    context_tokens: int = 0
    max_output_tokens: int = 0
    #: Sent when the client names no cap and the dialect demands one.
    default_max_tokens: int = 0
    #: The name of the cap on OpenAI Chat servers.
    max_tokens_field: str = ""
    #: Ask streaming Chat servers for usage.
    stream_usage: bool = True


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known about a target; see `Target` for the meaning of each fact. None: not known."""

    dialect: str
    provider: str | None = None
    model: str | None = None
    issuer: str | None = None
    images: bool | None = None
    documents: bool | None = None
    audio: bool | None = None
    video: bool | None = None
    media_in_results: bool | None = None
    custom_tools: bool | None = None
    namespaces: bool | None = None
    client_tools: bool | None = None
    deferred_tools: bool | None = None
    hosted_tools: frozenset[str] | None = None
    strict_tools: bool | None = None
    json_schema: bool | None = None
    tool_name_limit: int | None = None
    tool_name_extra: str | None = None
    call_id_limit: int | None = None
    call_id_exact: int | None = None
    choices: frozenset[str] | None = None
    parallel_control: bool | None = None
    forced_choice_while_reasoning: bool | None = None
    strict_results: bool | None = None
    error_flag: bool | None = None
    system: SystemPlace | None = None
    developer_role: bool | None = None
    alternation: bool | None = None
    user_first: bool | None = None
    prefill: bool | None = None
    reasoning: ReasoningStyle | None = None
    efforts: tuple[Effort, ...] | None = None
    replay_reasoning: bool | None = None
    sampling: frozenset[str] | None = None
    temperature_limit: float | None = None
    candidates: bool | None = None
    stop_limit: int | None = None
    outputs: frozenset[str] | None = None
    caching: CachingStyle | None = None
    service_tiers: frozenset[str] | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    default_max_tokens: int | None = None
    max_tokens_field: str | None = None
    stream_usage: bool | None = None


#: What holds for a dialect's servers in general, when a client of another dialect comes.
DIALECT_FACTS: Mapping[str, Mapping[str, object]] = {
    "anthropic": {
        "audio": False,
        "video": False,
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "web_fetch", "code_execution"}),
        "tool_name_limit": 128,
        "tool_name_extra": "",
        "call_id_limit": 64,
        "choices": frozenset({"auto", "required", "none", "named"}),
        "forced_choice_while_reasoning": False,
        "system": "leading",
        "developer_role": False,
        "user_first": True,
        "alternation": True,
        "prefill": False,
        "reasoning": "adaptive",
        "efforts": ("low", "medium", "high", "xhigh", "max"),
        "sampling": frozenset({"temperature", "top_p", "top_k"}),
        "temperature_limit": 1.0,
        "candidates": False,
        "outputs": frozenset({"text", "json_schema"}),
        "caching": "breakpoints",
        "service_tiers": frozenset({"auto", "standard_only"}),
        "default_max_tokens": 32_000,
    },
    "openai_chat": {
        "video": False,
        "media_in_results": False,
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset(),
        "tool_name_limit": 64,
        "tool_name_extra": "",
        "call_id_limit": 40,
        "choices": frozenset({"auto", "required", "none", "named"}),
        "error_flag": False,
        "developer_role": False,
        "prefill": False,
        "reasoning": "effort",
        "sampling": SAMPLING - {"top_k", "verbosity"},
        "stop_limit": 4,
        "caching": "none",
        "service_tiers": frozenset({"auto", "default", "flex", "scale", "priority", "fast"}),
        "max_tokens_field": "max_tokens",
    },
    "openai_responses": {
        "audio": False,
        "video": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "file_search", "code_execution", "image_generation"}),
        "tool_name_limit": 64,
        "tool_name_extra": "",
        "call_id_limit": 64,
        "error_flag": False,
        "prefill": False,
        "reasoning": "effort",
        "sampling": frozenset({"temperature", "top_p", "logprobs", "verbosity"}),
        "candidates": False,
        "stop_limit": 0,
        "caching": "key",
        "service_tiers": frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    },
    "gemini": {
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "web_fetch", "code_execution"}),
        "strict_tools": False,
        "tool_name_limit": 64,
        "tool_name_extra": ".:",
        "choices": frozenset({"auto", "required", "none", "named", "allowed"}),
        "parallel_control": False,
        "error_flag": False,
        "system": "leading",
        "developer_role": False,
        "alternation": True,
        "user_first": True,
        "prefill": False,
        "reasoning": "budget",
        "efforts": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        "sampling": SAMPLING - {"logit_bias", "verbosity"},
        "stop_limit": 5,
        "caching": "none",
        "service_tiers": frozenset({"standard", "flex", "priority"}),
    },
}


def target_of(profile: Profile, source: str) -> Target:
    """The complete facts for a request that comes in the dialect `source`."""
    facts: dict[str, object] = {"issuer": profile.dialect}
    if source != profile.dialect:
        facts |= DIALECT_FACTS.get(profile.dialect, {})
    for name in Target.__struct_fields__:
        value = getattr(profile, name)
        if value is not None:
            facts[name] = value
    return msgspec.convert(facts, Target)
