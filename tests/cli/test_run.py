"""`env` and `run` bring an agent and the gateway together. The agent here is a script of ours."""

import http.client
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.cli.run_command import dragoman, environment

#: Asks the gateway that it was pointed at, as Claude Code would, and prints what it was started with.
AGENT = """\
#!{python}
import json, os, sys, urllib.request
if "wait" in sys.argv:
    import signal
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print(os.environ["ANTHROPIC_BASE_URL"], flush=True)
    sys.stdin.read()
if "exit" in sys.argv:
    sys.exit(5)
body = {{"model": "any", "max_tokens": 100, "messages": [{{"role": "user", "content": "say marigold"}}]}}
asked = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages",
    json.dumps(body).encode(),
    {{"x-api-key": os.environ["ANTHROPIC_AUTH_TOKEN"]}},
)
text = json.load(urllib.request.urlopen(asked))["content"][0]["text"]
print(json.dumps({{"text": text, "arguments": sys.argv[1:], "key": os.environ.get("ANTHROPIC_API_KEY")}}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agent = tmp_path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(AGENT.format(python=sys.executable), "utf-8")
    agent.chmod(0o700)
    return tmp_path


def path_of(folder: Path) -> str:
    return f"{folder / 'bin'}:/usr/bin:/bin"


def waiting(folder: Path) -> subprocess.Popen[str]:
    """An agent that prints the gateway's address and waits for its end."""
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", "run", "claude", "wait"],
        cwd=folder,
        env=environment(folder, PATH=path_of(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answers(port: int) -> bool:
    """Whether a gateway answers at this port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


def test_an_agent_runs_against_a_gateway_that_lives_as_long_as_it(folder: Path) -> None:
    outcome = dragoman(
        folder,
        "run",
        "--log",
        "log.txt",
        "claude",
        "-p",
        "--flag",
        PATH=path_of(folder),
        ANTHROPIC_API_KEY="mine",
    )
    assert outcome.code == 0, outcome.err
    printed = msgspec.json.decode(outcome.out)
    assert printed["text"] == "marigold"
    assert printed["arguments"][0] == "--settings"
    assert printed["arguments"][2:] == ["-p", "--flag"]
    assert printed["key"] is None
    assert "exchange" in (folder / "log.txt").read_text("utf-8")
    assert "(no configuration: the embedded model answers)" in outcome.err


def test_the_configuration_that_is_used_is_reported(folder: Path) -> None:
    (folder / "dragoman.toml").write_text('default = "embedded"\n[providers.embedded]\n', "utf-8")
    outcome = dragoman(folder, "run", "claude", PATH=path_of(folder))
    assert "gateway: http://127.0.0.1:" in outcome.err
    assert outcome.err.endswith(f"({folder / 'dragoman.toml'})\n")


def serve(folder: Path) -> "subprocess.Popen[str]":
    """`dragoman serve` in the folder, whose keys are in the environment."""
    return subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve"],
        cwd=folder,
        env=environment(folder, DOOR="door-key"),
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_gateway_that_already_runs_is_used_with_its_key(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    text = f'default = "embedded"\n[server]\nport = {port}\nkeys = ["env:DOOR"]\n[providers.embedded]\n'
    (folder / "dragoman.toml").write_text(text, "utf-8")
    with serve(folder) as gateway:
        assert gateway.stderr is not None
        assert "listens on" in gateway.stderr.readline()
        try:
            outcome = dragoman(folder, "run", "claude", PATH=path_of(folder), DOOR="door-key")
        finally:
            gateway.terminate()
        output = gateway.stderr.read()
    assert outcome.code == 0, outcome.err
    assert f"gateway: http://127.0.0.1:{port} ({folder / 'dragoman.toml'})\n" in outcome.err
    assert "exchange" in output


def test_the_status_finds_the_gateway_of_an_agent(folder: Path) -> None:
    process = waiting(folder)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        outcome = dragoman(folder, "status")
        assert outcome.code == 0
        assert outcome.out.startswith(f"dragoman 0.1.0 at {address}, up ")
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_an_agent_is_not_given_the_operators_token(folder: Path) -> None:
    script = "#!/bin/sh\nenv\n"
    (folder / "bin" / "claude").write_text(script, "utf-8")
    token = "token-of-the-operator"
    outcome = dragoman(folder, "run", "claude", PATH=path_of(folder), DRAGOMAN_ADMIN_TOKEN=token, KEPT="yes")
    assert "KEPT=yes" in outcome.out
    assert token not in outcome.out


def test_the_exit_code_is_the_agents(folder: Path) -> None:
    assert dragoman(folder, "run", "claude", "--", "exit", PATH=path_of(folder)).code == 5


def test_an_agent_that_is_not_installed_is_reported_with_how_to_get_it(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "run", "codex", PATH=str(tmp_path))
    assert outcome.code == 2
    assert "Codex CLI is not installed" in outcome.err
    assert "npm install -g @openai/codex" in outcome.err


def test_a_gateway_that_cannot_start_states_why(folder: Path) -> None:
    (folder / "dragoman.toml").write_text('[server]\nport = 1\nkeys = ["env:OPENAI_API_KEY"]\n', "utf-8")
    outcome = dragoman(folder, "run", "claude", PATH=path_of(folder))
    assert outcome.code == 2
    assert "OPENAI_API_KEY is not set" in outcome.err


def test_a_signal_reaches_the_agent_and_the_gateway_ends_with_it(folder: Path) -> None:
    with waiting(folder) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        assert answers(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 7
    assert not answers(port)


def test_a_gateway_does_not_outlive_a_starter_that_is_killed(folder: Path) -> None:
    with waiting(folder) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        process.kill()
        process.wait(5)
        until = time.monotonic() + 15
        while answers(port) and time.monotonic() < until:
            pass
        assert not answers(port)


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "opencode"])
def test_the_variables_of_an_agent_are_code_for_a_shell(tmp_path: Path, agent: str) -> None:
    printed = dragoman(tmp_path, "env", "--model", "it's", agent)
    assert printed.code == 0
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell, "-eu", "-c", f"{printed.out}\nenv"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "http://127.0.0.1:8484" in done.stdout + printed.out
    if agent == "gemini":
        home = next(line for line in done.stdout.splitlines() if line.startswith("GEMINI_CLI_HOME="))
        settings = Path(home.partition("=")[2]) / ".gemini" / "settings.json"
        assert "gemini-api-key" in settings.read_text("utf-8")
        shutil.rmtree(settings.parent.parent)


def test_the_variables_need_no_configuration_for_a_gateway_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text("broken", "utf-8")
    outcome = dragoman(tmp_path, "env", "--url", "http://gateway.example/v1", "claude", DRAGOMAN_KEY="team")
    assert outcome.code == 0
    assert "export ANTHROPIC_BASE_URL=http://gateway.example\n" in outcome.out
    assert "export ANTHROPIC_AUTH_TOKEN=team\n" in outcome.out


PASS_THROUGH = """
[providers.vendor]
dialect = "anthropic"
base_url = "http://127.0.0.1:9"
auth = "client"
[[routes]]
match = "claude-*"
target = "vendor"
"""


@pytest.mark.rule("R120")
@pytest.mark.parametrize("key", ["", "gateway-key"])
def test_a_login_that_the_gateway_relays_is_not_replaced_by_a_token(tmp_path: Path, key: str) -> None:
    keys = f'[server]\nkeys = ["{key}"]\n' if key else ""
    (tmp_path / "dragoman.toml").write_text(keys + PASS_THROUGH, "utf-8")
    outcome = dragoman(tmp_path, "env", "claude")
    assert outcome.code == 0, outcome.err
    assert "export ANTHROPIC_BASE_URL=" in outcome.out
    assert "ANTHROPIC_AUTH_TOKEN" not in outcome.out
    assert "unset ANTHROPIC_API_KEY" not in outcome.out
    assert ("dragoman-key: gateway-key" in outcome.out) == bool(key)
    (tmp_path / "dragoman.toml").write_text(keys + PASS_THROUGH.replace('auth = "client"', ""), "utf-8")
    assert "ANTHROPIC_AUTH_TOKEN" in dragoman(tmp_path, "env", "claude").out


def test_an_agent_gets_a_key_of_its_own_for_a_gateway_that_asks_for_one(folder: Path) -> None:
    assert dragoman(folder, "keys", "create", "ci").code == 0
    outcome = dragoman(folder, "run", "claude", PATH=path_of(folder))
    assert outcome.code == 0, outcome.err
    assert "marigold" in outcome.out
    used = msgspec.json.decode(dragoman(folder, "usage", "--json").out)
    assert [each["key"] for each in used] == ["server.keys 1"]


def test_the_commands_that_a_gateway_shows_can_be_called_and_name_its_key(folder: Path) -> None:
    address = "0.0.0.0"  # noqa: S104 (the test of a gateway that listens on all addresses)
    text = f'[server]\nhost = "{address}"\nport = 0\nkeys = ["env:DOOR"]\n[providers.embedded]\n'
    (folder / "dragoman.toml").write_text(text, "utf-8")
    with serve(folder) as gateway:
        assert gateway.stderr is not None
        assert f"listens on http://{address}:" in gateway.stderr.readline()
        shown = "".join(iter(gateway.stderr.readline, "Stop with Ctrl-C.\n"))
        gateway.terminate()
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:" in shown
    assert 'x-api-key:"$DOOR"' in shown
    assert "door-key" not in shown
