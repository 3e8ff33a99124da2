"""The response headers that steer a client's retries, the same for every dialect.

A 429 always names a time: Codex gives up at once on one that does not. A quota that is used up names none
and says that trying again is no use.
"""

import math
import re

from dragoman.hub.errors import Failure

#: Seconds to wait where an upstream says "later" without saying when.
DEFAULT_WAIT = 1.0

#: Kinds of failure that waiting does not mend.
FINAL = frozenset({"quota", "billing"})

_VALUE = re.compile(r"[!-~]{1,200}")


def retry_headers(failure: Failure, *, request_id: str) -> dict[str, str]:
    """`request_id` is the name of the header that carries the request's id in this dialect."""
    headers: dict[str, str] = {}
    if _VALUE.fullmatch(failure.request_id):
        headers[request_id] = failure.request_id
    if failure.kind in FINAL:
        headers["x-should-retry"] = "false"
        return headers
    wait = failure.retry_after
    if wait is None and failure.kind == "rate_limit":
        wait = DEFAULT_WAIT
    if wait is not None:
        headers["retry-after"] = str(max(1, math.ceil(wait)))
        headers["retry-after-ms"] = str(max(1, math.ceil(wait * 1000)))
    return headers
