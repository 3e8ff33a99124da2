"""Every block of the documentation works as it is printed."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread

import msgspec
import pytest

import dragoman as library
from dragoman.config.load import load
from dragoman.records.filters import parse_filter
from dragoman.records.reading import list_turns
from dragoman.records.store import open_records
from tests.cli.run_command import environment
from tests.cli.test_real_agents import BINARIES, CLIENTS
from tests.cli.test_status import eventually
from tests.docs.blocks import ROOT, Block, list_blocks
from tests.doctor.local_servers import ollama, serving

#: Providers that the fragments of configurations refer to.
PROVIDERS = {
    "local": "ollama",
    "ollama": "ollama",
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}

#: Programs whose commands are run here.
PROGRAMS = ("dragoman", "curl", "eval")

#: Commands that other tests run: they are interactive, take long, or install something.
ELSEWHERE = {
    "make run": "tests/e2e/test_packaging.py",
    "make test": "Makefile",
    "uvx --from": "tests/e2e/test_packaging.py",
    ".venv/bin/python -m hatchling build": "tests/e2e/test_packaging.py",
    "pipx install": "tests/e2e/test_packaging.py",
    "pipx inject": "tests/e2e/test_packaging.py",
    "dragoman serve": "tests/e2e/test_packaging.py",
    "dragoman start": "tests/cli/test_background.py",
    "dragoman logs": "tests/cli/test_background.py",
    "dragoman stop": "tests/cli/test_background.py",
    "dragoman setup": "tests/cli/test_setup.py",
    "dragoman import": "tests/importing/test_command.py",
    "python -m tests.fuzz": "tests/fuzz/test_library.py",
    "python -m tests.pipeline.sessions": "tests/pipeline/test_continued.py",
    "python -m tests.pipeline.small_conversations": "tests/pipeline/test_continued_checks.py",
    "claude": "tests/cli/test_real_agents.py",
    "dragoman run claude": "tests/cli/test_real_agents.py",
    "dragoman prompts try": "tests/prompts/test_rules.py",
    "dragoman replay": "tests/cli/test_replay_agents.py",
    "dragoman fork": "tests/cli/test_replay_agents.py",
    "dragoman bisect": "tests/cli/test_replay_agents.py",
    "dragoman diff": "tests/cli/test_replay_agents.py",
    "export ": "tests/cli/test_real_agents.py",
    'eval "$(_DRAGOMAN_COMPLETE': "tests/cli/test_commands.py",
    "_DRAGOMAN_COMPLETE": "tests/cli/test_commands.py",
    "dragoman env --shell": "tests/cli/test_shells.py",
}
#: Commands that report what they find with another exit code.
CHECKS = ("dragoman doctor",)

CONFIGURATION = """
[server]
port = {port}

[records]
record = "bodies"

[providers.local]
dialect = "embedded"

[providers.ollama]
preset = "ollama"
base_url = "{ollama}/v1"

[providers.openai]
preset = "openai"

[[routes]]
match = "fast"
target = "local/embedded"

