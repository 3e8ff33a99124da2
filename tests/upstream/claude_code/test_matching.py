"""Which session a request continues, decided over sessions that are only described."""

import msgspec
import pytest

from dragoman.upstream.claude_code.conversation import Conversation, fingerprint, outline
from dragoman.upstream.claude_code.matching import (
    Match,
    SessionIndex,
    SessionQuery,
    SessionSnapshot,
    SessionState,
    match_request,
)
from tests.upstream.claude_code.bodies import Json, call, claude, result, talk, user

OWNER = "somebody"
#: The calls that the session which is given made.
CALLS = ("c1", "c2")
ASKED = (user("add"), claude(call("c1"), call("c2")))
CHATTED = (user("hello"), claude("Hi."))


def standing(history: Conversation, state: SessionState) -> SessionSnapshot:
    return SessionSnapshot(
        id="ses_a",
        owner=OWNER,
        model="sonnet",
        state=state,
        fingerprint=fingerprint(history.items, OWNER),
        outline=outline(history.items, OWNER),
        system=fingerprint((), history.system),
    )


PARKED = standing(talk(*ASKED), "parked")
IDLE = standing(talk(*CHATTED), "idle")


def verdict(
    *messages: Json,
    session: SessionSnapshot | None,
    named: str = "",
    owner: str = OWNER,
    model: str = "sonnet",
    late: tuple[str, ...] = (),
    answered: tuple[Json, ...] = (),
) -> Match:
    def given(holds: bool) -> SessionSnapshot | None:
        return session if holds else None

    known = SessionIndex(
        by_call=lambda call_id: given(call_id in CALLS),
        by_id=lambda wanted: given(session is not None and wanted == session.id),
        by_fingerprint=lambda mark: given(session is not None and mark == session.fingerprint),
        by_request=lambda mark: given(mark == fingerprint(talk(*answered).items, OWNER)),
        find_late=lambda call_id, owner: "ses_a" if call_id in late else "",
        is_issued=lambda wanted, owner: owner == OWNER and wanted in ("ses_a", "ses_gone"),
    )
    claim = SessionQuery(owner=owner, model=model, session=named)
    return match_request(talk(*messages), claim, known)


@pytest.mark.rule("R96", "R98")
@pytest.mark.parametrize("results", [("c1", "c2"), ("c2", "c1"), ("c2",)])
@pytest.mark.parametrize("named", ["", "ses_a", "never-heard-of"])
def test_a_call_finds_its_session_before_anything_else(results: tuple[str, ...], named: str) -> None:
    news = user(*map(result, results))
    assert verdict(*ASKED, news, session=PARKED, named=named) == Match("continue", "ses_a")


def test_words_of_claude_that_a_client_dropped_do_not_matter_to_a_call() -> None:
    session = standing(talk(user("add"), claude("Let me see.", call("c1"))), "parked")
    assert verdict(user("add"), claude(call("c1")), user(result("c1")), session=session).action == "continue"


@pytest.mark.rule("R101")
def test_a_call_in_a_history_that_was_edited_is_replayed() -> None:
    edited = (user("subtract"), ASKED[1], user(result("c1"), result("c2")))
    assert verdict(*edited, session=PARKED) == Match("replay")


@pytest.mark.rule("R105", "R106", "D3")
@pytest.mark.parametrize("session", [PARKED, None], ids=["live", "ended"])
def test_a_late_result_is_refused_unless_the_user_goes_on(session: SessionSnapshot | None) -> None:
    assert verdict(*ASKED, user(result("c1")), session=session, late=("c1",)) == Match("late", "ses_a")
    action = verdict(*ASKED, user(result("c1"), "go on"), session=session, late=("c1",)).action
    assert action == ("continue" if session else "replay")


@pytest.mark.rule("R101")
def test_a_history_finds_its_session_again() -> None:
    assert verdict(*CHATTED, user("and?"), session=IDLE) == Match("continue", "ses_a")
    assert verdict(user("hello"), claude("Ho."), user("and?"), session=IDLE) == Match("replay")
    assert verdict(*ASKED, user("stop that"), session=PARKED) == Match("continue", "ses_a")


def test_a_session_at_work_is_left_alone() -> None:
    busy = msgspec.structs.replace(IDLE, state="running")
    assert verdict(*CHATTED, user("and?"), session=busy, named="ses_a") == Match("replay")
    busy = msgspec.structs.replace(PARKED, state="running")
    assert verdict(*ASKED, user(result("c1"), result("c2")), session=busy) == Match("replay")


def test_another_model_is_another_session() -> None:
    assert verdict(*CHATTED, user("and?"), session=IDLE, model="opus") == Match("replay")
    answer = user(result("c1"), result("c2"))
    assert verdict(*ASKED, answer, session=PARKED, model="opus") == Match("replay")


def test_another_system_prompt_is_another_session() -> None:
    session = standing(talk(*CHATTED, system="Be brief."), "idle")
    assert verdict(*CHATTED, user("and?"), session=session) == Match("replay")


@pytest.mark.rule("R102", "R106")
def test_a_session_that_is_named_is_found_or_lost() -> None:
    news = (*CHATTED, user("and?"))
    assert verdict(*news, session=IDLE, named="ses_a") == Match("continue", "ses_a")
    assert verdict(*news, session=IDLE, named="ses_gone") == Match("replay", "ses_gone")
    assert verdict(*news, session=IDLE, named="ses_of_others") == Match("not_found", "ses_of_others")


def test_sessions_of_other_clients_are_out_of_reach() -> None:
    assert verdict(*CHATTED, user("and?"), session=IDLE, owner="another") == Match("replay")
    assert verdict(*CHATTED, user("and?"), session=IDLE, named="ses_a", owner="another").action == "not_found"
    gone = verdict(*CHATTED, user("and?"), session=None, named="ses_gone", owner="another")
    assert gone == Match("not_found", "ses_gone"), "an id stays its owner's when the session is gone"
    answer = user(result("c1"), result("c2"))
    assert verdict(*ASKED, answer, session=PARKED, owner="another") == Match("replay")


@pytest.mark.rule("R98")
def test_missing_results_are_asked_for_again_without_a_session() -> None:
    assert verdict(*ASKED, user(result("c1")), session=None) == Match("repeat_calls")
    assert verdict(*ASKED, user(result("c1"), "never mind"), session=None) == Match("replay")


def test_results_without_their_calls_lead_nowhere() -> None:
    assert verdict(user(result("c9")), session=None).action == "not_found"


@pytest.mark.rule("R97")
def test_a_request_that_was_answered_gets_its_answer_again() -> None:
    request = (user("add"), claude(call("c0")), user(result("c0")))
    later = standing(talk(*request, claude("It is 3.")), "idle")
    assert verdict(*request, session=later, answered=request) == Match("repeat_reply", "ses_a")
    assert verdict(*request, session=later, answered=request, owner="another").action == "replay"
    assert verdict(*request, session=later, answered=request, model="opus").action == "replay"
    edited = (*request[:2], user(result("c0", "otherwise")))
    assert verdict(*edited, session=later, answered=request).action == "replay"


def test_a_request_without_results_is_a_repetition_only_of_the_session_that_it_names() -> None:
    request = (user("hello"),)
    assert verdict(*request, session=IDLE, answered=request) == Match("replay")
    assert verdict(*request, session=IDLE, answered=request, named="ses_a") == Match("repeat_reply", "ses_a")
