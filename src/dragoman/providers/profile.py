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


#: What a hosted search may be told; see `hub.content.SearchOptions`.
SEARCH_OPTIONS = frozenset(
    {"allowed_domains", "blocked_domains", "location", "context_size", "max_uses", "live"}
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
    #: They may stand in the assistant's own turns.
    media_in_answers: bool = True
    #: They may have a title.
    media_titles: bool = True
    #: A refusal is told apart from text in the history.
    refusals: bool = True

    custom_tools: bool = True
    namespaces: bool = True
    #: OpenAI's client-run tools and Anthropic's typed ones are understood as such.
    client_tools: bool = True
    deferred_tools: bool = True
    hosted_tools: frozenset[str] | None = None
    #: What its own web search can be told.
    search_options: frozenset[str] = SEARCH_OPTIONS
    #: Its own tools work beside the client's functions.
    hosted_beside_functions: bool = True
    strict_tools: bool = True
    #: Functions are strict unless the request says that they are not.
    strict_by_default: bool = False
    #: Functions need a description, be it an empty one.
    tool_description_required: bool = False
    #: Calls in the history need tools to be declared.
    history_needs_tools: bool = False
    #: False: function schemas must keep to Gemini's subset of OpenAPI.
    json_schema: bool = True
    #: A function's schema may have `anyOf`, `oneOf`, `allOf`, `not` or `enum` at its top.
    schema_alternatives: bool = True
    #: The members of a function's schema must be named by at most 64 letters, digits, `_`, `.` and `-`.
    plain_members: bool = False
    tool_name_limit: int = 0
    #: Characters beyond letters, digits, `_` and `-` that a tool name may have; `*`: any.
    tool_name_extra: str = "*"
    tool_name_letter_first: bool = False
    call_id_limit: int = 0
    #: Characters beyond letters, digits, `_` and `-` that a call id may have; `*`: any.
    call_id_extra: str = "*"
    #: Some servers want ids of exactly this many letters and digits.
    call_id_exact: int = 0
    #: The same call may come again in the history, and be made again in a reply.
    repeated_calls: bool = False
    choices: frozenset[str] = frozenset({"auto", "required", "none", "named", "allowed"})
    parallel_control: bool = True
    forced_choice_while_reasoning: bool = True
    #: Tool results must directly follow their calls, whole and once each.
    strict_results: bool = False
    #: Results repeat the name of the tool that was called.
    result_names: bool = False
    error_flag: bool = True

    system: SystemPlace = "inline"
    developer_role: bool = True
    alternation: bool = False
    #: The texts of one turn reach the model as one text.
    joins_text: bool = False
    #: Texts and stop sequences of nothing but blanks are accepted.
    blank_text: bool = True
    user_first: bool = False
    #: System texts alone are not a conversation.
    turns_required: bool = False
    prefill: bool = True

    reasoning: ReasoningStyle | None = None
    efforts: tuple[Effort, ...] = EFFORTS
    #: The least and the most tokens that may be set apart for reasoning; 0: no bound.
    budget_range: tuple[int, int] = (0, 0)
    #: The model can be left to choose its own reasoning budget.
    budget_dynamic: bool = False
    #: The model reasons whatever it is told: there is no off.
    always_reasons: bool = False
    #: With a reasoning budget, the calls that are being answered must come with their reasoning.
    calls_need_reasoning: bool = False
    #: The reasoning text of earlier tool-call turns must be sent back, sealed or not.
    replay_reasoning: bool = False

    sampling: frozenset[str] = SAMPLING
    #: 0: no limit.
    temperature_limit: float = 0.0
    temperature_with_top_p: bool = True
    #: Temperature and its kin may be set while the model reasons.
    sampling_with_reasoning: bool = True
    candidates: bool = True
    stop_limit: int = 1_000
    outputs: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    #: The schema of an answer must close every object and name no limits.
    closed_output: bool = False
    caching: CachingStyle | None = None
    service_tiers: frozenset[str] | None = None

    context_tokens: int = 0
    max_output_tokens: int = 0
    #: Smaller caps are refused.
    min_output_tokens: int = 0
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
    media_in_answers: bool | None = None
    media_titles: bool | None = None
    refusals: bool | None = None
    custom_tools: bool | None = None
    namespaces: bool | None = None
    client_tools: bool | None = None
    deferred_tools: bool | None = None
    hosted_tools: frozenset[str] | None = None
    search_options: frozenset[str] | None = None
    hosted_beside_functions: bool | None = None
    strict_tools: bool | None = None
    strict_by_default: bool | None = None
    tool_description_required: bool | None = None
    history_needs_tools: bool | None = None
    json_schema: bool | None = None
    schema_alternatives: bool | None = None
    plain_members: bool | None = None
    tool_name_limit: int | None = None
    tool_name_extra: str | None = None
    tool_name_letter_first: bool | None = None
    call_id_limit: int | None = None
    call_id_extra: str | None = None
    call_id_exact: int | None = None
    repeated_calls: bool | None = None
    choices: frozenset[str] | None = None
    parallel_control: bool | None = None
    forced_choice_while_reasoning: bool | None = None
    strict_results: bool | None = None
    result_names: bool | None = None
    error_flag: bool | None = None
    system: SystemPlace | None = None
    developer_role: bool | None = None
    alternation: bool | None = None
    joins_text: bool | None = None
    blank_text: bool | None = None
    user_first: bool | None = None
    turns_required: bool | None = None
    prefill: bool | None = None
    reasoning: ReasoningStyle | None = None
    efforts: tuple[Effort, ...] | None = None
    budget_range: tuple[int, int] | None = None
    budget_dynamic: bool | None = None
    always_reasons: bool | None = None
    calls_need_reasoning: bool | None = None
    replay_reasoning: bool | None = None
    sampling: frozenset[str] | None = None
    temperature_limit: float | None = None
    temperature_with_top_p: bool | None = None
    sampling_with_reasoning: bool | None = None
    candidates: bool | None = None
    stop_limit: int | None = None
    outputs: frozenset[str] | None = None
    closed_output: bool | None = None
    caching: CachingStyle | None = None
    service_tiers: frozenset[str] | None = None
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    min_output_tokens: int | None = None
    default_max_tokens: int | None = None
    max_tokens_field: str | None = None
    stream_usage: bool | None = None
    # What nobody on the request's way asks for, but others do: governance, budgets, `dragoman models show`.
    call_family: str | None = None
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    price_cache_write_long: float | None = None
    long_prompt: int | None = None
    long_price_input: float | None = None
    long_price_output: float | None = None
    long_price_cache_read: float | None = None
    long_price_cache_write: float | None = None
    long_price_cache_write_long: float | None = None


#: What holds for a dialect's servers in general, when a client of another dialect comes.
DIALECT_FACTS: Mapping[str, Mapping[str, object]] = {
    "anthropic": {
        "audio": False,
        "video": False,
        "media_in_answers": False,
        "refusals": False,
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "web_fetch", "code_execution"}),
        "search_options": frozenset({"allowed_domains", "blocked_domains", "location", "max_uses"}),
        "history_needs_tools": True,
        "schema_alternatives": False,
        "plain_members": True,
        "tool_name_limit": 128,
        "tool_name_extra": "",
        "call_id_limit": 64,
        "call_id_extra": "",
        "choices": frozenset({"auto", "required", "none", "named"}),
        "forced_choice_while_reasoning": False,
        "strict_results": True,
        "system": "leading",
        "developer_role": False,
        "user_first": True,
        "turns_required": True,
        "alternation": True,
        "blank_text": False,
        "prefill": False,
        "reasoning": "adaptive",
        "efforts": ("low", "medium", "high", "xhigh", "max"),
        "budget_range": (1_024, 0),
        "calls_need_reasoning": True,
        "sampling": frozenset({"temperature", "top_p", "top_k"}),
        "temperature_limit": 1.0,
        "temperature_with_top_p": False,
        "sampling_with_reasoning": False,
        "candidates": False,
        "outputs": frozenset({"text", "json_schema"}),
        "closed_output": True,
        "caching": "breakpoints",
        "service_tiers": frozenset({"auto", "standard_only"}),
        "default_max_tokens": 32_000,
    },
    "openai_chat": {
        "video": False,
        "media_in_results": False,
        "media_in_answers": False,
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset(),
        "tool_description_required": True,
        "schema_alternatives": False,
        "tool_name_limit": 64,
        "tool_name_extra": "",
        "call_id_limit": 40,
        "choices": frozenset({"auto", "required", "none", "named"}),
        "error_flag": False,
        "strict_results": True,
        "joins_text": True,
        "developer_role": False,
        "prefill": False,
        "reasoning": "effort",
        "sampling": SAMPLING - {"top_k", "verbosity"},
        "temperature_limit": 2.0,
        "stop_limit": 4,
        "caching": "none",
        "service_tiers": frozenset({"auto", "default", "flex", "scale", "priority", "fast"}),
        "max_tokens_field": "max_tokens",
    },
    "openai_responses": {
        "audio": False,
        "video": False,
        "media_in_answers": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "file_search", "code_execution", "image_generation"}),
        "search_options": frozenset({"allowed_domains", "location", "context_size", "live"}),
        "strict_by_default": True,
        "schema_alternatives": False,
        "tool_name_limit": 64,
        "tool_name_extra": "",
        "call_id_limit": 64,
        "error_flag": False,
        "strict_results": True,
        "turns_required": True,
        "prefill": False,
        "reasoning": "effort",
        "sampling": frozenset({"temperature", "top_p", "logprobs", "verbosity"}),
        "temperature_limit": 2.0,
        "candidates": False,
        "stop_limit": 0,
        "min_output_tokens": 16,
        "caching": "key",
        "service_tiers": frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"}),
    },
    "gemini": {
        # Vertex has a place for them, the Gemini API refuses it.
        "media_titles": False,
        "refusals": False,
        "custom_tools": False,
        "namespaces": False,
        "client_tools": False,
        "deferred_tools": False,
        "hosted_tools": frozenset({"web_search", "web_fetch", "code_execution"}),
        "search_options": frozenset(),
        # Models before Gemini 3 refuse both in one request.
        "hosted_beside_functions": False,
        "strict_tools": False,
        "tool_description_required": True,
        "tool_name_limit": 64,
        "tool_name_extra": ".:",
        "tool_name_letter_first": True,
        "choices": frozenset({"auto", "required", "none", "named", "allowed"}),
        "parallel_control": False,
        "strict_results": True,
        "result_names": True,
        "system": "leading",
        "developer_role": False,
        "alternation": True,
        "user_first": True,
        "turns_required": True,
        "prefill": False,
        "reasoning": "budget",
        "efforts": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        "budget_range": (0, 32_768),
        "budget_dynamic": True,
        "sampling": SAMPLING - {"logit_bias", "verbosity"},
        "temperature_limit": 2.0,
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
