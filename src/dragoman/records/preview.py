"""Tries prompt rules on recorded requests: what they change, and whether prompts keep their beginning."""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from dragoman.config.config import Config
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import DragomanError
from dragoman.pipeline.plan import RequestPlan
from dragoman.prompts.rules import apply_prompts, compile_prompts
from dragoman.records.cache import MAX_EARLIER
from dragoman.records.differences import Difference, compare
from dragoman.records.filters import Condition
from dragoman.records.prompts import PromptBreak, PromptPart, find_break, list_parts
from dragoman.records.reading import (
    RecordNotFound,
    build_metadata,
    find_session_id,
    iterate_turns,
    read_raw,
    read_turn,
)
from dragoman.records.stored_turn import Row
from dragoman.routing.traits import RequestTraits


class PromptPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules make of one recorded request.

    `broken`: where the changed prompt leaves that of the turn that it continues; the client's does not.
    """

    number: int
    rules: list[str]
    differences: list[Difference]
    broken: PromptBreak | None = None


class _TriedPrompt(NamedTuple):
    """The prompt of a turn as the client sent it, and after the rules."""

    sub_agent: str
    client: list[PromptPart]
    changed: list[PromptPart]


def preview_session(connection: sqlite3.Connection, session: str, config: Config) -> list[PromptPreview]:
    """Apply the rules of the configuration to the requests of a session."""
    session = find_session_id(connection, session)
    return list(preview_prompts(config, _read_requests(connection, session, Condition("1"))))


def preview_turn(connection: sqlite3.Connection, session: str, number: int, config: Config) -> PromptPreview:
    """Apply the rules to one request, and to those shortly before it, for the comparison of the prompts."""
    session = find_session_id(connection, session)
    read_turn(connection, session, number)
    near = Condition("number BETWEEN ? AND ?", (number - MAX_EARLIER, number))
    found = list(preview_prompts(config, _read_requests(connection, session, near)))
    if not found or found[-1].number != number:
        raise RecordNotFound(f"turn {number} has no request that the rules could change")
    return found[-1]


def preview_prompts(config: Config, turns: Iterable[tuple[Row, bytes]]) -> Iterator[PromptPreview]:
    """Apply the rules to the requests of turns in their order. The time of a turn is that of its request."""
    prompts = compile_prompts(config.prompts)
    earlier: list[_TriedPrompt] = []
    for row, body in turns:
        plan = RequestPlan(build_metadata(row), body)
        plan.model = row["model"]
        now = datetime.fromtimestamp(row["started"])
        traits = RequestTraits(plan, key=row["key"], roles=config.roles, clock=partial(_get, now))
        reports: list[Intervention] = []
        try:
            plan.rewrite(partial(apply_prompts, prompts=prompts, traits=traits, report=reports.append))
            original, changed = msgspec.json.decode(body), msgspec.json.decode(plan.body)
            prompt = _TriedPrompt(row["sub_agent"], list_parts(original), list_parts(changed))
        except (ValueError, RecursionError, DragomanError):
            # A request that the gateway refused, because it is no request of its API.
            continue
        previous = _find_continued(prompt, earlier)
        rules = [name for report in reports for name in report.detail]
        yield PromptPreview(
            number=row["number"],
            rules=rules,
            differences=compare(original, changed) if rules else [],
            broken=find_break(previous.changed, prompt.changed) if previous else None,
        )
        earlier = [*earlier[-MAX_EARLIER + 1 :], prompt]


def _get(now: datetime) -> datetime:
    return now


def _find_continued(prompt: _TriedPrompt, earlier: list[_TriedPrompt]) -> _TriedPrompt | None:
    """The latest earlier prompt that the client's prompt only extends. Other conversations come between."""
    for each in reversed(earlier):
        is_shorter = len(each.client) <= len(prompt.client)
        if each.sub_agent == prompt.sub_agent and is_shorter and not find_break(each.client, prompt.client):
            return each
    return None


def _read_requests(
    connection: sqlite3.Connection, session: str, condition: Condition
) -> Iterator[tuple[Row, bytes]]:
    """The turns of a session with their requests, one by one."""
    own = Condition(f"session = ? AND {condition.sql}", (session, *condition.values))
    for row in iterate_turns(connection, own):
        body = read_raw(connection, row["id"], "client_request")
        if body is not None:
            yield read_turn(connection, session, row["number"]), body
