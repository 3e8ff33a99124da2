"""The messages with which servers refuse a request, and the facts that each message proves.

The table is searched from its beginning; the first row that matches decides. A row of `NAMED_FIELDS` only
names a field: `corrections.FIELD_FACTS` has the facts about it, and a field without facts is removed. The
patterns are written from the messages that tests/healing/messages.py quotes, each with its server.
"""

import re
from functools import cache
from typing import NamedTuple

from dragoman.healing.corrections import (
    LONG,
    MAX_OUTPUT_MINIMUM,
    MIN_CALL_ID_LIMIT,
    MIN_OUTPUT_LIMIT,
    MIN_TOOL_NAME_LIMIT,
    ONCE,
    SHORT,
    SHORT_LIVED,
    Correction,
    FactChanges,
    change_field,
    constant,
    decimal,
    efforts,
    limit,
    merge_facts,
    number_range,
    without,
    without_named,
)
from dragoman.healing.message_patterns import NAMED_FIELDS, PARAMETER_CODES, is_final
from dragoman.healing.repeated_text import repeats_request
from dragoman.hub.errors import Failure, FailureKind
from dragoman.providers.facts import CHOICES

#: Characters of a message that are searched.
MAX_SEARCHED = 2000

#: Kinds of failures that a change of the request can end. Servers with chat templates answer 500 to a
#: conversation that the template refuses (llama.cpp), and OpenRouter 404 if no server has a capability.
HEALABLE_KINDS: frozenset[FailureKind] = frozenset({"invalid_request", "not_found", "server"})
HEALABLE_STATUSES = frozenset({0, 200, 400, 404, 405, 416, 422, 500, 501})


class RefusalPattern(NamedTuple):
    """One row: a pattern of messages, and the changes of facts that they prove."""

    pattern: str
    facts: FactChanges
    lifetime: float = LONG
    refuses_seals: bool = False
    #: The limit on the answer, in a message that also names the context window.
    is_output_limit: bool = False


def _row(
    pattern: str, lifetime: float = LONG, *, seals: bool = False, output_limit: bool = False, **facts: object
) -> RefusalPattern:
    """Build a row of the table.

    A keyword in `facts` is the name of a fact; its value is a `FactChange`, or the constant that the fact
    becomes.
    """
    changes = {name: value if callable(value) else constant(value) for name, value in facts.items()}
    return RefusalPattern(pattern, changes, lifetime, seals, output_limit)


#: The end of a statement about the whole model. "images larger than 20 MB" is one about the images.
_END = (
    r"(?=[`'\"]?\s*(?:$|[.,;:!?()\[\]\n-]|(?:with|for|by|on|in) (?:this|the|that) model\b"
    r"|(?:with|for|by) \S+$))"
)
_TEXT_ONLY = {"images": False, "documents": False, "audio": False, "video": False}
_UNFORCED = without("required", "named", "allowed")

