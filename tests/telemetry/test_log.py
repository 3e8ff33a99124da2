"""Log lines: one per exchange, as text or JSON, and harmless with any content."""

import io
import logging
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.accounts.keys import ANONYMOUS
from dragoman.config.provider import TargetName
from dragoman.exchange.record import ExchangeRecord
from dragoman.governance.interventions import Intervention
from dragoman.hub.errors import Failure
from dragoman.pipeline.plan import RequestMetadata
from dragoman.telemetry.log import LOGGER, LogFormatter, log_exchange, log_refusal


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """The written log lines, in the style of the parameter."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(request.param))
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    LOGGER.handlers, LOGGER.propagate = [handler], False
    # Not by assignment: the logger remembers which levels are enabled.
    LOGGER.setLevel(logging.INFO)
    yield stream
    LOGGER.handlers, _, LOGGER.propagate = before
    LOGGER.setLevel(before[1])


def record(model: str = "m", agent: str = "agent/1") -> ExchangeRecord:
    metadata = RequestMetadata(dialect="anthropic", headers={"user-agent": agent}, request_id="req_1")
    made = ExchangeRecord(metadata, ANONYMOUS)
    made.model = model
    made.refused = Failure(kind="server", message='it said "no" a=b')
    return made


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_line_for_machines_is_one_object(written: io.StringIO) -> None:
    log_exchange(record())
    line = msgspec.json.decode(written.getvalue())
    assert line["message"] == "exchange"
    assert line["level"] == "warning"
    assert line["request"] == "req_1"
    assert line["error"] == 'server: it said "no" a=b'
    assert isinstance(line["time"], float)


@pytest.mark.parametrize("written", ["text"], indirect=True)
def test_a_line_for_people_is_keys_and_values(written: io.StringIO) -> None:
    log_exchange(record())
    line = written.getvalue()
    assert " exchange request=req_1 client=anthropic " in line
    assert 'error="server: it said \\"no\\" a=b"' in line


@pytest.mark.parametrize("written", ["text", "json"], indirect=True)
def test_nothing_from_outside_can_begin_a_line_of_its_own_or_move_the_cursor(written: io.StringIO) -> None:
    log_exchange(record(model="x\n12:00:00 exchange \x1b[2J\u2028\x85", agent="a\r\nb\x1b[1m"))
    line = written.getvalue()
    assert line.count("\n") == 1
    assert not {"\r", "\x1b"}.intersection(line)


@pytest.mark.parametrize("written", ["text"], indirect=True)
def test_nothing_from_outside_turns_the_direction_of_a_line_for_people(written: io.StringIO) -> None:
    log_exchange(record(model="x\u202egpj"))
    assert 'model="x\\u202egpj"' in written.getvalue()


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_a_refused_request_is_logged_without_its_query(written: io.StringIO) -> None:
    failure = Failure(kind="authentication", message="this gateway needs a client key")
    log_refusal("req_2", "POST", "/v1/messages" + "x" * 1000, 401, failure)
    line = msgspec.json.decode(written.getvalue())
    assert line["message"] == "refused"
    assert line["status"] == 401
    assert line["error"] == "authentication"
    assert len(line["path"]) == 200


@pytest.mark.parametrize("written", ["text"], indirect=True)
def test_an_error_of_the_servers_own_comes_with_its_origin(written: io.StringIO) -> None:
    try:
        raise KeyError("x")
    except KeyError:
        LOGGER.exception("something broke")
    line, *trace = written.getvalue().splitlines()
    assert line.endswith("something broke")
    assert trace[-1] == "  | KeyError: 'x'"


@pytest.mark.rule("R85")
@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_every_intervention_has_a_line_below_its_exchange(written: io.StringIO) -> None:
    governed = record()
    report = governed.interventions.reporter(TargetName("local", "qwen"), "openai_chat")
    report(
        Intervention(kind="repair", tool="Bash", detail=("quotes", "commas"), before=24, after=22, held=0.31)
    )
    report(Intervention(kind="unrepairable", tool="x" * 1000, ok=False, reason="parse_failed"))
    log_exchange(governed)
    _, repaired, failed = [msgspec.json.decode(line) for line in written.getvalue().splitlines()]
    assert (repaired["message"], repaired["level"], repaired["request"]) == ("governance", "info", "req_1")
    assert (repaired["kind"], repaired["tool"], repaired["detail"]) == ("repair", "Bash", "quotes, commas")
    assert (repaired["before"], repaired["after"], repaired["held_ms"]) == (24, 22, 310)
    assert (repaired["client"], repaired["upstream"], repaired["target"]) == (
        "anthropic",
        "openai_chat",
        "local/qwen",
    )
    assert (failed["level"], failed["ok"], failed["reason"]) == ("warning", False, "parse_failed")
    assert len(failed["tool"]) == 200


_texts = st.text(max_size=8)


@given(
    st.lists(st.tuples(_texts, _texts, _texts, _texts, st.booleans(), st.integers(0, 600)), min_size=1),
    st.sampled_from(["text", "short"]),
)
def test_a_line_of_a_known_kind_equals_one_that_is_formatted_anew(
    made: list[tuple[str, str, str, str, bool, int]], style: str
) -> None:
    """The parts of a line that exchanges share are kept. No line may get a part of another exchange."""
    for model, agent, route, upstream_id, is_refused, status in made:
        exchange = record(model, agent)
        exchange.route, exchange.upstream_id, exchange.status = route, upstream_id, status
        exchange.refused = exchange.refused if is_refused else None
        known, anew = (logging.makeLogRecord({"msg": "exchange", "created": 1.0}) for _ in range(2))
        known.exchange, anew.fields = exchange, exchange.line()
        first, second = LogFormatter(style), LogFormatter(style)
        assert first.format(known) == second.format(anew)
