"""`dragoman config` and the start of a gateway: mistakes, warnings, effective values, JSON forms."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.cli.run_command import dragoman, environment

BROKEN = '[server]\nprot = 1\n[providers.a]\ndialect = "x"\n'
PARTLY = """\
[server]
port = {port}
{log}
[providers.openai]
[providers.embedded]
[[routes]]
match = "paid"
target = "openai/gpt-6"
[[routes]]
match = "own"
target = "embedded/it"
"""


def write(folder: Path, text: str, name: str = "dragoman.toml") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder


@pytest.mark.rule("M25", "M33")
def test_a_check_prints_all_mistakes_and_takes_a_file(tmp_path: Path) -> None:
    outcome = dragoman(write(tmp_path, BROKEN, "other.toml"), "config", "check", "other.toml")
    assert outcome.code == 2
    assert [line for line in outcome.err.splitlines() if line.startswith("error:")] == [
        "error: other.toml, line 2: server.prot: unknown key",
        outcome.err.splitlines()[2],
    ]
    assert "other.toml, line 4: providers.a.dialect: expected" in outcome.err


@pytest.mark.rule("M33")
def test_a_check_builds_the_steps(tmp_path: Path) -> None:
    step = "[steps.force_reasoning]\nsettings = { words = 5 }\n"
    text = f"[providers.embedded]\nsteps = ['force_reasoning']\n{step}"
    outcome = dragoman(write(tmp_path, text), "config", "check")
    assert outcome.code == 2
    assert "steps.force_reasoning.settings: expected the text `instruction`" in outcome.err


def test_a_check_has_a_json_form(tmp_path: Path) -> None:
    outcome = dragoman(write(tmp_path, BROKEN), "config", "check", "--json")
    report = msgspec.json.decode(outcome.out)
    assert outcome.code == 2
    assert (report["ok"], [each["line"] for each in report["mistakes"]]) == (False, [2, 4])
    fine = dragoman(write(tmp_path, PARTLY.format(port=1, log="")), "config", "check", "--json")
    report = msgspec.json.decode(fine.out)
    assert fine.code == 0
    assert (report["ok"], [each["line"] for each in report["warnings"]]) == (True, [4])


@pytest.mark.rule("M13")
def test_a_check_warns_about_a_variable_that_is_not_set(tmp_path: Path) -> None:
    outcome = dragoman(write(tmp_path, PARTLY.format(port=1, log="")), "config", "check")
    assert outcome.code == 0
    warning = "dragoman.toml, line 4: providers.openai: the environment variable OPENAI_API_KEY is not set"
    assert f"warning: {warning}" in outcome.err
    assert outcome.out == "dragoman.toml: usable (2 providers, 2 routes, 1 warning)\n"


@pytest.mark.rule("M39")
def test_an_open_address_without_keys_is_reported_with_its_line(tmp_path: Path) -> None:
    outcome = dragoman(write(tmp_path, '[server]\nport = 1\nhost = "0.0.0.0"\n'), "config", "check")
    assert outcome.code == 2
    assert "error: dragoman.toml, line 3: server.host is '0.0.0.0'" in outcome.err


@pytest.mark.rule("M33")
def test_the_effective_values_are_shown_without_secrets(tmp_path: Path) -> None:
    text = '[server]\nkeys = ["literal-secret"]\n[providers.openai]\nproxy = "http://me:literal-secret@p:1"\n'
    outcome = dragoman(write(tmp_path, text), "config", "show")
    assert outcome.code == 0
    assert "secret" not in outcome.out.replace("(secret)", "")
    lines = outcome.out.splitlines()
    for line in ("[server]", "port = 8484", 'keys = ["(secret)"]', "[providers.openai]"):
        assert line in lines
    assert 'api_key = ["env:OPENAI_API_KEY"]' in lines
    assert 'base_url = "https://api.openai.com/v1"' in lines
    report = msgspec.json.decode(dragoman(tmp_path, "config", "show", "--json").out)
    assert report["server"]["drain"] == 30.0


@pytest.mark.rule("M33")
def test_the_models_have_a_json_form(tmp_path: Path) -> None:
    report = msgspec.json.decode(
        dragoman(write(tmp_path, PARTLY.format(port=1, log="")), "models", "--json").out
    )
    assert report["routes"][0] == {"match": "paid", "targets": ["openai/gpt-6"], "strict": False}
    assert [(each["name"], bool(each["obstacle"])) for each in report["providers"]] == [
        ("openai", True),
        ("embedded", False),
    ]


@pytest.mark.rule("M33")
def test_the_version_has_a_short_option(tmp_path: Path) -> None:
    assert dragoman(tmp_path, "-V").out == dragoman(tmp_path, "--version").out


@contextmanager
def serving(folder: Path, until: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway in a process of its own, and what it has printed up to a line with this text."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve"],
        cwd=folder,
        env=environment(folder, **variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    printed = ""
    try:
        for line in process.stderr:
            printed += line
            if until in line:
                break
        yield process, printed
    finally:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@pytest.mark.rule("M30")
def test_a_second_gateway_names_the_first_one(tmp_path: Path) -> None:
    port = free_port()
    folder = write(tmp_path, PARTLY.format(port=port, log=""))
    write(folder, PARTLY.format(port=port, log=""), "second.toml")
    with serving(folder, "Ctrl-C"):
        for arguments in (("serve",), ("serve", "--config", "second.toml")):
            outcome = dragoman(folder, *arguments)
            assert outcome.code == 2
            assert f"a dragoman already listens on http://127.0.0.1:{port}, with " in outcome.err
            assert "dragoman.toml" in outcome.err
            assert "dragoman status" in outcome.err
            assert "dragoman reload" in outcome.err


@pytest.mark.rule("M13")
def test_a_gateway_starts_without_the_key_of_one_provider(tmp_path: Path) -> None:
    with serving(write(tmp_path, PARTLY.format(port=free_port(), log="")), "Ctrl-C") as (_, printed):
        assert "warning: dragoman.toml, line 4: providers.openai: " in printed
        outcome = dragoman(tmp_path, "status")
        assert "OPENAI_API_KEY is not set" in outcome.out


@pytest.mark.rule("M26", "M37")
def test_a_gateway_with_a_json_log_prints_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, PARTLY.format(port=free_port(), log='log = "json"\nstate = "/dev/null/state"'))
    with serving(tmp_path, "admin API") as (_, printed):
        lines = [msgspec.json.decode(line) for line in printed.splitlines()]
    assert [line["message"] for line in lines][:2] == ["listening", "configuration"]
    assert "stored responses" in lines[2]["also"]
    assert os.path.basename(lines[0]["config"]) == "dragoman.toml"
