"""`dragoman models show`: each fact with its source, the strongest voice last."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.config.provider import TargetName
from dragoman.healing.corrections import Removal
from dragoman.healing.learned import LEARNED_SCHEMA, LearnedFact, write_learned_facts
from dragoman.storage.sqlite import SqliteStorage
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
    rows = {line[0]: " ".join(line[1:3]) for line in lines[1:]}
    assert outcome.code == 0
    assert rows["images"] == "true config,"
    assert rows["replay_reasoning"] == "true preset"
    assert rows["context_tokens"] == "1_000_000 catalogue"
    assert rows["stop_limit"] == "2 learned,"
    assert "system" not in rows


def test_a_source_of_higher_precedence_names_the_one_it_overrules(folder: Path) -> None:
    out = dragoman(folder, "models", "show", "anything").out
    assert "config, not false (catalogue" in out
    assert "learned, not 4 (dialect openai_chat)" in out


def test_facts_of_the_dialect_are_reported_if_wanted(folder: Path) -> None:
    out = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro", "--all").out
    assert "dialect openai_chat" in out


def test_programs_get_the_same_as_json(folder: Path) -> None:
    outcome = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro", "--json")
    (target,) = msgspec.json.decode(outcome.out)["targets"]
    assert target["target"] == "deepseek/deepseek-v4-pro"
    assert target["facts"]["images"] == {"value": True, "source": "config"}
    assert target["facts"]["stop_limit"] == {"value": 2, "source": "learned"}


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


def test_a_fact_that_a_refusal_proved_is_shown_with_the_refusal_and_its_date(folder: Path) -> None:
    config = (folder / "dragoman.toml").read_text("utf-8")
    (folder / "dragoman.toml").write_text(config + f'[server]\nstate = "{folder / "state"}"\n', "utf-8")
    now = time.time()
    target = TargetName("deepseek", "deepseek-v4-pro")
    address = "https://api.deepseek.com/v1"
    kept: dict[str, Any] = {
        "address": address,
        "target": target,
        "message": "max_tokens is too large",
        "learned_at": now,
    }
    facts = [
        LearnedFact(name="max_output_tokens", value=4096, expires_at=now + 60, **kept),
        LearnedFact(name="sampling", value=Removal(frozenset({"seed"})), expires_at=now + 60, **kept),
        LearnedFact(name="images", value=False, expires_at=now + 60, **kept),
        LearnedFact(name="audio", value=False, expires_at=now - 60, **kept),
    ]
    storage = SqliteStorage(folder / "state" / "state.db", LEARNED_SCHEMA)
    storage.run_now(lambda transaction: write_learned_facts(transaction, facts))
    storage.close_now()
    outcome = dragoman(folder, "models", "show", "deepseek/deepseek-v4-pro", "--json")
    (shown,) = msgspec.json.decode(outcome.out)["targets"]
    date = datetime.fromtimestamp(now, UTC).date()
    source = f'refusal of {date}: "max_tokens is too large"'
    assert shown["facts"]["max_output_tokens"] == {"value": 4096, "source": source}
    assert "seed" not in shown["facts"]["sampling"]["value"]
    assert "temperature" in shown["facts"]["sampling"]["value"]
    # The configuration takes precedence, and the other fact has ended.
    assert shown["facts"]["images"]["source"] == "config"
    assert shown["facts"].get("audio", {}).get("source") != source


GOVERNED = """\
[providers.own]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8901/v1"
[providers.own.models."qwen*"]
governance = { harvest = "hermes" }
[providers.ollama]
[providers.anthropic]
[[routes]]
match = "local"
target = "own/qwen3"
[routes.governance]
dedupe = true
guard = ["git_destructive"]
"""


@pytest.mark.rule("G12")
def test_the_governance_in_force_is_shown_with_its_sources(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text(GOVERNED, "utf-8")
    outcome = dragoman(tmp_path, "models", "show", "local", "--json")
    (target,) = msgspec.json.decode(outcome.out)["targets"]
    assert {name: (each["value"], each["source"]) for name, each in target["governance"].items()} == {
        "tools": ("hold", "default for a server that is no vendor's own"),
        "harvest": ("hermes", "configuration of the model"),
        "dedupe": (True, "route local"),
        "guard": (["git_destructive"], "route local"),
    }
    lines = dragoman(tmp_path, "models", "show", "ollama/x").out.splitlines()
    assert [line.split() for line in lines if "governance" in line] == [
        ["governance.tools", '"hold"', "preset"],
        ["governance.harvest", '"auto"', "preset"],
        ["governance.rename", "true", "preset"],
    ]
    assert dragoman(tmp_path, "models", "show", "anthropic/x").out.splitlines()[-1] == "  governance is off"
