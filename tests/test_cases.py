"""Every golden case, in every direction: exact output, legal output, cuts that do not matter, and the same
answer whether it comes streamed or whole.
"""

import re
from collections import Counter

import msgspec
import pytest

from dragoman.dialects.registry import dialect_named
from tests.cases.case_file import (
    DIALECTS,
    RULE,
    Case,
    Outcome,
    case_files,
    filled,
    given_bytes,
    read_case,
    written,
)
from tests.cases.run import is_stream, run_reply, run_request, run_stream, run_whole, upstream_of
from tests.sse import collect_sse

CASES = [read_case(path) for path in case_files()]
REPLIES = [
    pytest.param(case, client, id=f"{case.name}-{client}") for case in CASES for client in case.clients
]
STREAMS = [
    param
    for param, case in zip(REPLIES, (c for c in CASES for _ in c.clients), strict=True)
    if is_stream(case)
]
REQUESTS = [
    pytest.param(case, target, id=f"{case.name}-{target}") for case in CASES for target in case.targets
]

#: Whole Chat replies have their text in one place and their calls in another.
ORDER_IS_IN_THE_STREAM = {"streams/chat-text-call-text"}
MADE_UP = re.compile(r"(?:[a-z]+[_-])?[0-9a-f]{24}")


def expected(case: Case, kind: str, dialect: str) -> str:
    section = case.find(kind, dialect)
    assert section is not None, "no expectation yet: python -m tools.golden, then review"
    return section.text


@pytest.mark.parametrize(("case", "client"), REPLIES)
def test_a_reply_comes_out_as_its_case_states(case: Case, client: str) -> None:
    assert str(run_reply(case, client)) == expected(case, "client", client)


@pytest.mark.parametrize(("case", "target"), REQUESTS)
def test_a_request_comes_out_as_its_case_states(case: Case, target: str) -> None:
    assert str(run_request(case, target)) == expected(case, "to", target)


@pytest.mark.parametrize(("case", "client"), STREAMS)
def test_every_stream_is_legal_whatever_came_in(case: Case, client: str) -> None:
    stream, _ = run_stream(case, client, [given_bytes(upstream_of(case))])
    assert dialect_named(client).check_stream(stream) == []


@pytest.mark.rule("R59")
@pytest.mark.parametrize(("case", "client"), STREAMS)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_where_the_network_cuts_the_bytes_makes_no_difference(case: Case, client: str, size: int) -> None:
    given = given_bytes(upstream_of(case))
    pieces = [given[start : start + size] for start in range(0, len(given), size)]
    whole, _ = run_stream(case, client, [given])
    cut, translator = run_stream(case, client, pieces)
    assert cut == whole
    assert str(Outcome("", translator.losses)) == str(Outcome("", run_reply(case, client).losses))


@pytest.mark.rule("R4", "R72", "R90", "R111")
@pytest.mark.parametrize(("case", "client"), STREAMS)
def test_a_whole_reply_states_the_same_as_the_stream(case: Case, client: str) -> None:
    stream, translator = run_stream(case, client, [given_bytes(upstream_of(case))])
    if translator.failure is None and case.name not in ORDER_IS_IN_THE_STREAM:
        assert masked(run_whole(case, client)) == masked(collect_sse(dialect_named(client), stream))


def masked(body: object) -> object:
    """The body with the ids that we made up numbered as they appear: their values count what came before."""
    seen: dict[str, str] = {}
    return msgspec.json.decode(
        MADE_UP.sub(
            lambda found: seen.setdefault(found[0], f"made-{len(seen)}"), msgspec.json.encode(body).decode()
        )
    )


def test_every_case_has_a_title_and_known_kinds_of_rules() -> None:
    for case in CASES:
        assert case.comments[0].startswith("# "), case.name
        assert case.rules, case.name
        assert [rule for rule in case.rules if not RULE.fullmatch(rule)] == [], case.name


def test_no_two_cases_have_the_same_title_and_upstream() -> None:
    titles = Counter((case.comments[0], case.name.split("-")[0]) for case in CASES)
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_dialect_is_an_upstream_and_a_client_of_some_case() -> None:
    sections = {(section.kind, section.dialect) for case in CASES for section in case.sections}
    assert {
        (kind, dialect) for kind in ("upstream", "client", "request", "to") for dialect in DIALECTS
    } <= sections


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_file_reads_and_writes_back_as_it_stands(case: Case) -> None:
    assert written(case) == case.path.read_text(encoding="utf-8")


def test_filling_a_case_replaces_what_was_expected_and_adds_what_was_missing() -> None:
    case = next(case for case in CASES if case.name == "streams/chat-text-then-call")
    answered = filled(case, lambda _, client: Outcome(f"for {client}"), lambda _, target: Outcome(target))
    assert {s.dialect: s.text for s in answered.sections if s.kind == "client"} == {
        dialect: f"for {dialect}" for dialect in DIALECTS
    }
