"""The recorded terminal sessions of the documentation, replayed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.run_command import environment
from tests.cli.test_real_agents import BINARIES, CLIENTS
from tests.docs.blocks import Block, list_blocks

ANY = "…"


def split_session(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a session, and what it prints. A command ends at the line that closes its quotes."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        size = next(n for n in range(1, len(lines) + 1) if "".join(lines[:n]).count("'") % 2 == 0)
        yield "".join(lines[:size]).rstrip("\n"), "".join(lines[size:])


def matches(printed: str, expected: str) -> bool:
    """Whether the texts are equal but for white space and for what `…` stands for."""
    pattern = ".*?".join(re.escape("".join(piece.split())) for piece in expected.split(ANY))
    return re.fullmatch(pattern, "".join(printed.split()), re.DOTALL) is not None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without anything but the command."""
    launcher = tmp_path / "bin" / "dragoman"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m dragoman "$@"\n', "utf-8")
    launcher.chmod(0o755)
    return tmp_path


def run(command: str, home: Path) -> str:
    path = f"{home / 'bin'}:{CLIENTS / 'bin'}:{BINARIES}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} 2>&1"],
        cwd=home,
        env=environment(home, PATH=path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def serve(home: Path) -> subprocess.Popen[str]:
    """A gateway without a configuration on a free port. Its first lines name the address."""
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0"]
    return subprocess.Popen(command, cwd=home, env=environment(home), stderr=subprocess.PIPE, text=True)


@pytest.mark.rule("M52")
@pytest.mark.parametrize("block", list_blocks("console"), ids=str)
def test_a_recorded_session_can_be_repeated(block: Block, home: Path) -> None:
    with serve(home) as gateway:
        assert gateway.stderr is not None
        address = next(found[0] for line in gateway.stderr if (found := re.search(r"127\.0\.0\.1:\d+", line)))
        Thread(target=gateway.stderr.read, daemon=True).start()
        try:
            for command, expected in split_session(block.text):
                printed = run(command.replace("localhost:8484", address), home)
                assert matches(printed, expected), f"{command}\n{printed}"
        finally:
            gateway.terminate()


def test_a_transcript_must_agree_but_for_its_gaps() -> None:
    assert matches("a  b\nc42d", "a b c…d")
    assert not matches("a b c42e", "a b c…d")
    assert not matches("a b", "")
    assert list(split_session("$ curl -d '{\n 1}'\n{2}\n$ ls\n")) == [
        ("curl -d '{\n 1}'", "{2}\n"),
        ("ls", ""),
    ]
