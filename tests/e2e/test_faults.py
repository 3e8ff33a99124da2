"""Upstreams that go wrong in every known way: the client recovers or gets an error, and no request hangs.

Each test plays one fault to every client dialect with every upstream dialect at the same time, in the
translating lane and, where both sides have the same dialect, in the forwarding lane too.
"""

import time
from collections.abc import Callable

import pytest

from tests.e2e.all_pairs import (
    ANSWER,
    GOOD,
    HASTE,
    PATIENCE,
    PairResult,
    Steps,
    faulty_gateway,
    run_all_pairs,
)
from tests.e2e.asking import ask, leave_early
from tests.e2e.clients.python_tools import GRIPS
from tests.e2e.environment import Environment
from tests.e2e.upstream.reply_writers.registry import DIALECTS
from tests.e2e.upstream.script import Fault, FaultKind, Manner, Place, Turn, Use

CALL = Turn(reasoning="A thought.", uses=(Use("read", "notes.txt"),))
BREAKS = ("error", "reset", "end")


def find_problems(results: list[PairResult], is_right: Callable[[PairResult], bool]) -> list[str]:
    """Every exchange that is not right or not legal, with what the client received."""
    found = []
    for result in results:
        reply = result.reply
        illegal = result.violations()
        told_in_short = f"{reply.outcome()} {reply.status} {reply.text!r} {reply.error!r} {reply.error_kind}"
        counted = f"{result.requests('first')} + {result.requests('second')} requests"
        if not is_right(result) or reply.garbled or illegal:
            what = [*reply.garbled, *illegal, *result.conversation.refusals][:3]
            found.append(f"{result.name}: {told_in_short}, {counted}, {what}")
    return found


def has_answer(result: PairResult) -> bool:
    return result.reply.outcome() == "finished" and result.reply.text == ANSWER


def recovered_after(requests: int, elsewhere: int = 0) -> Callable[[PairResult], bool]:
    """The client got the whole answer; so often were the first and the second provider asked."""

    def is_right(result: PairResult) -> bool:
        counts = result.requests("first"), result.requests("second")
        return has_answer(result) and counts == (requests, elsewhere)

    return is_right


def test_a_healthy_reply_needs_one_request(environment: Environment) -> None:
    assert find_problems(run_all_pairs(environment, [GOOD]), recovered_after(1)) == []


def test_a_healthy_whole_reply_needs_one_request(environment: Environment) -> None:
    assert find_problems(run_all_pairs(environment, [GOOD], stream=False), recovered_after(1)) == []


@pytest.mark.parametrize(
    "manner",
    [Manner(drip=3), Manner(drip=1), Manner(interleaved=True)],
    ids=["three bytes at a time", "byte by byte", "interleaved"],
)
def test_the_manner_of_sending_changes_nothing(environment: Environment, manner: Manner) -> None:
    assert find_problems(run_all_pairs(environment, [GOOD], manner=manner), recovered_after(1)) == []


@pytest.mark.rule("R59", "H75", "H76")
def test_line_ends_and_comments_of_the_upstream_do_not_reach_a_translated_stream(
    environment: Environment,
) -> None:
    results = run_all_pairs(environment, [GOOD], manner=Manner(crlf=True, comments=True))
    translated = [one for one in results if one.client != one.upstream or one.route == "renamed"]
    assert find_problems(translated, recovered_after(1)) == []


@pytest.mark.rule("R110", "H74")
@pytest.mark.parametrize("status", [409, 429, 500, 502, 503])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_passing_failure_is_not_seen_by_the_client(
    environment: Environment, status: int, stream: bool
) -> None:
    steps: Steps = [Fault(kind="status", status=status), GOOD]
    assert find_problems(run_all_pairs(environment, steps, stream=stream), recovered_after(2)) == []


