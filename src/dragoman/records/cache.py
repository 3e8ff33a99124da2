"""Why a provider's prompt cache missed: for each turn of a session, the place and the cause.

A turn is compared with the earlier turn of its session that its prompt continues. Both prompts are those that
went upstream. The client's own prompts decide whether the agent or the gateway made the difference.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from dragoman.accounts.estimates import PriceList
from dragoman.config.provider import TargetName
from dragoman.hub.usage import Usage
from dragoman.records.filters import Condition
from dragoman.records.prompts import PromptBreak, PromptPart, find_break, list_changed_settings, list_parts
from dragoman.records.reading import find_session_id, iterate_turns, read_raw
from dragoman.records.stored_turn import Row

#: Earlier turns with which a turn is compared. An agent sends others between two turns of a conversation.
MAX_EARLIER = 12
#: Tokens. Providers cache no shorter prompts.
MIN_CACHED = 1024
#: The share of the earlier prompt that a turn must repeat to continue it.
MIN_SHARED = 0.05
#: Seconds after which providers forget a prompt by default.
LIFETIME = 300.0

#: `first`: no earlier turn has this prompt. `short`: too short for a cache. `hit`: nearly all of the earlier
#: prompt was read from the cache. `agent`, `gateway`: the prompt was changed there. `route`: another target.
#: `expiry`: nothing changed, but too much time passed. `provider`: nothing changed, and yet it was not used.
MissCause = Literal["first", "short", "hit", "agent", "gateway", "route", "expiry", "provider", "unknown"]

_VENDOR_REASON = re.compile(rb'"cache_miss_reason"\s*:\s*("[^"]{0,200}"|\{[^{}]{0,500}\})')


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """The cache in one turn. Counts of tokens are None if the upstream did not report them."""

    number: int
    sub_agent: str
    target: str
    #: The turn that it continues; 0: none.
    previous: int = 0
    input: int | None = None
    cached: int | None = None
    uncached: int | None = None
    #: Tokens of the earlier prompt that were not read from the cache, and what that cost in micro-dollars.
    lost: int = 0
    lost_cost: int | None = None
    cause: MissCause = "unknown"
    #: The first difference of the prompts that went upstream, and of those that the client sent.
    upstream_break: PromptBreak | None = None
    client_break: PromptBreak | None = None
    settings: list[str] = []
    #: What the provider itself reports.
    vendor: str = ""


class _Prompt(NamedTuple):
    """A turn with its prompts, read once."""

    row: Row
    client: list[PromptPart]
    upstream: list[PromptPart]
    request: Mapping[str, object]


def diagnose_session(
    connection: sqlite3.Connection, session: str, prices: PriceList | None = None
) -> list[CacheReport]:
    """A report for each turn whose contents are recorded, in the order of the turns."""
    session = find_session_id(connection, session)
    rows = iterate_turns(connection, Condition("session = ? AND level = 'bodies'", (session,)))
    return list(_diagnose(connection, rows, prices))


def diagnose_turn(connection: sqlite3.Connection, session: str, number: int) -> CacheReport | None:
    """The report for one turn, compared with the turns shortly before it."""
    low = number - MAX_EARLIER
    condition = Condition(
        "session = ? AND level = 'bodies' AND number BETWEEN ? AND ?", (session, low, number)
    )
    reports = list(_diagnose(connection, iterate_turns(connection, condition), None))
    return reports[-1] if reports and reports[-1].number == number else None


def _diagnose(
    connection: sqlite3.Connection, rows: Iterable[Row], prices: PriceList | None
) -> Iterator[CacheReport]:
    earlier: list[_Prompt] = []
    for row in rows:
        prompt = _read_prompt(connection, row)
        if prompt is None:
            continue
        previous = _find_previous(prompt, earlier)
        vendor = _find_vendor_reason(connection, row["id"])
        yield build_report(prompt, previous, prices, vendor)
        earlier = [*earlier[-MAX_EARLIER + 1 :], prompt]


def build_report(
    prompt: _Prompt, previous: _Prompt | None, prices: PriceList | None = None, vendor: str = ""
) -> CacheReport:
    """Compare a turn with the one that it continues."""
    row = prompt.row
    read, whole = row["cache_read"], row["input"]
    report = CacheReport(
        number=row["number"],
        sub_agent=row["sub_agent"],
        target=row["target"],
        input=whole,
        cached=read,
        uncached=None if whole is None else max(0, whole - (read or 0)),
        vendor=vendor,
        cause="short" if whole is not None and whole < MIN_CACHED else "first",
    )
    if previous is None:
        return report
    before = previous.row
    upstream = find_break(previous.upstream, prompt.upstream)
    client = find_break(previous.client, prompt.client)
    settings = list_changed_settings(previous.request, prompt.request)
    lost = max(0, min(before["input"] or 0, whole or 0) - (read or 0)) if read is not None else 0
    cause = _find_cause(row, before, upstream, client, settings, lost)
    is_miss = cause not in ("hit", "short")
    return msgspec.structs.replace(
        report,
        previous=before["number"],
        upstream_break=upstream,
        client_break=client,
        settings=settings,
        cause=cause,
        lost=lost if is_miss else 0,
        lost_cost=_price(row, lost, prices) if is_miss and lost else None,
    )


def _find_cause(
    row: Row,
    before: Row,
    upstream: PromptBreak | None,
    client: PromptBreak | None,
    settings: list[str],
    lost: int,
) -> MissCause:
    length = before["input"] or 0
    # A provider caches whole blocks of tokens, so the last ones of the earlier prompt are always read again.
    if row["cache_read"] is not None and length >= MIN_CACHED and lost <= max(MIN_CACHED, length // 10):
        return "hit"
    if row["target"] != before["target"]:
        return "route" if row["model"] == before["model"] else "agent"
    if upstream is not None:
        return "gateway" if client is None else "agent"
    if length < MIN_CACHED or row["cache_read"] is None:
        return "short" if length < MIN_CACHED else "unknown"
    if settings:
        return "agent"
    gap = row["started"] - (before["started"] + before["seconds"])
    return "expiry" if gap > LIFETIME else "provider"


def _find_previous(prompt: _Prompt, earlier: list[_Prompt]) -> _Prompt | None:
    """The earlier turn with which this one shares the longest beginning; the later one of two equals."""
    best, most = None, 0
    for each in reversed(earlier):
        if each.row["sub_agent"] != prompt.row["sub_agent"]:
            continue
        found = find_break(each.client, prompt.client)
        shared = 1.0 if found is None else found.shared
        length = round(shared * sum(len(part.text) for part in each.client))
        if shared > MIN_SHARED and length > most and len(each.client) <= len(prompt.client) * 2:
            best, most = each, length
    return best


def _read_prompt(connection: sqlite3.Connection, row: Row) -> _Prompt | None:
    try:
        requests = [
            msgspec.json.decode(read_raw(connection, row["id"], part) or b"{}", type=dict[str, object])
            for part in ("client_request", "upstream_request")
        ]
        client, upstream = (list_parts(request) for request in requests)
    except (ValueError, RecursionError):
        return None
    return _Prompt(row, client, upstream, requests[1]) if client and upstream else None


def _find_vendor_reason(connection: sqlite3.Connection, turn: int) -> str:
    found = _VENDOR_REASON.search(read_raw(connection, turn, "upstream_reply") or b"")
    return found[1].decode("utf-8", "replace").strip('"') if found else ""


def _price(row: Row, lost: int, prices: PriceList | None) -> int | None:
    """What the lost tokens cost more than tokens from the cache."""
    provider, _, model = row["target"].partition("/")
    usage = Usage(
        input=row["input"], cache_read=row["cache_read"], cache_write=row["cache_write"], output=row["output"]
    )
    cached = msgspec.structs.replace(
        usage,
        cache_read=(row["cache_read"] or 0) + lost,
        cache_write=max(0, (row["cache_write"] or 0) - lost),
    )
    try:
        paid, ideal = (
            prices.cost(TargetName(provider, model), each) if prices else None for each in (usage, cached)
        )
    except KeyError:
        return None
    return None if paid is None or ideal is None else max(0, paid - ideal)