REFUSALS: tuple[RefusalPattern, ...] = (
    # Seals: of another account, another conversation, another model.
    _row(
        r"invalid `?(?:signature|data)`? in `?(?:redacted_)?thinking`? block"
        r"|encrypted content .{0,80}could not be (?:verified|decrypted)|\[invalid_encrypted_content\]"
        r"|(?:corrupted|invalid) thought[ _]signature|thought[ _]signature is not valid"
        r"|thinking` blocks? in the latest assistant message cannot be modified"
        r"|of type 'reasoning' was provided without its required following item",
        ONCE,
        seals=True,
        calls_need_reasoning=True,
    ),
    _row(r"expected `thinking` or `redacted_thinking`, but found", calls_need_reasoning=True),
    _row(
        r"reasoning_content`? (?:in the thinking mode must be passed back|is missing in assistant)",
        replay_reasoning=True,
        turns_need_reasoning=True,
    ),
    # The length of the answer.
    _row(
        r"max(?:_completion|_output)?_?tokens\b.{0,80}?at most (?P<limit>[\d,]+) (?:completion|output) tokens"
        r"|max_tokens: [\d,]+ > (?P<claude>[\d,]+), which is the maximum allowed number of output tokens",
        max_output_tokens=limit("limit", "claude", least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"range of max_(?:completion_)?tokens (?:is|should be) \[\d+, ?(?P<limit>\d+)\]",
        max_output_tokens=limit(least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"max_(?:completion_|output_)?tokens\b.{0,80}?integer above maximum value\W+expected a value <= "
        r"(?P<limit>\d+)",
        max_output_tokens=limit(least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"`max_(?:completion_)?tokens` must be less than or equal to `(?P<limit>\d+)`, the maximum value for",
        output_limit=True,
        max_output_tokens=limit(least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"maxOutputTokens value of \d+ but the supported range is from \d+ \(inclusive\) to (?P<limit>\d+) "
        r"\(exclusive\)",
        max_output_tokens=limit(less=1, least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"max_tokens > (?P<limit>\d+) must have stream ?= ?true",
        ONCE,
        max_output_tokens=limit(least=MIN_OUTPUT_LIMIT),
    ),
    _row(
        r"max_(?:completion_|output_)?tokens\b.{0,80}?integer below minimum value\W+expected a value >= "
        r"(?P<limit>\d+)",
        min_output_tokens=limit(most=MAX_OUTPUT_MINIMUM),
    ),
    _row(r"max_tokens ?参数非法", limits_output=False),
    # How a request sets reasoning.
    _row(
        r"thinking\.type\.enabled\"? is not supported .{0,40}use \"?thinking\.type\.adaptive",
        reasoning="adaptive",
    ),
    _row(r"adaptive thinking is not supported|thinking[ _]level is not supported", reasoning="budget"),
    _row(
        r"(?:effort|reasoning value|think value)\b(?:(?!tool).){0,120}?"
        r"(?:supported (?:values|levels)(?: are)?:|must be one of|\(must be|expected one of)"
        r"(?P<list>[^.;)]{3,160})",
        efforts=efforts,
    ),
    _row(r"does not support the effort parameter", efforts=()),
    _row(
        r"enable_thinking(?: must be set to|必须设置为) ?false|enable_thinking only support",
        whole_reasoning=False,
    ),
    _row(r"max_tokens` must be greater than `thinking\.budget_tokens", ONCE, reasoning="budget"),
    _row(
        r"budget_tokens: input should be greater than or equal to (?P<low>\d+)"
        r"|thinking budget \d+ is invalid\. please choose a value between (?P<from>\d+) and (?P<high>\d+)",
        reasoning="budget",
        budget_range=number_range,
    ),
    _row(
        r"only works in thinking mode|thinking can(?:no|')t be disabled",
        reasoning="budget",
        always_reasons=True,
        budget_range=(128, 32_768),
    ),
    _row(
        rf"does not support (?:thinking|reasoning){_END}"
        rf"|thinking(?: budget)? is not (?:supported|enabled){_END}",
        reasoning="none",
    ),
    _row(
        r"thinking may not be enabled when tool_choice forces",
        forced_choice_while_reasoning=False,
    ),
    _row(
        r"tool_choice parameter does not support being set to required or object in thinking mode",
        ONCE,
        forced_choice_while_reasoning=False,
        choices=_UNFORCED,
    ),
    # Sampling.
    _row(r"temperature` and `top_p` cannot both be specified", temperature_with_top_p=False),
    _row(
        r"`(?:temperature|top_p|top_k)` (?:may only be set to|must be) .{0,60}when thinking is enabled",
        sampling_with_reasoning=False,
    ),
    _row(
        r"temperature\b.{0,60}?(?:expected a value <= ?|less than or equal to |range: 0\.\.)"
        r"(?P<limit>\d+(?:\.\d+)?)",
        temperature_limit=decimal,
    ),
    # Tools.
    _row(
        rf"does not support (?:tools|function calling|tool use|tool calling){_END}"
        r"|requires --enable-auto-tool-choice|tools param requires --jinja"
        rf"|no endpoints found that support tool use{_END}|function calling is not enabled"
        rf"|`?tool calling`? is not supported with this model{_END}",
        SHORT,
        function_calling=False,
    ),
    _row(r"tool_choice param requires --jinja", SHORT, choices=frozenset()),
    _row(r"does not support this tool_choice|support the provided 'tool_choice' value", choices=_UNFORCED),
    _row(r"invalid tool_choice type: '?object", choices=CHOICES - {"named", "allowed"}),
    _row(
        r"tool call id was .{0,80}must be a-z, A-Z, 0-9, with a length of (?P<limit>\d+)",
        call_id_exact=limit(least=MIN_CALL_ID_LIMIT),
    ),
    _row(
        r"(?:tool_calls\[\d+\]\.id|call_id)': string too long\. expected a string with maximum length "
        r"(?P<limit>\d+)",
        call_id_limit=limit(least=MIN_CALL_ID_LIMIT),
    ),
    _row(r"tool_use\.id: string should match pattern", call_id_extra=""),
    _row(
        r"tools\b.{0,40}name'?: string (?:too long\. expected a string with maximum length|"
        r"should have at most) (?P<limit>\d+)",
        tool_name_limit=limit(least=MIN_TOOL_NAME_LIMIT),
    ),
    _row(r"tools\b.{0,40}name'?: string (?:does not|should) match (?:the )?pattern", tool_name_extra=""),
    _row(
        r"invalid function name\. must start with a letter or an underscore",
        tool_name_letter_first=True,
        tool_name_extra=".:",
        tool_name_limit=64,
    ),
    _row(
        r"input_schema does not support oneOf, allOf, or anyOf|not have 'oneOf'/'anyOf'/'allOf'",
        schema_alternatives=False,
    ),
    _row(r"property keys should match pattern", plain_members=True),
    _row(
        r"unknown name \"[^\"]+\" at 'tools\[\d+\]\.function_declarations\[\d+\]\.parameters"
        r"|parameters\.properties\[[^\]]+\]\S*: (?:only 'enum' and 'date-time' are supported|missing field)"
        r"|parameters\.properties: should be non-empty for object type",
        json_schema=False,
    ),
    _row(r"invalid schema for function .{0,200}is required to be supplied", ONCE, strict_tools=False),
    _row(
        r"input_schema(?:\.\w+)*: (?:json schema is invalid|field required|input should be)"
        r"|invalid schema for function .{0,200}(?:array schema missing items|is not valid under any of the"
        r"|schema must be a json schema of|is not of type)",
        valid_schemas=True,
    ),
    _row(
        r"tools\[\d+\]\.type: unknown variant `custom`|tools\[\d+\]\.type\S* .{0,60}'custom'",
        custom_tools=False,
    ),
    _row(r"hosted tool '(?P<tool>\w+)' is not supported", ONCE, hosted_tools=without_named("tool")),
    _row(
        r"tool use with function calling is unsupported|function calling cannot be combined",
        hosted_beside_functions=False,
    ),
    _row(r"toolConfig field must be defined|tool_result` blocks must define tools", history_needs_tools=True),
    _row(
        r"must be followed by tool messages responding|must be a response to a prec\w+ message with"
        r"|`tool_use` ids were found without `tool_result`",
        ONCE,
        strict_results=True,
    ),
    # Content.
    _row(
        r"only allowed for messages with role 'user', but this message with role 'tool' contains",
        media_in_results=False,
    ),
    _row(r"content\.type ?参数非法.{0,20}\['text'\]", SHORT, **_TEXT_ONLY),
    # One message may be at fault: its role takes no list (vLLM, system), or no media (tool).
    _row(r"content must be a string", ONCE, **_TEXT_ONLY),
    _row(r"messages\[\d+\]\S* unknown variant `image(?:_url)?`", ONCE, images=False),
    _row(r"messages\[\d+\]\S* unknown variant `(?:file|document)`", ONCE, documents=False),
    _row(r"messages\[\d+\]\S* unknown variant `input_audio`", ONCE, audio=False),
    _row(
        rf"support image inputs?{_END}|image(?:_url|s)? (?:input|content) (?:is )?not (?:supported|enabled)"
        rf"|image_url is only supported by certain models{_END}|unknown variant `image(?:_url)?`"
        r"|at most 0 image|is not a multimodal model|missing data required for image input"
        rf"|does not support (?:images?|vision){_END}",
        SHORT,
        images=False,
    ),
    _row(
        rf"does not support (?:pdf|document)s?(?: inputs?| files)?{_END}|unknown variant `(?:file|document)`",
        SHORT,
        documents=False,
    ),
    _row(
        rf"does not support audio(?: inputs?)?{_END}|audio input is not supported{_END}"
        r"|unknown variant `input_audio`",
        SHORT,
        audio=False,
    ),
    # Messages.
    _row(
        r"(?:role|tag)\b.{0,60}(?:variant|tag|role|support|value|:) ?[`'\"]?developer\b"
        r"|unknown role: developer|developer is not one of",
        developer_role=False,
    ),
    _row(
        r"system message must be at the beginning|unexpected role .?system|role: unknown variant `system`",
        system="leading",
    ),
    _row(rf"(?:system role|developer instruction) (?:is )?not (?:supported|enabled){_END}", system="user"),
    _row(r"roles must alternate", alternation=True, system="leading"),
    _row(r"first message must use the \"?user\"? role|must start with a user message", user_first=True),
    _row(
        r"does not support assistant message prefill|expected last role user or tool"
        r"|when the last message is from the assistant",
        prefill=False,
    ),
    # With thinking (llama.cpp), and with this text (Anthropic).
    _row(
        r"prefill is incompatible with|final assistant content cannot end with trailing whitespace",
        ONCE,
        prefill=False,
    ),
    _row(r"text content blocks must (?:be non-empty|contain non-whitespace)", blank_text=False),
    # The format of the answer.
    _row(
        r"response_format\.type' must be 'json_schema' or 'text'", outputs=frozenset({"json_schema", "text"})
    ),
    _row(
        r"response_format type is unavailable|`json_schema` is unavailable"
        r"|json_schema'? is (?:not supported|enabled only)|does not support response format `json_schema`",
        outputs=without("json_schema"),
    ),
    _row(r"contain the word 'json' in some form", ONCE, outputs=without("json_object")),
    _row(r"function calling with a response mime type", ONCE, outputs=frozenset({"text"})),
    _row(r"invalid schema for response_format", ONCE, outputs=without("json_schema")),
    _row(
        r"invalid 'stop': array too long\. expected an array with maximum length (?P<limit>\d+)",
        stop_limit=limit(),
    ),
)

#: A message with a condition is about a combination of settings.
CONDITION = r"\b(?:when|if|while|unless|until|together|combined|combination|at the same time)\b"


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern at the first refusal. Compiling the table at the start would slow every start."""
    return re.compile(pattern, re.IGNORECASE | re.DOTALL | re.ASCII)


def find_correction(failure: Failure, body: bytes = b"") -> Correction | None:
    """Find the correction of a refused request. `body`: the request of the client.

    None if the message names no cause, if the client must handle the error itself, or if the message only
    repeats a text of the request: that proves nothing about the model.
    """
    text = failure.message[:MAX_SEARCHED] + (f" [{failure.code}]" if failure.code else "")
    is_healable = failure.kind in HEALABLE_KINDS and failure.status in HEALABLE_STATUSES
    if is_final(text) or not (is_healable or failure.kind == "context_overflow"):
        return None
    for row in REFUSALS:
        match = _compile(row.pattern).search(text) if is_healable or row.is_output_limit else None
        if match is not None:
            groups = match.groupdict()
            changed = {name: change(groups) for name, change in row.facts.items()}
            if None not in changed.values():
                correction = Correction(changed, row.lifetime, row.refuses_seals)
                return None if repeats_request(match, body) else correction
    if not is_healable:
        return None
    named = change_field(failure.param, "") if failure.code in PARAMETER_CODES and failure.param else {}
    return _build_field_correction(named, text) if named else _find_fields(text, body)


def _find_fields(text: str, body: bytes) -> Correction | None:
    """Find the correction for the fields that the text names. All are named in the same form of message."""
    for pattern in NAMED_FIELDS:
        changed: dict[str, object] = {}
        for match in _compile(pattern).finditer(text):
            if repeats_request(match, body):
                return None
            found = change_field(match["field"], match.groupdict().get("parent") or "")
            changed = merge_facts(changed, found)
        if changed:
            return _build_field_correction(changed, text)
    return None


def _build_field_correction(facts: dict[str, object], text: str) -> Correction:
    if _compile(CONDITION).search(text):
        return Correction(facts, ONCE)
    return Correction(facts, LONG if SHORT_LIVED.isdisjoint(facts) else SHORT)
