"""`dragoman models show`: each fact with its source, the strongest voice last."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.run_command import dragoman

EXAMPLE = """\
default = "deepseek/deepseek-v4-pro"
[providers.deepseek]
[providers.deepseek.models."*"]
images = true
[providers.own]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8901/v1"
"""
LEARNED = """\
[providers.deepseek.models."deepseek-v4-pro"]
stop_limit = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.toml").write_text(EXAMPLE, "utf-8")
    (tmp_path / "dragoman.learned.toml").write_text(LEARNED, "utf-8")
    return tmp_path


def test_every_fact_is_reported_with_its_source(folder: Path) -> None:
    outcome = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro")
    lines = [line.split() for line in outcome.out.splitlines()]
    told = {line[0]: " ".join(line[1:3]) for line in lines[1:]}
    assert outcome.code == 0
    assert told["images"] == "true config,"
    assert told["replay_reasoning"] == "true preset"
    assert told["context_tokens"] == "1_000_000 catalogue"
    assert told["stop_limit"] == "2 learned,"
    assert "system" not in told


def test_a_source_of_higher_precedence_names_the_one_it_overrules(folder: Path) -> None:
    out = dragoman(folder, "models", "show", "anything").out
    assert "config, not false (catalogue" in out
    assert "learned, not 4 (dialect openai_chat)" in out


def test_facts_of_the_dialect_are_reported_if_wanted(folder: Path) -> None:
    out = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro", "--all").out
    assert "dialect openai_chat" in out


def test_programs_get_the_same_as_json(folder: Path) -> None:
    outcome = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro", "--json")
    (told,) = msgspec.json.decode(outcome.out)["targets"]
    assert told["target"] == "deepseek/deepseek-v4-pro"
    assert told["facts"]["images"] == {"value": True, "source": "config"}
    assert told["facts"]["stop_limit"] == {"value": 2, "source": "learned"}


def test_an_unknown_model_is_reported_as_unknown(folder: Path) -> None:
    assert "only its dialect is known" in dragoman(folder, "models", "show", "own/thing").out


def test_a_model_that_no_route_takes_is_an_error_with_what_there_is(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(EXAMPLE.partition("\n")[2], "utf-8")
    outcome = dragoman(folder, "models", "show", "anything")
    assert (outcome.code, outcome.out) == (2, "")
    assert "own/MODEL" in outcome.err


def test_the_configuration_can_be_named_before_or_after_the_subcommand(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(EXAMPLE, "utf-8")
    for arguments in (
        ["models", "--config", "other.toml", "show", "own/x"],
        ["models", "show", "own/x", "--config", "other.toml"],
    ):
        assert dragoman(folder, *arguments).code == 0


def test_a_learned_profile_that_is_wrong_is_reported_with_its_line(folder: Path) -> None:
    (folder / "dragoman.learned.toml").write_text(LEARNED.replace("stop_limit", "stop_limits"), "utf-8")
    outcome = dragoman(folder, "models", "show", "own/x")
    assert outcome.code == 2
    assert (
        "dragoman.learned.toml, line 2: providers.deepseek.models.deepseek-v4-pro.stop_limits" in outcome.err
    )
