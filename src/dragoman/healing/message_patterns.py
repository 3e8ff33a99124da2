"""Patterns of error messages: those that only name a refused field, and those that are never healed.

`corrections.FIELD_FACTS` has the facts about a named field.
"""

import re
from functools import cache

#: Codes of OpenAI with which `param` is the refused field. Its message may name only the value.
PARAMETER_CODES = frozenset({"unsupported_parameter", "unknown_parameter", "unsupported_value"})

#: Messages that name a field and refuse it. The parent is the path of its object.
NAMED_FIELDS: tuple[str, ...] = (
    # OpenAI, Azure, and servers that copy their texts.
    r"un(?:supported|known|recognized) (?:parameter|value|field|argument|property|key): "
    r"[`'\"]?(?P<field>[\w.\[\]-]+)",
    r"unrecognized request arguments? supplied: (?P<field>[\w.]+)",
    r"'(?P<field>[\w.\[\]]+)' parameter is only allowed when",
    r"additional properties are not allowed \('(?P<field>\w+)' was unexpected\)(?: - '(?P<parent>[\w.]+)')?",
    # Pydantic: Anthropic, Mistral, vLLM, SGLang.
    r"(?P<field>[\w.\[\]-]+): extra inputs are not permitted",
    # Groq, Cerebras.
    r"'(?P<parent>[\w.]+)' : property '(?P<field>\w+)' is unsupported",
    r"property '(?P<field>[\w.]+)' is unsupported",
    r"(?P<field>messages\[\d+\]\.\w+): \w+ is not supported with this model",
    # Google.
    r"unknown name \"(?P<field>\w+)\"(?: at '(?P<parent>[\w.\[\]]+)')?: cannot find field",
    # xAI.
    r"argument not supported on this model: (?P<field>\w+)",
    r"does not support parameter (?P<field>\w+)",
    # Moonshot, Zhipu.
    r"invalid (?P<field>temperature|top_p|presence_penalty|frequency_penalty|n): only \S+ is allowed",
    r"(?P<field>\w+) ?参数非法",
    # serde: DeepSeek and other servers in Rust.
    r"unknown field `(?P<field>\w+)`",
    # Anthropic, and others in their own words.
    r"`(?P<field>\w+)` is deprecated for this model",
    r"[`'\"](?P<field>\w+)[`'\"] (?:parameter )?is not (?:supported|available|allowed)\b",
    r"\b(?P<field>[a-z]+(?:_[a-z]+)+) is not (?:supported|available)\b",
)

#: Messages about money, keys, accounts, permissions, policies and rates. Vendors send some with status 400.
NEVER_HEALED = (
    r"\bcredits?\b|\bbalance\b|\bbilling\b|\bquota\b|\bpayment|\binsufficient\b|\bapi[ _-]?keys?\b"
    r"|authenticat|unauthori[sz]ed|\bpermissions?\b|\bnot have access\b|\bnot allowed to\b|\bforbidden\b(?!_)"
    r"|content[ _](?:policy|filter|management)|\bsafety (?:system|reasons|checks?|settings)\b|moderation"
    r"|usage polic|\bviolat|\bflagged\b|\bblocked\b|rate[ _]limit|too many requests|余额|欠费|违规|敏感"
    r"|\bplans?\b|\bsubscri|\bupgrad|\btiers?\b|\blicen[sc]e|\baccounts?\b|\borgani[sz]ations?\b|\bspend"
    r"|\bfunds\b|\bexpired\b|\bdenied\b|\bunsafe\b|\bharmful\b|\bsafety filters?\b|\brejected\b"
    r"|\bprohibited\b|\bterms\b|\bcountry\b|\bregions?\b|\btrial\b"
)


def is_final(message: str) -> bool:
    """Whether the client must handle the error itself, even if its message names something else."""
    return _compile().search(message) is not None


@cache
def _compile() -> re.Pattern[str]:
    return re.compile(NEVER_HEALED, re.IGNORECASE | re.ASCII)
