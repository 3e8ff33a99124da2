"""The facts about a model and its server: one table for requests, configuration and documentation.

`Facts` is the table. A field is one fact: its name, its type, its meaning (`Doc`) and its default, which
permits everything. The values of each API are in `dialect_facts`. `Profile`, `TargetFacts`, the configuration
keys below `[providers.NAME.models."MODEL"]` and their documentation derive from the fields, so a new fact is
one new field here, and the pass in `fit` or the writer that reads it.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec

from dragoman.hub.request import EFFORTS, Effort

ReasoningStyle = Literal["effort", "adaptive", "budget", "level", "none"]
CachingStyle = Literal["breakpoints", "key", "none"]
SystemPlace = Literal["inline", "leading", "user"]

#: The settings of a request that choose among likely tokens; see `hub.request.Sampling`.
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
#: The options of a hosted web search; see `hub.blocks.SearchOptions`.
SEARCH_OPTIONS = frozenset(
    {"allowed_domains", "blocked_domains", "location", "context_size", "max_uses", "live"}
)
CHOICES = frozenset({"auto", "required", "none", "named", "allowed"})
OUTPUTS = frozenset({"text", "json_object", "json_schema"})


class Doc(NamedTuple):
    """The meaning of a field, as `dragoman config keys` and docs/configuration.md print it."""

    text: str


class Facts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that may differ between two models or two servers. The defaults permit everything."""

    issuer: Annotated[
        str, Doc("The vendor whose signatures and sealed reasoning the model accepts; default: its dialect.")
    ] = ""

    # Content.
    images: Annotated[bool, Doc("The model accepts images.")] = True
    documents: Annotated[bool, Doc("The model accepts documents such as PDF.")] = True
    audio: Annotated[bool, Doc("The model accepts audio.")] = True
    video: Annotated[bool, Doc("The model accepts video.")] = True
    media_in_results: Annotated[bool, Doc("Tool results may contain images and documents.")] = True
    media_in_answers: Annotated[bool, Doc("Assistant messages may contain images and documents.")] = True
    media_titles: Annotated[bool, Doc("Images and documents may have a title.")] = True
    shared_files: Annotated[
        frozenset[str],
        Doc("The dialects of other APIs whose file ids the server knows, such as `openai_chat`."),
    ] = frozenset()
    refusals: Annotated[bool, Doc("The history marks refusals as different from text.")] = True

    # Tools.
    function_calling: Annotated[
        bool, Doc("The server takes tools; otherwise they are described as text, and calls read from text.")
    ] = True
    custom_tools: Annotated[bool, Doc("Tools with free text as input are supported.")] = True
    namespaces: Annotated[bool, Doc("Tools may be grouped in namespaces.")] = True
    client_tools: Annotated[
        bool, Doc("The vendor's own tools that the client runs (shells, editors) are supported.")
    ] = True
    deferred_tools: Annotated[bool, Doc("Tools may be declared now and shown to the model later.")] = True
    hosted_tools: Annotated[
        frozenset[str] | None, Doc("The tools that the vendor's servers run, such as `web_search`.")
    ] = None
    search_options: Annotated[
        frozenset[str], Doc("The supported options of the hosted web search, such as `max_uses`.")
    ] = SEARCH_OPTIONS
    hosted_beside_functions: Annotated[
        bool, Doc("One request may declare both hosted tools and functions.")
    ] = True
    strict_tools: Annotated[bool, Doc("Tools may require arguments that match the schema.")] = True
    strict_by_default: Annotated[bool, Doc("Tools are strict unless the request sets it to false.")] = False
    tool_description_required: Annotated[bool, Doc("Every tool needs a description, which may be empty.")] = (
        False
    )
    history_needs_tools: Annotated[
        bool, Doc("A history with tool calls needs at least one declared tool.")
    ] = False
    json_schema: Annotated[
        bool, Doc("Tools take full JSON Schema; otherwise only Gemini's subset of OpenAPI.")
    ] = True
    schema_alternatives: Annotated[
        bool, Doc("A tool's schema may have `anyOf`, `oneOf`, `allOf`, `not` or `enum` at its top level.")
    ] = True
    plain_members: Annotated[
        bool, Doc("Property names in a tool's schema have at most 64 letters, digits, `_`, `.` and `-`.")
    ] = False
    object_properties: Annotated[
        bool, Doc("Every object in a tool's schema needs `properties`, which may be empty.")
    ] = False
    declared_required: Annotated[
        bool, Doc("`required` in a tool's schema may name only declared properties.")
    ] = False
    valid_schemas: Annotated[
        bool, Doc("A tool's schema must be valid by JSON Schema 2020-12; invalid parts are corrected.")
    ] = False
    tool_name_limit: Annotated[int, Doc("The longest tool name, in characters; 0: no limit.")] = 0
    tool_name_extra: Annotated[
        str, Doc("Characters of tool names beyond letters, digits, `_` and `-`; `*`: any.")
    ] = "*"
    tool_name_letter_first: Annotated[bool, Doc("A tool name must start with a letter or `_`.")] = False
    call_id_limit: Annotated[int, Doc("The longest call id, in characters; 0: no limit.")] = 0
    call_id_extra: Annotated[
        str, Doc("Characters of call ids beyond letters, digits, `_` and `-`; `*`: any.")
    ] = "*"
    call_id_exact: Annotated[
        int, Doc("Call ids must have exactly this many letters and digits; 0: any number.")
    ] = 0
    repeated_calls: Annotated[
        bool, Doc("The same call, with the same id, may occur again while it waits for its result.")
    ] = False
    choices: Annotated[
        frozenset[str], Doc("The supported tool choices: `auto`, `required`, `none`, `named`, `allowed`.")
    ] = CHOICES
    parallel_control: Annotated[bool, Doc("A request can forbid parallel calls.")] = True
    forced_choice_while_reasoning: Annotated[bool, Doc("A request with reasoning can force a tool call.")] = (
        True
    )
    strict_results: Annotated[
        bool, Doc("Tool results must directly follow their calls, complete and once each.")
    ] = False
    result_names: Annotated[bool, Doc("Tool results repeat the tool's name.")] = False
    error_flag: Annotated[bool, Doc("A tool result can be marked as failed.")] = True

    # Turns.
    system: Annotated[
        SystemPlace,
        Doc(
            "Where system messages may be: `inline`, anywhere; `leading`, only first; `user`, nowhere: they "
            "become user messages."
        ),
    ] = "inline"
    developer_role: Annotated[bool, Doc("The role `developer` is supported.")] = True
    instructions: Annotated[
        str,
        Doc(
            "A text or `file:PATH`: the `instructions` of every Responses request. The client's own system "
            "text follows as a developer message."
        ),
    ] = ""
    turns_required: Annotated[bool, Doc("A request with system messages only is refused.")] = False
    alternation: Annotated[bool, Doc("User and assistant messages must alternate.")] = False
    joins_text: Annotated[bool, Doc("The model receives the texts of one message as one text.")] = False
    blank_text: Annotated[bool, Doc("Texts and stop sequences may consist of white space only.")] = True
    user_first: Annotated[bool, Doc("The first message must be the user's.")] = False
    prefill: Annotated[bool, Doc("The model continues an assistant message at the end of the request.")] = (
        True
    )

    # Reasoning.
    reasoning: Annotated[
        ReasoningStyle | None,
        Doc("How a request sets reasoning: `effort`, `adaptive`, `budget`, `level` or `none`."),
    ] = None
    efforts: Annotated[
        tuple[Effort, ...],
        Doc("The supported efforts, of `none` `minimal` `low` `medium` `high` `xhigh` `max`."),
    ] = EFFORTS
    budget_range: Annotated[
        tuple[int, int], Doc("The fewest and the most tokens for reasoning; 0: no limit.")
    ] = (0, 0)
    budget_dynamic: Annotated[bool, Doc("The model can choose its own reasoning budget.")] = False
    always_reasons: Annotated[bool, Doc("Reasoning cannot be switched off.")] = False
    whole_reasoning: Annotated[
        bool, Doc("A reply that is not streamed may have reasoning; if not, `enable_thinking` is false.")
    ] = True
    calls_need_reasoning: Annotated[
        bool, Doc("With a reasoning budget, calls that await results need their reasoning in the history.")
    ] = False
    replay_reasoning: Annotated[
        bool, Doc("The history must contain the reasoning of every earlier message, sealed or not.")
    ] = False
    turns_need_reasoning: Annotated[
        bool, Doc("Earlier messages of the model without reasoning are refused: they get a blank one.")
    ] = False

    # Settings.
    sampling: Annotated[
        frozenset[str], Doc("The supported sampling settings, such as `temperature` and `top_p`.")
    ] = SAMPLING
    temperature_limit: Annotated[float, Doc("The highest temperature; 0: no limit.")] = 0.0
    temperature_with_top_p: Annotated[bool, Doc("A request may set both `temperature` and `top_p`.")] = True
    sampling_with_reasoning: Annotated[bool, Doc("A request with reasoning may set sampling settings.")] = (
        True
    )
    candidates: Annotated[bool, Doc("A request can ask for several answers.")] = True
    stop_limit: Annotated[int, Doc("The largest number of stop sequences.")] = 1_000
    outputs: Annotated[
        frozenset[str], Doc("The supported output formats: `text`, `json_object`, `json_schema`.")
    ] = OUTPUTS
    closed_output: Annotated[
        bool, Doc("An output schema must close every object and must not set limits.")
    ] = False
    caching: Annotated[
        CachingStyle | None, Doc("How a request controls prompt caching: `breakpoints`, `key` or `none`.")
    ] = None
    service_tiers: Annotated[frozenset[str] | None, Doc("The supported service tiers.")] = None
    refused_fields: Annotated[
        tuple[str, ...],
        Doc("Fields that the server refuses, by path, such as `messages.*.name`; they are removed."),
    ] = ()

    # Limits.
    context_tokens: Annotated[int, Doc("The context window, in tokens; 0: unknown.")] = 0
    max_output_tokens: Annotated[int, Doc("The longest answer, in tokens; 0: unknown.")] = 0
    min_output_tokens: Annotated[int, Doc("The smallest accepted limit on the answer, in tokens.")] = 0
    limits_output: Annotated[bool, Doc("A request can limit the length of the answer.")] = True
    default_max_tokens: Annotated[
        int, Doc("The limit on the answer if the client sets none and the API requires one.")
    ] = 0
    max_tokens_field: Annotated[
        str, Doc("The limit's field in Chat requests: `max_tokens` or `max_completion_tokens`.")
    ] = ""
    stream_usage: Annotated[bool, Doc("Streamed Chat requests ask for the usage.")] = True

    # Governance.
    whole_calls: Annotated[bool, Doc("Streamed calls come whole, in several events one after the other.")] = (
        False
    )
    call_family: Annotated[
        str, Doc("The format in which the model writes calls as text, if its server does not parse them.")
    ] = ""

    # Prices.
    price_input: Annotated[
        float | None, Doc("Dollars per million prompt tokens; 0: free; unset: unknown, here and below.")
    ] = None
    price_output: Annotated[float | None, Doc("Dollars per million answer tokens, including reasoning.")] = (
        None
    )
    price_cache_read: Annotated[
        float | None, Doc("Dollars per million tokens read from the prompt cache; default: `price_input`.")
    ] = None
    price_cache_write: Annotated[
        float | None, Doc("Dollars per million tokens written to the cache; default: `price_input`.")
    ] = None
    price_cache_write_long: Annotated[
        float | None, Doc("The same with a lifetime of one hour; default: `price_cache_write`.")
    ] = None
    long_prompt: Annotated[
        int, Doc("Prompts with more tokens than this have the long prices below, for all their tokens.")
    ] = 0
    long_price_input: Annotated[
        float | None, Doc("The `price_input` of long prompts; default: `price_input`.")
    ] = None
    long_price_output: Annotated[
        float | None, Doc("The `price_output` of long prompts; default: `price_output`.")
    ] = None
    long_price_cache_read: Annotated[
        float | None, Doc("The `price_cache_read` of long prompts; default: `long_price_input`.")
    ] = None
    long_price_cache_write: Annotated[
        float | None, Doc("The `price_cache_write` of long prompts; default: `long_price_input`.")
    ] = None
    long_price_cache_write_long: Annotated[
        float | None,
        Doc("The `price_cache_write_long` of long prompts; default: `long_price_cache_write`."),
    ] = None


#: The facts of a server that accepts everything.
PERMISSIVE = Facts()


def list_changes(facts: Facts) -> dict[str, object]:
    """The facts that differ from the permissive defaults, in the order of the table."""
    return {
        name: value
        for name in Facts.__struct_fields__
        if (value := getattr(facts, name)) != getattr(PERMISSIVE, name)
    }
