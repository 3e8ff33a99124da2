"""Upstreams that go wrong in every known way: the client recovers or is told the truth, and nobody hangs.

Each test plays one fault to every client dialect with every upstream dialect at the same time, in the
translating lane and, where both sides speak the same, in the forwarding lane too.
"""

import time
from collections.abc import Callable

import pytest

from tests.e2e.asking import ask, leave_early
from tests.e2e.clients.python_tools import GRIPS
from tests.e2e.everywhere import ANSWER, GOOD, HASTE, PATIENCE, Happening, Steps, everywhere, faulty_gateway
from tests.e2e.stage import Stage
from tests.e2e.upstream.script import Fault, FaultKind, Manner, Place, Turn, Use
from tests.e2e.upstream.voices.registry import DIALECTS

CALL = Turn(reasoning="A thought.", uses=(Use("read", "notes.txt"),))
BREAKS = ("error", "reset", "end")


def complaints(happenings: list[Happening], is_right: Callable[[Happening], bool]) -> list[str]:
    """Every exchange that is not right or not legal, with what was told."""
    found = []
    for happening in happenings:
        told = happening.told
        illegal = happening.violations()
        told_in_short = f"{told.outcome()} {told.status} {told.text!r} {told.error!r} {told.error_kind}"
        counted = f"{happening.requests('first')} + {happening.requests('second')} requests"
        if not is_right(happening) or told.garbled or illegal:
            what = [*told.garbled, *illegal, *happening.conversation.refusals][:3]
            found.append(f"{happening.name}: {told_in_short}, {counted}, {what}")
    return found


def has_answer(happening: Happening) -> bool:
    return happening.told.outcome() == "finished" and happening.told.text == ANSWER


def recovered_after(requests: int, elsewhere: int = 0) -> Callable[[Happening], bool]:
    """The client got the whole answer; so often were the first and the second provider asked."""

    def is_right(happening: Happening) -> bool:
        counts = happening.requests("first"), happening.requests("second")
        return has_answer(happening) and counts == (requests, elsewhere)

    return is_right


def test_a_healthy_reply_needs_one_request(stage: Stage) -> None:
    assert complaints(everywhere(stage, [GOOD]), recovered_after(1)) == []


def test_a_healthy_whole_reply_needs_one_request(stage: Stage) -> None:
    assert complaints(everywhere(stage, [GOOD], stream=False), recovered_after(1)) == []


@pytest.mark.parametrize(
    "manner",
    [Manner(drip=3), Manner(drip=1), Manner(interleaved=True)],
    ids=["three bytes at a time", "byte by byte", "interleaved"],
)
def test_the_manner_of_sending_changes_nothing(stage: Stage, manner: Manner) -> None:
    assert complaints(everywhere(stage, [GOOD], manner=manner), recovered_after(1)) == []


@pytest.mark.rule("R59", "H75", "H76")
def test_line_ends_and_comments_of_the_upstream_do_not_reach_a_translated_stream(stage: Stage) -> None:
    happenings = everywhere(stage, [GOOD], manner=Manner(crlf=True, comments=True))
    translated = [one for one in happenings if one.client != one.upstream or one.route == "renamed"]
    assert complaints(translated, recovered_after(1)) == []


@pytest.mark.rule("R110", "H74")
@pytest.mark.parametrize("status", [409, 429, 500, 502, 503])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_passing_failure_is_not_seen_by_the_client(stage: Stage, status: int, stream: bool) -> None:
    steps: Steps = [Fault(kind="status", status=status), GOOD]
    assert complaints(everywhere(stage, steps, stream=stream), recovered_after(2)) == []


