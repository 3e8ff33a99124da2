"""Messages that no change of the request ends."""

import re
from functools import cache

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
