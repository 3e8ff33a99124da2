"""The log line for a terminal: short, with what matters, and losses once."""

import io
import logging
import sys

import pytest

from dragoman.telemetry.log import LOGGER, LogDetail, LogFormatter, set_detail, set_up_logging
from dragoman.telemetry.short_line import ShortLine

FIELDS: dict[str, object] = {
    "request": "req_1",
    "agent": "claude-cli/2.1.325 (external, cli)",
    "model": "claude-opus-5-5",
    "target": "ollama/qwen3-coder",
    "ending": "finished",
    "status": 200,
    "input": 11_400,
    "cached": 9000,
    "output": 37,
    "cost": 0.0123,
    "first_token": 0.84,
    "seconds": 1.24,
    "tools": 2,
    "interventions": 2,
    "changes": 1,
    "lost": "context_management: no other dialect has this field; top_k: no; messages[3].x: gone; and 2 more",
}


@pytest.mark.rule("M14")
def test_an_exchange_is_one_short_line() -> None:
    line = ShortLine(has_colours=False).format({**FIELDS, "lost": ""})
    assert line == (
        "✓ claude-cli  claude-opus-5-5 → ollama/qwen3-coder  11.4k (9.0k cached) → 37 tokens  $0.0123"
        "  first token 0.8 s, 1.2 s  2 tool calls  1 change"
    )


@pytest.mark.rule("M14")
def test_a_loss_is_shown_once_for_each_agent_and_target() -> None:
    short = ShortLine(has_colours=False)
    # Every request of this agent has the first one, without a consequence.
    assert short.format(FIELDS).endswith("lost: top_k, messages[3].x")
    again = {**FIELDS, "lost": "context_management: y; messages[8].x: gone"}
    assert "lost" not in short.format(again)
    assert "lost" in short.format({**again, "target": "other/m"})
    assert "context_management" in short.format({**again, "agent": "other/1.0"})


@pytest.mark.rule("M14")
def test_an_unknown_price_is_left_out() -> None:
    assert "$" not in ShortLine(has_colours=False).format({**FIELDS, "cost": None})


@pytest.mark.rule("M14")
@pytest.mark.parametrize(
    ("cost", "output", "shown"),
    [
        (0.0, 37, "free"),
        (0.00001, 37, "<$0.0001"),
        (0.0001, 37, "$0.0001"),
        (1.5, 37, "$1.5000"),
        # Nothing was used: a model with a price is not free.
        (0.0, 0, None),
    ],
)
def test_a_cost_is_never_shown_as_zero_dollars(cost: float, output: int, shown: str | None) -> None:
    fields = {**FIELDS, "cost": cost, "input": output, "output": output}
    parts = ShortLine(has_colours=False).format(fields).split("  ")
    assert [part for part in parts if "$" in part or part == "free"] == ([shown] if shown else [])


@pytest.mark.rule("M14")
def test_a_model_that_is_its_own_target_is_shown_once() -> None:
    line = ShortLine(has_colours=False).format({**FIELDS, "model": "emb/z", "target": "emb/z"})
    assert line.startswith("✓ claude-cli  emb/z  11.4k")


@pytest.mark.rule("M14", "M15")
def test_a_failure_is_red_and_names_the_status_and_the_reason() -> None:
    failed = {**FIELDS, "ending": "failed", "status": 502, "error": "unreachable: down"}
    line = ShortLine(has_colours=True).format({**failed, "failed": "down/x (unreachable 502, 2 times)"})
    assert "\x1b[31m✗" in line
    assert "\x1b[31mfailed 502 unreachable: down\x1b[0m" in line
    assert "after down/x (unreachable 502, 2 times)" in line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def log(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, detail: LogDetail, at: int = logging.INFO
) -> str:
    before = LOGGER.handlers, LOGGER.level, LOGGER.propagate
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    try:
        set_detail(detail)
        set_up_logging("text")
        entry = logging.LogRecord(LOGGER.name, at, "", 0, "exchange", None, None)
        entry.fields = FIELDS
        LOGGER.handle(entry)
    finally:
        set_detail("normal")
        LOGGER.handlers, level, LOGGER.propagate = before
        # This also clears the logger's memory of enabled levels.
        LOGGER.setLevel(level)
    return stream.getvalue()


@pytest.mark.rule("M14")
def test_a_terminal_gets_short_lines_unless_details_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "✓ claude-cli" in log(monkeypatch, Terminal(), "normal")
    assert "request=req_1" in log(monkeypatch, Terminal(), "verbose")
    assert "request=req_1" in log(monkeypatch, io.StringIO(), "normal")


@pytest.mark.rule("M14")
def test_a_quiet_log_has_failures_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert log(monkeypatch, Terminal(), "quiet") == ""
    assert "claude-cli" in log(monkeypatch, Terminal(), "quiet", logging.WARNING)


@pytest.mark.rule("M14")
def test_a_short_line_has_no_control_characters_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    entry = logging.LogRecord("x", logging.INFO, "", 0, "exchange", None, None)
    entry.fields = {**FIELDS, "model": "a\n\x1b[2J", "error": "\u2028", "ending": "failed"}
    line = LogFormatter("short").format(entry)
    assert line.isprintable()
