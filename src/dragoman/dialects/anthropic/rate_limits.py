"""The rate-limit headers of Anthropic, and those with which Claude Code shows the budget of a client key.

Anthropic sends the latter to its subscribers. Claude Code shows a notice when the threshold header appears.
On a refusal it shows the message of the error, but only without `representative-claim` and `overage-status`:
with them it writes a message of its own.
"""

import math
import re

from dragoman.dialects.rate_limits import BudgetStanding, RateLimitFormat

RATE_LIMITS = RateLimitFormat(
    vendor="anthropic",
    name="anthropic-ratelimit-{unit}-{part}",
    reset="date",
    forwarded=re.compile(r"anthropic-ratelimit-[a-z0-9-]{1,60}"),
    account=re.compile(r"anthropic-ratelimit-unified-.*"),
)

PREFIX = "anthropic-ratelimit-unified-"
#: The used parts of a budget at which Claude Code shows a notice.
THRESHOLDS = (0.95, 0.75)
#: The largest part that a client sees while its requests still pass.
MOST_ALLOWED = 0.99
#: For a refusal because the budget cannot be read. Without it Claude Code shows, before the message, that the
#: server limits requests.
UNKNOWN_BUDGET = {f"{PREFIX}overage-disabled-reason": "fetch_error"}

_PERIODS = {"day": "daily", "month": "monthly"}


def write_budget_headers(standing: BudgetStanding, now: float) -> dict[str, str]:
    """The headers for a response, or for the refusal if the budget is spent."""
    reset = str(standing.reset)
    headers = {"reset": reset, "overage-reset": reset}
    if standing.is_spent:
        headers |= {
            "status": "rejected",
            "overage-utilization": "1",
            "overage-surpassed-threshold": "1",
            "overage-period": _PERIODS[standing.period],
            "overage-disabled-reason": "org_spend_cap_reached",
        }
        wait = max(1, math.ceil(standing.reset - now))
        return {"retry-after": str(wait), **_add_prefix(headers)}
    share = min(math.floor(standing.share * 100) / 100, MOST_ALLOWED)
    passed = next((each for each in THRESHOLDS if share >= each), None)
    status = "allowed" if passed is None else "allowed_warning"
    headers |= {
        "status": status,
        "representative-claim": "overage",
        "overage-status": status,
        "overage-utilization": f"{share:.2f}",
    }
    if passed is not None:
        headers["overage-surpassed-threshold"] = str(passed)
    return _add_prefix(headers)


def _add_prefix(headers: dict[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{name}": value for name, value in headers.items()}
