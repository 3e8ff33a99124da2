"""Seals, ids, losses, usage and errors: the small values that everything leans on."""

import zlib
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.hub.errors import (
    ClientProtocolError,
    DragomanError,
    Failure,
    LossRefused,
    RequestTooLarge,
    UpstreamFailed,
    UpstreamProtocolError,
    kind_of_status,
)
from dragoman.hub.ids import IdSource
from dragoman.hub.loss import Loss, Losses
from dragoman.hub.seal import (
    ENVELOPE_START,
    MAX_CONTENT,
    PREFIX,
    Seal,
    SealedItem,
    is_envelope,
    read_envelope,
    write_envelope,
)
from dragoman.hub.usage import Usage

carried = st.builds(
    SealedItem,
    kind=st.sampled_from(["reasoning", "call", "text"]),
    seal=st.builds(Seal, st.text(max_size=5), st.text(max_size=5), st.text(max_size=50)),
    parts=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    redacted=st.booleans(),
    call_id=st.text(max_size=5),
)


@pytest.mark.rule("H1", "H4")
@given(st.lists(carried, max_size=4))
def test_an_envelope_gives_back_what_was_put_in(items: list[SealedItem]) -> None:
    envelope = write_envelope(items)
    assert is_envelope(envelope)
    assert envelope.startswith(ENVELOPE_START)
    assert read_envelope(envelope) == tuple(items)
    assert envelope.removeprefix(PREFIX).replace("-", "").replace("_", "").isalnum()


@given(st.text(max_size=40))
def test_what_is_no_envelope_of_ours_is_left_alone(text: str) -> None:
    assert read_envelope(text) is None
    assert read_envelope(PREFIX + text) in (None, ())


def test_an_envelope_that_inflates_without_bound_is_refused() -> None:
    bomb = urlsafe_b64encode(zlib.compress(b"[" + b" " * (MAX_CONTENT + 10) + b"]")).decode()
    assert read_envelope(PREFIX + bomb) is None


def test_a_cut_envelope_is_refused() -> None:
    whole = write_envelope([SealedItem(kind="reasoning", seal=Seal("gemini", "", "x" * 200))])
    assert read_envelope(whole[:-8]) is None


@pytest.mark.rule("R136")
def test_ids_are_unique_and_reproducible() -> None:
    first, again, other = IdSource("a"), IdSource("a"), IdSource("b")
    made = [first.make("call_") for _ in range(100)]
    assert made == [again.make("call_") for _ in range(100)]
    assert len(set(made)) == 100
    assert other.make("call_") not in made


def test_two_branches_do_not_disturb_each_other() -> None:
    alone, beside = IdSource("a").branch("client"), IdSource("a")
    other, same = beside.branch("upstream"), beside.branch("client")
    assert [other.make("x") for _ in range(3)] != [alone.make("x") for _ in range(3)]
    alone = IdSource("a").branch("client")
    assert [same.make("x") for _ in range(3)] == [alone.make("x") for _ in range(3)]


def test_an_adopted_id_keeps_what_is_legal_of_the_foreign_one() -> None:
    ids = IdSource("seed")
    assert ids.adopt("msg_", "msg_01AbC") == "msg_01AbC"
    assert ids.adopt("msg_", "chatcmpl-AbC123456") == "msg_AbC123456"
    assert ids.adopt("msg_", "odd id!") == IdSource("seed").adopt("msg_", "odd id!")
    assert ids.adopt("msg_", "").startswith("msg_")


@pytest.mark.rule("R136")
def test_a_foreign_id_that_comes_again_in_another_reply_is_another_id() -> None:
    """Ollama numbers its replies by chance, from 1 to 999."""
    first, second = IdSource("one"), IdSource("two")
    assert first.adopt("resp_", "chatcmpl-417") != second.adopt("resp_", "chatcmpl-417")


def test_losses_are_reported_once_in_order_and_bounded() -> None:
    losses = Losses()
    losses.add("top_k", "not known there")
    losses.add("seed", "not known there")
    losses.add("top_k", "not known there")
    assert losses.as_tuple() == (Loss("top_k", "not known there"), Loss("seed", "not known there"))
    for number in range(Losses.LIMIT * 2):
        losses.add(str(number), "again")
    assert len(losses) == Losses.LIMIT


@pytest.mark.parametrize("places", [("top_k", "tools[0].x"), ("tools[0].x", "top_k")])
def test_strict_turns_the_first_loss_into_a_refusal_that_names_it(places: tuple[str, ...]) -> None:
    losses = Losses([Loss(place, "not known there") for place in places])
    with pytest.raises(LossRefused) as refused:
        losses.refuse_if_any()
    assert refused.value.status == 400
    assert refused.value.code == "lossy_translation"
    assert refused.value.path == "top_k"
    assert "1 more" in refused.value.message
    Losses().refuse_if_any()


def test_a_later_usage_report_replaces_only_what_it_names() -> None:
    first = Usage(input=5, cache_read=2, extras={"a": 1})
    assert first.merge(Usage(output=3, extras={"b": 2})) == Usage(
        input=5, cache_read=2, output=3, extras={"a": 1, "b": 2}
    )
    assert first.merge(Usage()) is first


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ClientProtocolError("x"), 400, "invalid_request"),
        (RequestTooLarge("x"), 413, "too_large"),
        (UpstreamProtocolError("x"), 502, "server"),
        (UpstreamFailed(Failure(kind="rate_limit", message="x", retry_after=2.0)), 429, "rate_limit"),
        (UpstreamFailed(Failure(kind="overloaded", message="x", status=529)), 529, "overloaded"),
    ],
)
def test_each_error_knows_its_status_and_kind(error: DragomanError, status: int, kind: str) -> None:
    assert (error.status, error.failure.kind) == (status, kind)


def test_an_error_names_its_place_and_its_next_step() -> None:
    error = ClientProtocolError("expected a string", path="messages[3].content", hint="send text")
    assert str(error) == "messages[3].content: expected a string"
    assert error.param == "messages[3].content"
    assert "send text" in error.failure.message


def test_unknown_statuses_are_blamed_by_their_class() -> None:
    assert kind_of_status(418) == "invalid_request"
    assert kind_of_status(599) == "server"