@pytest.mark.parametrize("kind", ["html", "empty", "refused"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_no_reply_at_all_is_tried_again(stage: Stage, kind: FaultKind, stream: bool) -> None:
    steps: Steps = [Fault(kind=kind), GOOD]
    assert complaints(everywhere(stage, steps, stream=stream), recovered_after(2)) == []


@pytest.mark.rule("H74")
@pytest.mark.parametrize("place", ["start", "opened"])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_before_its_first_word_is_tried_again(
    stage: Stage, kind: FaultKind, place: Place
) -> None:
    steps: Steps = [Fault(kind=kind, place=place, turn=GOOD), GOOD]
    assert complaints(everywhere(stage, steps), recovered_after(2)) == []


def test_a_whole_reply_that_breaks_is_tried_again(stage: Stage) -> None:
    steps: Steps = [Fault(kind="reset"), GOOD]
    assert complaints(everywhere(stage, steps, stream=False), recovered_after(2)) == []


def test_a_whole_reply_where_a_stream_was_asked_for_is_taken(stage: Stage) -> None:
    assert complaints(everywhere(stage, [Fault(kind="json", turn=GOOD)]), recovered_after(1)) == []


def told_of_the_break(happening: Happening) -> bool:
    """An error and no success; or, if nothing was passed on yet, a second try that went well."""
    told = happening.told
    if happening.requests() == 2:
        return has_answer(happening)
    # Some Gemini clients overlook an error in the stream, so that they also see the connection break.
    breaks_rightly = happening.client == "gemini" or not told.broke
    return not told.is_finished and bool(told.error) and breaks_rightly


@pytest.mark.rule("R127", "H72", "H73", "P12", "P17", "P18", "P19")
@pytest.mark.parametrize("place", ["reasoning", "text", "end"])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_in_its_text_is_never_taken_for_a_whole_one(
    stage: Stage, kind: FaultKind, place: Place
) -> None:
    happenings = everywhere(stage, [Fault(kind=kind, place=place, turn=GOOD), GOOD])
    assert complaints(happenings, told_of_the_break) == []


@pytest.mark.rule("R127", "H73", "P16")
@pytest.mark.parametrize("kind", BREAKS)
def test_a_stream_that_breaks_in_a_call_is_never_taken_for_a_whole_one(stage: Stage, kind: FaultKind) -> None:
    happenings = everywhere(stage, [Fault(kind=kind, place="call", turn=CALL), GOOD])
    assert complaints(happenings, told_of_the_break) == []


def test_what_was_sent_before_the_break_reaches_the_client(stage: Stage) -> None:
    happenings = everywhere(stage, [Fault(kind="end", place="end", turn=GOOD), GOOD])
    assert complaints(happenings, lambda one: one.told.text == ANSWER) == []


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
    stage: Stage, status: int
) -> None:
    def is_right(happening: Happening) -> bool:
        kind = KINDS[status][happening.client.partition("_")[0]]
        told = happening.told
        shown = status if status not in (401, 403) else 503 if happening.client == "gemini" else 502
        return (told.status, told.error_kind, happening.requests()) == (shown, kind, 1)

    steps: Steps = [Fault(kind="status", status=status, message="no, because"), GOOD]
    assert complaints(everywhere(stage, steps), is_right) == []


@pytest.mark.rule("R114")
def test_a_refused_key_is_reported_to_be_the_gateways_own(stage: Stage) -> None:
    happenings = everywhere(stage, [Fault(kind="status", status=401, message="bad key")])
    assert complaints(happenings, lambda one: "gateway's key" in one.told.error) == []


STATUS_OF_OVERLOAD = {"anthropic": 529, "openai_chat": 503, "openai_responses": 503, "gemini": 503}


def test_a_lasting_failure_is_reported_with_its_status_after_all_tries(stage: Stage) -> None:
    def is_right(happening: Happening) -> bool:
        # Once a waiting client has got a sign of life, the status is spent and the error comes in the stream.
        status = happening.told.status
        fits = status in (200, STATUS_OF_OVERLOAD[happening.client])
        return fits and happening.told.outcome() == "failed" and happening.requests() == 2

    assert complaints(everywhere(stage, [Fault(kind="status", status=503)]), is_right) == []


@pytest.mark.rule("R110", "R128")
def test_a_long_wait_is_left_to_the_client_and_shortened(stage: Stage) -> None:
    """Clients would really sleep for minutes, and Codex gives up without the header."""

    def is_right(happening: Happening) -> bool:
        told = happening.told
        wait = int(told.headers.get("retry-after", "0"))
        return told.status == 429 and happening.requests() == 1 and 0 < wait <= 60 and "300 s" in told.error

    fault = Fault(kind="status", status=429, headers=(("retry-after", "300"),))
    assert complaints(everywhere(stage, [fault, GOOD]), is_right) == []


def test_a_short_wait_is_waited_for(stage: Stage) -> None:
    begun = time.monotonic()
    fault = Fault(kind="status", status=429, headers=(("retry-after", "1"),))
    assert complaints(everywhere(stage, [fault, GOOD]), recovered_after(2)) == []
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
def test_the_next_target_takes_over_before_the_first_word(stage: Stage, fault: Fault, most: int) -> None:
    """A target that has no room is not asked twice while another is there."""

    def is_right(happening: Happening) -> bool:
        return has_answer(happening) and happening.requests() <= most and happening.requests("second") == 1

    steps: Steps = {"first": [fault], "second": [GOOD]}
    route = "hastypair" if fault.kind == "silence" else "pair"
    assert complaints(everywhere(stage, steps, route=route), is_right) == []


@pytest.mark.rule("P56")
def test_the_only_target_is_asked_again_however_often_it_failed(stage: Stage) -> None:
    failures = [Fault(kind="status", status=401)] * 3
    conversation = stage.upstream.open([*failures, GOOD], GRIPS)
    gateway = faulty_gateway(stage, "openai_chat")
    model, prompt = f"alone-{conversation.key}", f"This is {conversation.key}."
    told = [stage.run(ask("anthropic", gateway.url, model, prompt)) for _ in range(4)]
    assert [one.status for one in told] == [502, 502, 502, 200]


def test_no_other_target_is_asked_when_the_request_itself_is_refused(stage: Stage) -> None:
    steps: Steps = {"first": [Fault(kind="status", status=400)], "second": [GOOD]}
    happenings = everywhere(stage, steps, route="pair")
    assert complaints(happenings, lambda one: one.told.status == 400 and not one.requests("second")) == []


@pytest.mark.rule("H74")
def test_no_other_target_goes_on_after_the_first_word(stage: Stage) -> None:
    def is_right(happening: Happening) -> bool:
        if happening.requests("second"):
            return has_answer(happening)
        return happening.told.outcome() == "failed" and not happening.told.is_finished

    steps: Steps = {"first": [Fault(kind="reset", place="end", turn=GOOD)], "second": [GOOD]}
    assert complaints(everywhere(stage, steps, route="pair"), is_right) == []


def test_the_last_failure_is_reported_when_every_target_fails(stage: Stage) -> None:
    steps: Steps = {
        "first": [Fault(kind="status", status=404, message="first does not have it")],
        "second": [Fault(kind="status", status=404, message="second does not have it")],
    }
    happenings = everywhere(stage, steps, route="pair")
    assert complaints(happenings, lambda one: "second does not have it" in one.told.error) == []


@pytest.mark.parametrize("place", ["start", "text"])
def test_a_silence_within_the_limit_is_waited_out(stage: Stage, place: Place) -> None:
    steps: Steps = [Fault(kind="silence", place=place, seconds=0.6 * HASTE, turn=GOOD)]
    assert complaints(everywhere(stage, steps), recovered_after(1)) == []


@pytest.mark.rule("R128")
@pytest.mark.parametrize("place", ["start", "text"])
def test_a_silence_beyond_the_limit_ends_in_an_error(stage: Stage, place: Place) -> None:
    """Without the limit the client would give up before the silence is over."""
    steps: Steps = [Fault(kind="silence", place=place, seconds=PATIENCE, turn=GOOD)]
    happenings = everywhere(stage, steps, route="hasty")
    assert (
        complaints(happenings, lambda one: one.told.outcome() == "failed" and "timed out" in one.told.error)
        == []
    )


SIGNS_OF_LIFE = {
    "anthropic": b"ping",
    "openai_chat": b": ",
    "openai_responses": b": ",
}


@pytest.mark.rule("H75")
def test_a_waiting_client_gets_signs_of_life_but_for_gemini(stage: Stage) -> None:
    def is_right(happening: Happening) -> bool:
        sign = SIGNS_OF_LIFE.get(happening.client)
        lines = happening.told.raw.replace(b"\r\n", b"\n").split(b"\n")
        if sign is None:
            return all(line == b"" or line.startswith(b"data: {") for line in lines)
        return any((sign in line and b"data: {" not in line) or b'"ping"' in line for line in lines)

    steps: Steps = [Fault(kind="silence", place="text", seconds=1.5 * HASTE, turn=GOOD)]
    assert complaints(everywhere(stage, steps), is_right) == []


LENGTHS = {
    "anthropic": "max_tokens",
    "openai_chat": "length",
    "openai_responses": "max_output_tokens",
    "gemini": "MAX_TOKENS",
}


@pytest.mark.rule("R55", "P65")
def test_a_reply_that_reached_its_cap_reports_it(stage: Stage) -> None:
    happenings = everywhere(stage, [Turn(text=ANSWER, stop="length")])
    assert complaints(happenings, lambda one: one.told.stop == LENGTHS[one.client]) == []


@pytest.mark.rule("R126", "H83", "P58")
@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_client_that_leaves_ends_the_upstreams_reply(stage: Stage, client: str, upstream: str) -> None:
    gateway = faulty_gateway(stage, upstream)
    fault = Fault(kind="silence", place="text", seconds=PATIENCE, turn=GOOD)
    conversation = stage.upstream.open([fault], GRIPS)
    model = f"alone-{conversation.key}"
    assert stage.run(leave_early(client, gateway.url, model, f"This is {conversation.key}."))
    deadline = time.monotonic() + PATIENCE / 2
    while not conversation.received[0].left and time.monotonic() < deadline:
        stage.wait(0.02)
    assert conversation.received[0].left
