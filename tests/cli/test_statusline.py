"""`dragoman statusline`: what it prints with a gateway, without one, and for any input."""

from pathlib import Path

import msgspec
import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.claude_settings import add_status_line
from dragoman.cli.statusline import ask_gateway, build_line
from tests.cli.run_command import dragoman

GIVEN: dict[str, object] = {
    "session_id": "s",
    "version": "2.1.325",
    "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
    "cost": {"total_cost_usd": 0.0448},
    "context_window": {"total_input_tokens": 14_000, "context_window_size": 1_000_000},
    "prompt_cache": {"hit_ratio": 0.2857},
}
FOUND: dict[str, object] = {
    "requests": 2,
    "target": "local/qwen3-coder",
    "context": 14_200,
    "context_window": 32_768,
    "input": 28_000,
    "cache_read": 8_000,
    "cost_usd": 0.03,
    "budget": {"unit": "dollars", "period": "day", "limit": 0.5, "used": 0.27},
}
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(sorted({*GIVEN, *FOUND, "limit", "used", "display_name", "total_input_tokens"}))


def test_the_line_has_what_the_gateway_knows() -> None:
    line = unstyle(build_line(GIVEN, FOUND))
    assert line == "local/qwen3-coder · 14.2k/32.8k (43%) · $0.03 · cache 29% · $0.27/$0.50 today"


def test_without_a_gateway_the_line_has_what_claude_code_knows() -> None:
    assert unstyle(build_line(GIVEN, {})) == "Opus 5.5 · 14k/1M (1%) · $0.04 · cache 29%"


def test_an_unknown_price_is_shown_as_unknown_and_a_budget_of_tokens_as_a_part() -> None:
    budget = {"unit": "tokens", "period": "month", "limit": 1000, "used": 960}
    line = build_line(GIVEN, {**FOUND, "cost_usd": None, "budget": budget})
    assert "cost unknown" in line
    assert "\x1b[31m96% of tokens this month" in line


@given(st.dictionaries(FIELDS, JSON), st.dictionaries(FIELDS, JSON))
def test_any_input_gives_one_line(given: dict[str, object], found: dict[str, object]) -> None:
    line = build_line(given, found)
    assert line
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize("address", ["", "ftp://x", "http://127.0.0.1:9", "http://[", "http://127.0.0.1:x"])
def test_a_gateway_that_does_not_answer_is_no_error(address: str) -> None:
    assert ask_gateway(address, "key", "s", "") == {}


def test_the_command_reads_claude_codes_object(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "statusline", stdin=msgspec.json.encode(GIVEN).decode())
    assert (outcome.code, unstyle(outcome.out).strip()) == (0, "Opus 5.5 · 14k/1M (1%) · $0.04 · cache 29%")
    assert dragoman(tmp_path, "statusline", stdin="no json").out == "dragoman\n"


@pytest.mark.parametrize("place", ["home", "project", "arguments", ""])
def test_the_line_of_the_user_is_kept(tmp_path: Path, place: str) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    settings = '{"statusLine": {"type": "command", "command": "mine"}}'
    for name, folder in (("home", home), ("project", project)):
        (folder / ".claude").mkdir(parents=True)
        if place == name:
            (folder / ".claude" / "settings.json").write_text(settings, "utf-8")
    arguments = ("--settings", settings) if place == "arguments" else ("-p", "hello")
    text = add_status_line('{"env": {}}', arguments, {"HOME": str(home)}, project)
    assert ("statusline" in text) == (not place)
