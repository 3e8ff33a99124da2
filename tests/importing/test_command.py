"""`dragoman import`: a file that passes the check, a report beside it, and no secret in either."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.run_command import Outcome, dragoman

HERE = Path(__file__).parent
KINDS = {"ccr": "ccr.json", "litellm": "litellm.yaml"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in KINDS.values():
        shutil.copy(HERE / name, tmp_path)
    return tmp_path


def run(folder: Path, *arguments: str) -> Outcome:
    return dragoman(folder, "import", *arguments, TEAM_BASE="https://llm.team.example/v1")


def wanted(outcome: Outcome) -> dict[str, str]:
    """The variables that the report asks for."""
    lines = [line.removeprefix("next: export ") for line in outcome.err.splitlines() if " export " in line]
    return {line.partition("=")[0]: "some-key" for line in lines}


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_written_passes_the_check(folder: Path, kind: str) -> None:
    outcome = run(folder, kind, KINDS[kind], "--output", "dragoman.toml")
    assert (outcome.code, outcome.out) == (0, "wrote dragoman.toml\n")
    assert stat.S_IMODE((folder / "dragoman.toml").stat().st_mode) == 0o600
    checked = dragoman(folder, "config", "check", **wanted(outcome))
    assert (checked.code, checked.err) == (0, "")


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_file_goes_to_the_terminal_and_the_report_beside_it(folder: Path, kind: str) -> None:
    outcome = run(folder, kind, KINDS[kind])
    assert outcome.out.startswith("# Imported from")
    assert "not converted without changes:" in outcome.err
    assert "literal-secret" not in outcome.out + outcome.err
    assert "house-key" not in outcome.out + outcome.err


def test_a_file_is_overwritten_only_if_asked(folder: Path) -> None:
    (folder / "dragoman.toml").write_text("mine", "utf-8")
    outcome = run(folder, "ccr", "ccr.json", "--output", "dragoman.toml")
    assert outcome.code == 2
    assert (folder / "dragoman.toml").read_text("utf-8") == "mine"
    assert run(folder, "ccr", "ccr.json", "--output", "dragoman.toml", "--force").code == 0


def test_the_routers_own_place_is_looked_at_if_no_file_is_named(folder: Path) -> None:
    assert "config.json" in run(folder, "ccr").err
    home = folder / ".claude-code-router"
    home.mkdir()
    (folder / "ccr.json").rename(home / "config.json")
    assert run(folder, "ccr").code == 0


def test_a_file_that_is_not_there_is_reported(folder: Path) -> None:
    outcome = run(folder, "litellm", "missing.yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert "missing.yaml" in outcome.err


@pytest.mark.rule("M24")
def test_the_database_of_version_3_is_read_before_the_older_file(folder: Path) -> None:
    home = folder / ".claude-code-router"
    home.mkdir()
    (home / "config.json").write_text("outdated", "utf-8")
    with closing(sqlite3.connect(home / "config.sqlite")) as database, database:
        database.execute("CREATE TABLE app_config (key TEXT PRIMARY KEY, value_json TEXT, updated_at TEXT)")
        text = (folder / "ccr.json").read_text("utf-8")
        database.execute("INSERT INTO app_config VALUES ('default', ?, '')", (text,))
    outcome = run(folder, "ccr")
    assert outcome.code == 0, outcome.err
    assert "[providers.deepseek]" in outcome.out


@pytest.mark.rule("M24")
def test_a_database_of_another_program_is_refused(folder: Path) -> None:
    sqlite3.connect(folder / "other.sqlite").close()
    outcome = run(folder, "ccr", "other.sqlite")
    assert outcome.code == 2
    assert "cannot read other.sqlite" in outcome.err


@pytest.mark.rule("M24")
def test_the_next_step_is_one_that_works(folder: Path) -> None:
    assert "dragoman config check" not in run(folder, "ccr", "ccr.json").err
    assert "--output dragoman.toml" in run(folder, "ccr", "ccr.json").err
    missing = run(folder, "ccr")
    assert (missing.code, "dragoman import ccr FILE" in missing.err) == (2, True)
