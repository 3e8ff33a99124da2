"""What a new user does first: start the gateway, write a file, run an agent, also in a second project."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from dragoman.cli.connection import RunningGateway, find_running
from dragoman.config.config import Config
from dragoman.config.settings import ServerSettings
from tests.cli.run_command import dragoman, environment
from tests.doctor.local_servers import ollama
from tests.doctor.local_servers import serving as local_server

#: Prints the variables that dragoman sets, and the model that answers.
AGENT = """\
#!{python}
import json, os, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"]
health = json.load(urllib.request.urlopen(url + "/health"))
models = json.load(urllib.request.urlopen(url + "/v1/models"))
print(json.dumps({{"url": url, "models": [each["id"] for each in models["data"]]}}))
"""
FILE = """\
[server]
port = {port}
[providers.embedded]
[[routes]]
match = "{name}"
target = "embedded/it"
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def home(tmp_path: Path) -> Path:
    agent = tmp_path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(AGENT.format(python=sys.executable), "utf-8")
    agent.chmod(0o700)
    return tmp_path


def project(home: Path, name: str, port: int = 0) -> Path:
    folder = home / name
    folder.mkdir()
    if port:
        (folder / "dragoman.toml").write_text(FILE.format(port=port, name=name), "utf-8")
    return folder


@contextmanager
def serving(folder: Path, home: Path, *options: str) -> Iterator[str]:
    """`dragoman serve` in this folder; the banner that it prints."""
    with subprocess.Popen(
        [sys.executable, "-m", "dragoman", "serve", *options],
        cwd=folder,
        env=environment(home),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            banner = ""
            while "Stop with Ctrl-C." not in banner:
                line = process.stderr.readline()
                assert line, banner
                banner += line
            yield banner
        finally:
            process.terminate()
            process.communicate(timeout=20)


def run_agent(folder: Path, home: Path, *options: str) -> tuple[dict[str, object], str]:
    path = f"{home / 'bin'}:/usr/bin:/bin"
    outcome = dragoman(folder, "run", *options, "claude", PATH=path, HOME=str(home))
    assert outcome.code == 0, outcome.err
    return msgspec.json.decode(outcome.out, type=dict[str, object]), outcome.err


@pytest.mark.rule("M3")
def test_the_banner_connects_claude_code_without_a_question_about_its_key(home: Path) -> None:
    # Claude Code asks whether to use an ANTHROPIC_API_KEY, recommends No, and is then "Not logged in".
    with serving(project(home, "a"), home, "--port", "0") as banner:
        (line,) = [line for line in banner.splitlines() if line.split()[:2] == ["Claude", "Code"]]
    assert "ANTHROPIC_AUTH_TOKEN=any claude" in line
    assert "ANTHROPIC_API_KEY" not in line


@pytest.mark.rule("M5")
def test_a_gateway_without_a_file_loads_the_one_that_setup_writes(home: Path) -> None:
    folder, port = project(home, "a"), free_port()
    with serving(folder, home, "--port", str(port)) as banner:
        assert "dragoman setup" in banner
        assert "save the file" not in banner
        arguments = ("setup", "--provider", "ollama", "--model", "qwen3-coder")
        assert dragoman(folder, *arguments, HOME=str(home)).code == 0
        shown = status(folder, home, "--url", f"http://127.0.0.1:{port}")
        until = time.monotonic() + 15
        while "ollama/qwen3-coder" not in shown and time.monotonic() < until:
            time.sleep(0.2)
            shown = status(folder, home, "--url", f"http://127.0.0.1:{port}")
    assert f"configuration: {folder / 'dragoman.toml'}, read" in shown
    assert "ollama/qwen3-coder" in shown


def status(folder: Path, home: Path, *options: str) -> str:
    return dragoman(folder, "status", *options, HOME=str(home)).out


def test_the_status_finds_a_gateway_that_has_loaded_a_new_file(home: Path) -> None:
    folder = project(home, "a")
    with serving(folder, home, "--port", "0"):
        (folder / "dragoman.toml").write_text("[providers.embedded]\n", "utf-8")
        until = time.monotonic() + 15
        while f"configuration: {folder / 'dragoman.toml'}, read" not in status(folder, home):
            assert time.monotonic() < until
            time.sleep(0.2)


def test_run_uses_the_gateway_of_its_own_project(home: Path) -> None:
    port = free_port()
    folder = project(home, "a", port)
    with serving(folder, home):
        seen, output = run_agent(folder, home)
    assert seen == {"url": f"http://127.0.0.1:{port}", "models": ["a"]}
    assert f"gateway: http://127.0.0.1:{port} ({folder / 'dragoman.toml'})\n" in output


@pytest.mark.rule("M2")
def test_run_prints_one_line_with_the_models_the_gateway_and_the_file(home: Path) -> None:
    folder, port = project(home, "a", free_port()), free_port()
    text = f"""\
[server]
port = {port}
[providers.embedded.models."it"]
context_tokens = 32768
[[routes]]
match = "*"
target = "embedded/it"
"""
    (folder / "dragoman.toml").write_text(text, "utf-8")
    with serving(folder, home):
        _, output = run_agent(folder, home)
    assert output == (
        "Claude Code: claude-opus-5-5 -> embedded/it (32,768 tokens of context), "
        f"gateway: http://127.0.0.1:{port} ({folder / 'dragoman.toml'})\n"
    )


@pytest.mark.rule("M2")
def test_run_does_not_use_the_gateway_of_another_project(home: Path) -> None:
    port = free_port()
    first, second = project(home, "a", port), project(home, "b", port)
    with serving(first, home):
        seen, output = run_agent(second, home)
    assert seen["models"] == ["b"]
    assert f"http://127.0.0.1:{port} belongs to another configuration" in output
    assert f"--url http://127.0.0.1:{port}" in output


@pytest.mark.rule("M2")
def test_run_without_a_file_does_not_use_a_gateway_that_has_one(home: Path) -> None:
    port = free_port()
    with serving(project(home, "a", port), home):
        # Without a file the port is always 8484, so this test asks the function instead of the command.
        found = find_running(Config(server=ServerSettings(port=port)))
    assert found == RunningGateway(f"http://127.0.0.1:{port}", is_own=False)


@pytest.mark.rule("M2")
@pytest.mark.parametrize("options", [(), ("--workers", "2")])
@pytest.mark.parametrize("is_same_user", [True, False])
def test_run_without_a_file_uses_only_a_gateway_of_the_same_user(
    home: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], is_same_user: bool
) -> None:
    port = free_port()
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home if is_same_user else home / "other"))
    with serving(project(home, "empty"), home, "--port", str(port), *options):
        found = find_running(Config(server=ServerSettings(port=port)))
    assert found == RunningGateway(f"http://127.0.0.1:{port}", is_own=is_same_user)


