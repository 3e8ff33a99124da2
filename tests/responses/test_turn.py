"""Turns: the state fields are read once, and the plan need not search the body for the model and `stream`."""

import msgspec
import pytest

from dragoman.accounts.keys import ANONYMOUS
from dragoman.exchange.gateway import Gateway
from dragoman.pipeline.plan import RequestMetadata, RequestPlan
from dragoman.responses.members import read_members
from dragoman.responses.service import ResponsesService
from dragoman.responses.turn import ResponseTurn
from tests.responses.looped import looped
from tests.server.running import config_for

HELLO: dict[str, object] = {"model": "any", "input": "hello"}
CLIENT = RequestMetadata(dialect="openai_responses")


async def build(**fields: object) -> ResponseTurn | RequestPlan:
    service = ResponsesService(Gateway(config_for()))
    return await service.build_turn(CLIENT, msgspec.json.encode({**HELLO, **fields}), ANONYMOUS)


@pytest.mark.parametrize(
    ("fields", "stream"), [({}, False), ({"stream": True}, True), ({"stream": None}, False)]
)
@looped
async def test_a_request_without_state_becomes_a_plan_that_knows_model_and_stream(
    fields: dict[str, object], stream: bool
) -> None:
    plan = await build(store=False, **fields)
    assert isinstance(plan, RequestPlan)
    assert (plan.metadata.is_peeked, plan.model, plan.stream) == (True, "any", stream)
    assert msgspec.json.decode(plan.body) == {**HELLO, "store": False, **fields}


@pytest.mark.parametrize(
    ("fields", "is_client_stream", "is_upstream_stream"),
    [({}, False, False), ({"stream": True}, True, True), ({"background": True}, False, True)],
)
@looped
async def test_a_turn_knows_model_and_stream(
    fields: dict[str, object], is_client_stream: bool, is_upstream_stream: bool
) -> None:
    turn = await build(**fields)
    assert isinstance(turn, ResponseTurn)
    assert turn.plan.metadata.is_peeked
    assert (turn.plan.model, turn.plan.stream, turn.stream) == ("any", is_upstream_stream, is_client_stream)
    # The reader of the body must agree.
    assert (turn.plan.request.model, turn.plan.request.stream) == ("any", is_upstream_stream)


@pytest.mark.parametrize("fields", [{"model": 7}, {"stream": "yes"}])
@looped
async def test_wrong_types_are_left_to_the_reader_of_the_dialect(fields: dict[str, object]) -> None:
    plan = await build(store=False, **fields)
    assert isinstance(plan, RequestPlan)
    assert not plan.metadata.is_peeked


@looped
async def test_no_state_field_goes_upstream() -> None:
    turn = await build(background=True, reasoning={"effort": "high"})
    assert isinstance(turn, ResponseTurn)
    members = read_members(turn.plan.body)
    assert bytes(members["store"]) == b"false"
    assert bytes(members["include"]) == b'["reasoning.encrypted_content"]'
    assert not members.keys() & {"background", "previous_response_id"}