@pytest.mark.parametrize("kind", ["html", "empty", "refused"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_no_reply_at_all_is_tried_again(environment: Environment, kind: FaultKind, stream: bool) -> None:
    steps: Steps = [Fault(kind=kind), GOOD]
    assert find_problems(run_all_pairs(environment, steps, stream=stream), recovered_after(2)) == []


@pytest.mark.rule("H74")
@pytest.mark.parametrize("place", ["start", "opened"])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_before_its_first_word_is_tried_again(
    environment: Environment, kind: FaultKind, place: Place
) -> None:
    steps: Steps = [Fault(kind=kind, place=place, turn=GOOD), GOOD]
    assert find_problems(run_all_pairs(environment, steps), recovered_after(2)) == []


def test_a_whole_reply_that_breaks_is_tried_again(environment: Environment) -> None:
    steps: Steps = [Fault(kind="reset"), GOOD]
    assert find_problems(run_all_pairs(environment, steps, stream=False), recovered_after(2)) == []


def test_a_whole_reply_where_a_stream_was_asked_for_is_taken(environment: Environment) -> None:
    assert (
        find_problems(run_all_pairs(environment, [Fault(kind="json", turn=GOOD)]), recovered_after(1)) == []
    )


def told_of_the_break(result: PairResult) -> bool:
    """An error and no success; or, if nothing was passed on yet, a second try that went well."""
    reply = result.reply
    if result.requests() == 2:
        return has_answer(result)
    # Some Gemini clients overlook an error in the stream, so that they also see the connection break.
    breaks_rightly = result.client == "gemini" or not reply.broke
    return not reply.is_finished and bool(reply.error) and breaks_rightly


@pytest.mark.rule("R127", "H72", "H73", "P12", "P17", "P18", "P19")
@pytest.mark.parametrize("place", ["reasoning", "text", "end"])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_in_its_text_is_never_taken_for_a_whole_one(
    environment: Environment, kind: FaultKind, place: Place
) -> None:
    results = run_all_pairs(environment, [Fault(kind=kind, place=place, turn=GOOD), GOOD])
    assert find_problems(results, told_of_the_break) == []


@pytest.mark.rule("R127", "H73", "P16")
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_in_a_call_is_never_taken_for_a_whole_one(
    environment: Environment, kind: FaultKind
) -> None:
    results = run_all_pairs(environment, [Fault(kind=kind, place="call", turn=CALL), GOOD])
    assert find_problems(results, told_of_the_break) == []


def test_what_was_sent_before_the_break_reaches_the_client(environment: Environment) -> None:
    results = run_all_pairs(environment, [Fault(kind="end", place="end", turn=GOOD), GOOD])
    assert find_problems(results, lambda one: one.reply.text == ANSWER) == []


KINDS = {
    400: {
        "anthropic": "invalid_request_error",
        "openai": "invalid_request_error",
        "gemini": "INVALID_ARGUMENT",
    },
    # The key is the gateway's: with these statuses agents would ask their user to log in.
    401: {"anthropic": "api_error", "openai": "provider_key_refused", "gemini": "UNAVAILABLE"},
    403: {"anthropic": "api_error", "openai": "provider_key_refused", "gemini": "UNAVAILABLE"},
    404: {"anthropic": "not_found_error", "openai": "model_not_found", "gemini": "NOT_FOUND"},
}


@pytest.mark.parametrize("status", list(KINDS))
def test_a_refusal_is_reported_in_the_words_of_the_client_after_one_request(
    environment: Environment, status: int
) -> None:
    def is_right(result: PairResult) -> bool:
        kind = KINDS[status][result.client.partition("_")[0]]
        reply = result.reply
        shown = status if status not in (401, 403) else 503 if result.client == "gemini" else 502
        return (reply.status, reply.error_kind, result.requests()) == (shown, kind, 1)

    steps: Steps = [Fault(kind="status", status=status, message="no, because"), GOOD]
    assert find_problems(run_all_pairs(environment, steps), is_right) == []


@pytest.mark.rule("R114")
def test_a_refused_key_is_reported_to_be_the_gateways_own(environment: Environment) -> None:
    results = run_all_pairs(environment, [Fault(kind="status", status=401, message="bad key")])
    assert find_problems(results, lambda one: "gateway's key" in one.reply.error) == []


STATUS_OF_OVERLOAD = {"anthropic": 529, "openai_chat": 503, "openai_responses": 503, "gemini": 503}


def test_a_lasting_failure_is_reported_with_its_status_after_all_tries(environment: Environment) -> None:
    def is_right(result: PairResult) -> bool:
        # Once a waiting client has got a sign of life, the status is spent and the error comes in the stream.
        status = result.reply.status
        fits = status in (200, STATUS_OF_OVERLOAD[result.client])
        return fits and result.reply.outcome() == "failed" and result.requests() == 2

    assert find_problems(run_all_pairs(environment, [Fault(kind="status", status=503)]), is_right) == []


@pytest.mark.rule("R110", "R128")
def test_a_long_wait_is_left_to_the_client_and_shortened(environment: Environment) -> None:
    """Clients would really sleep for minutes, and Codex gives up without the header."""

    def is_right(result: PairResult) -> bool:
        reply = result.reply
        wait = int(reply.headers.get("retry-after", "0"))
        return reply.status == 429 and result.requests() == 1 and 0 < wait <= 60 and "300 s" in reply.error

    fault = Fault(kind="status", status=429, headers=(("retry-after", "300"),))
    assert find_problems(run_all_pairs(environment, [fault, GOOD]), is_right) == []


def test_a_short_wait_is_waited_for(environment: Environment) -> None:
    begun = time.monotonic()
    fault = Fault(kind="status", status=429, headers=(("retry-after", "1"),))
    assert find_problems(run_all_pairs(environment, [fault, GOOD]), recovered_after(2)) == []
    assert time.monotonic() - begun >= 1.0


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        (Fault(kind="status", status=500), 2),
        (Fault(kind="status", status=401), 1),
        (Fault(kind="status", status=404), 1),
        (Fault(kind="status", status=429), 1),
        (Fault(kind="status", status=503), 1),
        # A request on a kept connection that was closed meanwhile is sent once more on a new one.
        (Fault(kind="refused"), 4),
        (Fault(kind="html"), 2),
        (Fault(kind="empty"), 2),
        (Fault(kind="error", place="opened"), 2),
        (Fault(kind="silence", place="start", seconds=PATIENCE), 1),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else "",
)
def test_the_next_target_takes_over_before_the_first_word(
    environment: Environment, fault: Fault, most: int
) -> None:
    """A target that has no room is not asked twice while another is there."""

    def is_right(result: PairResult) -> bool:
        return has_answer(result) and result.requests() <= most and result.requests("second") == 1

    steps: Steps = {"first": [fault], "second": [GOOD]}
    route = "hastypair" if fault.kind == "silence" else "pair"
    assert find_problems(run_all_pairs(environment, steps, route=route), is_right) == []


@pytest.mark.rule("P56")
def test_the_only_target_is_asked_again_however_often_it_failed(environment: Environment) -> None:
    failures = [Fault(kind="status", status=401)] * 3
    conversation = environment.upstream.open([*failures, GOOD], GRIPS)
    gateway = faulty_gateway(environment, "openai_chat")
    model, prompt = f"alone-{conversation.key}", f"This is {conversation.key}."
    reply = [environment.run(ask("anthropic", gateway.url, model, prompt)) for _ in range(4)]
    assert [one.status for one in reply] == [502, 502, 502, 200]


def test_no_other_target_is_asked_when_the_request_itself_is_refused(environment: Environment) -> None:
    steps: Steps = {"first": [Fault(kind="status", status=400)], "second": [GOOD]}
    results = run_all_pairs(environment, steps, route="pair")
    assert find_problems(results, lambda one: one.reply.status == 400 and not one.requests("second")) == []


@pytest.mark.rule("H74")
def test_no_other_target_goes_on_after_the_first_word(environment: Environment) -> None:
    def is_right(result: PairResult) -> bool:
        if result.requests("second"):
            return has_answer(result)
        return result.reply.outcome() == "failed" and not result.reply.is_finished

    steps: Steps = {"first": [Fault(kind="reset", place="end", turn=GOOD)], "second": [GOOD]}
    assert find_problems(run_all_pairs(environment, steps, route="pair"), is_right) == []


def test_the_last_failure_is_reported_when_every_target_fails(environment: Environment) -> None:
    steps: Steps = {
        "first": [Fault(kind="status", status=404, message="first does not have it")],
        "second": [Fault(kind="status", status=404, message="second does not have it")],
    }
    results = run_all_pairs(environment, steps, route="pair")
    assert find_problems(results, lambda one: "second does not have it" in one.reply.error) == []


@pytest.mark.parametrize("place", ["start", "text"])
def test_a_silence_within_the_limit_is_waited_out(environment: Environment, place: Place) -> None:
    steps: Steps = [Fault(kind="silence", place=place, seconds=0.6 * HASTE, turn=GOOD)]
    assert find_problems(run_all_pairs(environment, steps), recovered_after(1)) == []


@pytest.mark.rule("R128")
@pytest.mark.parametrize("place", ["start", "text"])
def test_a_silence_beyond_the_limit_ends_in_an_error(environment: Environment, place: Place) -> None:
    """Without the limit the client would give up before the silence is over."""
    steps: Steps = [Fault(kind="silence", place=place, seconds=PATIENCE, turn=GOOD)]
    results = run_all_pairs(environment, steps, route="hasty")
    assert (
        find_problems(results, lambda one: one.reply.outcome() == "failed" and "timed out" in one.reply.error)
        == []
    )


SIGNS_OF_LIFE = {
    "anthropic": b"ping",
    "openai_chat": b": ",
    "openai_responses": b": ",
}


@pytest.mark.rule("H75")
def test_a_waiting_client_gets_signs_of_life_but_for_gemini(environment: Environment) -> None:
    def is_right(result: PairResult) -> bool:
        sign = SIGNS_OF_LIFE.get(result.client)
        lines = result.reply.raw.replace(b"\r\n", b"\n").split(b"\n")
        if sign is None:
            return all(line == b"" or line.startswith(b"data: {") for line in lines)
        return any((sign in line and b"data: {" not in line) or b'"ping"' in line for line in lines)

    steps: Steps = [Fault(kind="silence", place="text", seconds=1.5 * HASTE, turn=GOOD)]
    assert find_problems(run_all_pairs(environment, steps), is_right) == []


LENGTHS = {
    "anthropic": "max_tokens",
    "openai_chat": "length",
    "openai_responses": "max_output_tokens",
    "gemini": "MAX_TOKENS",
}


@pytest.mark.rule("R55", "P65")
def test_a_reply_that_reached_its_cap_reports_it(environment: Environment) -> None:
    results = run_all_pairs(environment, [Turn(text=ANSWER, stop="length")])
    assert find_problems(results, lambda one: one.reply.stop == LENGTHS[one.client]) == []


@pytest.mark.rule("R126", "H83", "P58")
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_client_that_leaves_ends_the_upstreams_reply(
    environment: Environment, client: str, upstream: str
) -> None:
    gateway = faulty_gateway(environment, upstream)
    fault = Fault(kind="silence", place="text", seconds=PATIENCE, turn=GOOD)
    conversation = environment.upstream.open([fault], GRIPS)
    model = f"alone-{conversation.key}"
    assert environment.run(leave_early(client, gateway.url, model, f"This is {conversation.key}."))
    deadline = time.monotonic() + PATIENCE / 2
    while not conversation.received[0].left and time.monotonic() < deadline:
        environment.wait(0.02)
    assert conversation.received[0].left
