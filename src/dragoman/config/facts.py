"""The facts about models that the file may state, and what each means.

The facts themselves are the fields of `Profile`; this is what a user reads about them.
"""

from functools import cache
from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

from dragoman.config.kinds import (
    FLAG,
    INTEGER_PAIR,
    TEXT,
    TEXTS,
    Key,
    Kind,
    integer,
    number,
    one_of,
    several_of,
)
from dragoman.providers.profile import Profile

ABOUT: dict[str, str] = {
    "issuer": "Whose signatures and sealed reasoning the model takes back; its dialect, unless named.",
    # Content.
    "images": "The model sees pictures.",
    "documents": "The model reads documents such as PDF.",
    "audio": "The model hears sound.",
    "video": "The model sees films.",
    "media_in_results": "Pictures and documents may stand in tool results.",
    "media_in_answers": "They may stand in the assistant's own turns.",
    "media_titles": "They may have a title.",
    "refusals": "The history tells a refusal apart from text.",
    # Tools.
    "custom_tools": "Tools whose input is free text are understood.",
    "namespaces": "Tools may stand in namespaces.",
    "client_tools": "The vendor's own client-run tools (shells, editors) are understood as such.",
    "deferred_tools": "Tools may be declared now and shown to the model later.",
    "hosted_tools": "The tools that the vendor runs itself, such as `web_search`.",
    "search_options": "The options of web search that are known, such as `max_uses`.",
    "hosted_beside_functions": "The vendor's own tools may be declared beside functions.",
    "strict_tools": "Tools may demand arguments that keep to the schema.",
    "strict_by_default": "Tools are strict unless the request says otherwise.",
    "tool_description_required": "Every tool needs a description, be it empty.",
    "history_needs_tools": "Calls in the history need tools to be declared.",
    "json_schema": "Tools take full JSON schemas; otherwise Gemini's subset of OpenAPI.",
    "schema_alternatives": "A tool's schema may have `anyOf`, `oneOf`, `allOf`, `not` or `enum` at its top.",
    "plain_members": "Members of a tool's schema are named by at most 64 letters, digits, `_`, `.`, `-`.",
    "tool_name_limit": "The longest name of a tool, in characters; 0 is no limit.",
    "tool_name_extra": "What a tool's name may hold beside letters, digits, `_` and `-`; `*` is anything.",
    "tool_name_letter_first": "A tool's name must begin with a letter or `_`.",
    "call_id_limit": "The longest id of a call, in characters; 0 is no limit.",
    "call_id_extra": "What a call's id may hold beside letters, digits, `_` and `-`; `*` is anything.",
    "call_id_exact": "Ids must have exactly this many letters and digits; 0 is any number.",
    "repeated_calls": "A call that waits for its result may be made again, under the same id.",
    "choices": "The ways to choose tools: `auto`, `required`, `none`, `named`, `allowed`.",
    "parallel_control": "Parallel calls can be forbidden.",
    "forced_choice_while_reasoning": "A call can be forced while the model reasons.",
    "strict_results": "Results must follow their calls at once, whole, and once each.",
    "result_names": "Results repeat the name of the tool.",
    "error_flag": "A failed result can be marked as failed.",
    # Turns.
    "system": "`inline`: system messages may stand anywhere; `leading`: only first.",
    "developer_role": "The role `developer` is known.",
    "turns_required": "A conversation of system messages alone is refused.",
    "alternation": "User and assistant must take turns.",
    "joins_text": "The texts of one turn reach the model as one text.",
    "blank_text": "Texts of nothing but blanks are accepted.",
    "user_first": "The user must speak first.",
    "prefill": "A begun answer is continued.",
    # Reasoning.
    "reasoning": "How reasoning is asked for: `effort`, `adaptive`, `budget`, `level` or `none`.",
    "efforts": "The efforts that are known, of `none` `minimal` `low` `medium` `high` `xhigh` `max`.",
    "budget_range": "The least and the most tokens for reasoning; 0 is no bound.",
    "budget_dynamic": "The model can choose its own budget.",
    "always_reasons": "The model cannot be told not to reason.",
    "calls_need_reasoning": "The calls being answered must come with their reasoning.",
    "replay_reasoning": "The reasoning of earlier turns must be sent back.",
    # Settings.
    "sampling": "The sampling settings that are known, such as `temperature` and `top_p`.",
    "temperature_limit": "The highest temperature; 0 is no limit.",
    "temperature_with_top_p": "`temperature` and `top_p` may be set together.",
    "sampling_with_reasoning": "Sampling may be set while the model reasons.",
    "candidates": "Several answers can be asked for.",
    "stop_limit": "How many stop sequences are taken.",
    "outputs": "The forms of output: `text`, `json_object`, `json_schema`.",
    "closed_output": "The schema of an answer must close every object and name no limits.",
    "caching": "How prompt caching is asked for: `breakpoints`, `key` or `none`.",
    "service_tiers": "The service tiers that are known.",
    # Limits.
    "context_tokens": "The context window, in tokens; 0 is not known.",
    "max_output_tokens": "The longest answer, in tokens; 0 is not known.",
    "min_output_tokens": "A smaller limit on the answer is refused.",
    "default_max_tokens": "The limit that is sent when the client names none and one is needed.",
    "max_tokens_field": "The name of the limit in Chat: `max_tokens` or `max_completion_tokens`.",
    "stream_usage": "Streaming Chat servers are asked to tell the usage.",
    # Governance.
    "call_family": "The way the model writes calls in plain text where its server does not read them.",
    # Prices.
    "price_input": "Dollars for a million tokens of prompt; 0 is free, unset is not known, here and below.",
    "price_output": "Dollars for a million tokens of answer, reasoning included.",
    "price_cache_read": "Dollars for a million tokens read from the prompt cache; unset: as `price_input`.",
    "price_cache_write": "Dollars for a million tokens written to the cache; unset: as `price_input`.",
    "price_cache_write_long": "The same for a life of an hour; unset: as `price_cache_write`.",
    "long_prompt": "Prompts of more tokens than this have the long prices below, as a whole.",
    "long_price_input": "The price of the prompt, if it is long; unset: as for any other.",
    "long_price_output": "The price of the answer to a long prompt; unset: as to any other.",
    "long_price_cache_read": "The price of reading it from the cache; unset: as `long_price_input`.",
    "long_price_cache_write": "The price of writing it there; unset: as `long_price_input`.",
    "long_price_cache_write_long": "The same for a life of an hour; unset: as `long_price_cache_write`.",
}

#: What a profile holds beside facts about a model.
_NO_FACTS = frozenset({"dialect", "provider", "model"})
_KINDS: dict[object, Kind] = {
    bool: FLAG,
    int: integer(0),
    float: number(0),
    str: TEXT,
    tuple[int, int]: INTEGER_PAIR,
}


@cache
def facts() -> dict[str, Key]:
    """Every fact, its kind and its meaning."""
    hints = get_type_hints(Profile)
    return {
        name: Key(_kind(hints[name]), ABOUT.get(name, ""))
        for name in Profile.__struct_fields__
        if name not in _NO_FACTS
    }


def _kind(annotation: object) -> Kind:
    """The kind of `X | None`."""
    (inner,) = (part for part in get_args(annotation) if part is not NoneType)
    if get_origin(inner) is Literal:
        return one_of(*get_args(inner))
    for part in get_args(inner):
        if get_origin(part) is Literal:
            return several_of(*get_args(part))
    return _KINDS.get(inner, TEXTS)
