"""The file, the keys, the permissions and the port: what is wrong comes with what to do."""

import os
import socket
from pathlib import Path

import pytest

from dragoman.config.config import Config
from dragoman.config.load import load
from dragoman.doctor.environment import check_environment
from dragoman.doctor.findings import Finding
from dragoman.storage.database import FILE_NAME


def look(
    tmp_path: Path, text: str, *, running: str = "", mode: int = 0o600, **variables: str
) -> list[Finding]:
    path = tmp_path / "dragoman.toml"
    path.write_text(f"[server]\nport = 0\n{text}", "utf-8")
    path.chmod(mode)
    config = load(path.read_text("utf-8"), str(path), variables, secrets_needed=False)
    return list(check_environment(config, {"HOME": str(tmp_path)}, running=running))


def one(findings: list[Finding], name: str) -> Finding:
    (finding,) = [each for each in findings if each.name == name]
    return finding


def test_all_is_well_where_it_is(tmp_path: Path) -> None:
    found = look(tmp_path, "[providers.openai]\n", OPENAI_API_KEY="k")
    assert {finding.name: finding.state for finding in found} == {
        "configuration": "works",
        "keys": "works",
        "port": "works",
    }


def test_a_variable_that_is_not_set_is_named_with_its_place(tmp_path: Path) -> None:
    text = (
        'keys = ["env:DOOR"]\n[providers.openai]\n[providers.own]\npreset = "openai"\napi_key = "env:OWN"\n'
    )
    found = [each for each in look(tmp_path, text, OPENAI_API_KEY="k") if each.name == "keys"]
    assert [(each.state, each.advice) for each in found] == [
        ("fails", "export DOOR=…"),
        ("fails", "export OWN=…"),
    ]
    assert "providers.own" in found[1].detail


@pytest.mark.parametrize(("mode", "state"), [(0o600, "works"), (0o644, "fails"), (0o640, "fails")])
def test_a_file_with_secrets_in_it_must_be_private(tmp_path: Path, mode: int, state: str) -> None:
    text = '[providers.openai]\napi_key = "sk-literal"\n'
    finding = one(look(tmp_path, text, mode=mode), "permissions")
    assert finding.state == state
    assert (finding.advice == f"chmod 600 {tmp_path / 'dragoman.toml'}") == (state == "fails")
    assert "sk-literal" not in str(finding)


@pytest.mark.rule("M36")
def test_a_literal_key_of_a_server_on_this_machine_is_no_secret(tmp_path: Path) -> None:
    text = '[providers.own]\ndialect = "openai_chat"\nbase_url = "http://localhost:1/v1"\napi_key = "x"\n'
    found = look(tmp_path, text, mode=0o644)
    assert [each for each in found if each.name == "permissions"] == []


def test_a_file_without_secrets_may_be_read_by_all(tmp_path: Path) -> None:
    found = look(tmp_path, "[providers.openai]\n", mode=0o644, OPENAI_API_KEY="k")
    assert [each for each in found if each.name == "permissions"] == []


def test_the_state_file_must_be_private(tmp_path: Path) -> None:
    state = tmp_path / ".local" / "state" / "dragoman"
    state.mkdir(parents=True)
    os.close(os.open(state / FILE_NAME, os.O_CREAT | os.O_WRONLY, 0o644))
    (state / FILE_NAME).chmod(0o644)
    assert one(look(tmp_path, "[providers.embedded]\n"), "permissions").state == "fails"


def test_an_open_door_without_a_key_is_reported(tmp_path: Path) -> None:
    found = look(tmp_path, 'host = "0.0.0.0"\n[providers.embedded]\n')
    assert one(found, "configuration").state == "fails"
    assert "server.keys" in one(found, "configuration").advice


def test_a_port_that_is_taken_is_reported_and_a_gateway_on_it_is_fine(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = tmp_path / "dragoman.toml"
        config = load(f"[server]\nport = {port}\n", str(path), {})
        environment = {"HOME": str(tmp_path)}
        alone = list(check_environment(config, environment, running=""))
        beside = list(check_environment(config, environment, running=f"http://127.0.0.1:{port}"))
    assert one(alone, "port").state == "fails"
    assert "--port" in one(alone, "port").advice
    assert one(beside, "port").state == "works"


def test_no_configuration_is_no_fault(tmp_path: Path) -> None:
    found = list(check_environment(Config(), {"HOME": str(tmp_path)}, running="http://127.0.0.1:1"))
    assert one(found, "configuration").state == "lacks"
    assert "dragoman setup" in one(found, "configuration").advice