def test_the_doctor_names_a_gateway_of_another_project(home: Path) -> None:
    port = free_port()
    first, second = project(home, "a", port), project(home, "b", port)
    with serving(first, home):
        outcome = dragoman(second, "doctor", HOME=str(home))
    assert outcome.code == 1
    assert "a gateway with another configuration listens on" in outcome.out


def test_a_second_gateway_on_the_same_port_is_reported_about_the_first(home: Path) -> None:
    port = free_port()
    folder = project(home, "a", port)
    with serving(folder, home):
        outcome = dragoman(folder, "serve", HOME=str(home))
    assert outcome.code == 2
    assert f"a dragoman already listens on http://127.0.0.1:{port}" in outcome.err
    assert "dragoman status" in outcome.err


@pytest.mark.parametrize("command", ["run", "env"])
def test_a_model_that_is_not_there_is_refused_with_those_that_are(home: Path, command: str) -> None:
    folder = project(home, "a", free_port())
    path = f"{home / 'bin'}:/usr/bin:/bin"
    outcome = dragoman(folder, command, "--model", "nosuch", "claude", PATH=path, HOME=str(home))
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no model 'nosuch' here; there are: a" in outcome.err


@pytest.mark.rule("M27")
@pytest.mark.parametrize("command", ["run", "env"])
@pytest.mark.parametrize("url", ["127.0.0.1:8484", "ftp://127.0.0.1", "http://", "nonsense"])
def test_an_address_that_is_none_is_refused(home: Path, command: str, url: str) -> None:
    path = f"{home / 'bin'}:/usr/bin:/bin"
    outcome = dragoman(home, command, "--url", url, "claude", PATH=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "is not an HTTP address" in outcome.err
    assert "http://127.0.0.1:8484" in outcome.err


@pytest.mark.rule("M27")
def test_an_address_without_a_gateway_is_refused_before_the_agent_starts(home: Path) -> None:
    path = f"{home / 'bin'}:/usr/bin:/bin"
    url = f"http://127.0.0.1:{free_port()}"
    outcome = dragoman(home, "run", "--url", url, "claude", PATH=path)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"no gateway answers at {url}" in outcome.err


def test_an_address_with_a_gateway_is_used(home: Path) -> None:
    port = free_port()
    with serving(project(home, "a", port), home):
        seen, _ = run_agent(project(home, "b"), home, "--url", f"http://127.0.0.1:{port}/v1")
    assert seen == {"url": f"http://127.0.0.1:{port}", "models": ["a"]}


def test_an_interactive_agent_ends_with_the_command_that_resumes_it(home: Path) -> None:
    # Claude Code itself prints a command with the private settings file, which is removed by then.
    terminal, end = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", "run", "claude"],
            cwd=project(home, "a", free_port()),
            env=environment(home, PATH=f"{home / 'bin'}:/usr/bin:/bin"),
            stdin=end,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    finally:
        os.close(terminal)
        os.close(end)
    assert done.stderr.endswith("to resume this session: dragoman run claude --continue\n")


def test_a_run_without_a_terminal_ends_without_that_line(home: Path) -> None:
    _, output = run_agent(project(home, "a", free_port()), home)
    assert "resume" not in output


@pytest.mark.rule("M4")
def test_run_asks_a_local_server_for_a_window_that_no_file_states(home: Path) -> None:
    folder = project(home, "a")
    with local_server(ollama(loaded={"qwen3:8b": 24_576})) as server:
        text = f"""\
[server]
port = {free_port()}
[providers.ollama]
base_url = "{server.url}/v1"
[[routes]]
match = "*"
target = "ollama/qwen3:8b"
"""
        (folder / "dragoman.toml").write_text(text, "utf-8")
        _, output = run_agent(folder, home)
    assert "Claude Code: qwen3:8b -> ollama/qwen3:8b (24,576 tokens of context)" in output