[[routes]]
match = "*"
target = "local/embedded"
"""


def is_ours(block: Block) -> bool:
    """Whether it is a configuration of the gateway, and not of a package or of Codex, and needs no plugin."""
    return not any(
        each in block.text for each in ("[project", "openai_base_url", "[tools.plugins", "[steps.terse")
    )


@pytest.mark.rule("M52")
@pytest.mark.parametrize("block", [each for each in list_blocks("toml") if is_ours(each)], ids=str)
def test_a_configuration_has_no_mistake(block: Block, tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text("", "utf-8")
    missing = [name for name in PROVIDERS if f"[providers.{name}]" not in block.text]
    rest = "".join(f'\n[providers.{name}]\npreset = "{PROVIDERS[name]}"\n' for name in missing)
    load(f"{block.text}{rest}", str(tmp_path / "dragoman.toml"), {}, secrets_needed=False)


def list_commands() -> dict[str, list[str]]:
    """The commands of each page that are run here, in their order."""
    pages: dict[str, list[str]] = {}
    for block in list_blocks("sh"):
        for command in block.commands:
            tests = {ROOT / test for start, test in ELSEWHERE.items() if command.startswith(start)}
            if tests and " -p " not in command:
                assert all(test.exists() for test in tests), command
                continue
            assert command.startswith(PROGRAMS), f"{block}: run or mark {command!r}"
            pages.setdefault(block.page, []).append(command)
    return pages


COMMANDS = list_commands()


class Home(msgspec.Struct, frozen=True):
    """A home with a configuration and recorded files, and the port of the gateway that runs for it."""

    folder: Path
    port: int

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace("8484", str(self.port))
        path = f"{self.folder / 'bin'}:{CLIENTS / 'bin'}:{BINARIES}:/usr/local/bin:/usr/bin:/bin"
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=environment(self.folder, PATH=path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def send_turn(port: int, body: bytes) -> None:
    """One turn of a session of Claude Code."""
    headers = {
        "user-agent": "claude-cli/2.1.325",
        "x-claude-code-session-id": "3f0c",
        "content-type": "application/json",
    }
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/messages", body, headers)
    response = connection.getresponse()
    assert (response.status, bool(response.read())) == (200, True)
    connection.close()


def count_turns(home: Path) -> int:
    """The turns in the file of the records. It exists once the first request has come."""
    file = home / ".local/state/dragoman/records.db"
    return len(open_records(file, partial(list_turns, condition=parse_filter("")))) if file.exists() else 0


def read_port(log: Iterable[str]) -> int:
    """The port that the system gave the gateway. No other process can take it in between."""
    lines = []
    for line in log:
        if found := re.search(r"listens on http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
        lines.append(line)
    raise AssertionError(f"the gateway does not start: {''.join(lines)}")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    launcher = tmp_path / "bin" / "dragoman"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m dragoman "$@"\n', "utf-8")
    launcher.chmod(0o755)
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    (tmp_path / "request.json").write_bytes(msgspec.json.encode(request))
    (tmp_path / "README.md").write_text("# A project\n", "utf-8")
    # Codex works in repositories only.
    subprocess.run(["/bin/sh", "-c", "git init -q"], cwd=tmp_path, check=True)
    file = tmp_path / "dragoman.toml"
    with serving(ollama()) as server:
        file.write_text(CONFIGURATION.format(port=0, ollama=server.url), "utf-8")
        command = [sys.executable, "-m", "dragoman", "serve"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
        ) as gateway:
            assert gateway.stderr is not None
            port = read_port(gateway.stderr)
            Thread(target=gateway.stderr.read, daemon=True).start()
            # The commands find the gateway by its configuration.
            file.write_text(CONFIGURATION.format(port=port, ollama=server.url), "utf-8")
            try:
                for _ in range(3):
                    send_turn(port, msgspec.json.encode(request))
                # The end of a reply waits for the file two seconds only.
                eventually(lambda: count_turns(tmp_path) == 3, within=60)
                yield Home(tmp_path, port)
            finally:
                gateway.terminate()


#: Pages whose programs other tests run: they need Claude Code, or a package with an entry point.
PROGRAMS_ELSEWHERE = ("docs/claude-code-backend.md", "docs/gateway-tools.md", "docs/steps.md")


def list_programs() -> dict[str, str]:
    """The programs of each page as one text: later blocks use names of the earlier ones."""
    programs: dict[str, str] = {}
    for block in list_blocks("python"):
        if block.page not in PROGRAMS_ELSEWHERE:
            programs[block.page] = f"{programs.get(block.page, '')}\n{block.text}"
    return programs


PYTHON = list_programs()


class Sink:
    """The connection to a client in the examples."""

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)


@pytest.mark.rule("M52")
@pytest.mark.parametrize("page", PYTHON)
def test_the_programs_of_a_page_work_in_their_order(page: str, home: Home) -> None:
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    chunk = write_stream("openai_chat")
    answer = {"role": "assistant", "content": "Hi"}
    reply = {"id": "c", "model": "m", "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}]}
    names = {"body": request, "chunk": chunk, "client": Sink(), "provider": [chunk], "reply": reply}
    exec(compile(PYTHON[page].replace("8484", str(home.port)), page, "exec"), names)  # noqa: S102 (our own text)


def write_stream(dialect: str) -> bytes:
    """A correct stream of this dialect."""
    text = b'{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
    stream = library.StreamTranslator(source="openai_chat", target=dialect)
    return stream.feed(b"data: %b\n\ndata: [DONE]\n\n" % text) + stream.close()


@pytest.mark.rule("M52")
@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_work_in_their_order(page: str, home: Home) -> None:
    for command in COMMANDS[page]:
        dialect = "anthropic" if "--dialect anthropic" in command else "openai_chat"
        (home.folder / "reply.sse").write_bytes(write_stream(dialect))
        done = home.run(command)
        output = f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, output
        assert done.returncode in ((0, 1) if command.startswith(CHECKS) else (0,)), output


def test_a_recorded_turn_is_explained(home: Home) -> None:
    done = home.run("dragoman explain last 2")
    assert done.stdout.startswith("request  m: agent claude-code, agent_version 2.1.325"), done.stderr
    assert done.stdout.splitlines()[-1].startswith("targets  local/embedded")
    assert "session '3f0c' has no turn 9" in home.run("dragoman explain last 9").stderr
