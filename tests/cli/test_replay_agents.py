"""The published agents run a recorded session again, offline: the same requests, the same files."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.cli.run_command import Outcome, dragoman
from tests.cli.test_real_agents import BINARIES, CLIENTS, VARIABLES

PATH = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
PROMPT = "run `echo made here > made.txt` then read notes.txt then run `cat made.txt`"
EMBEDDED = '[providers.model]\ndialect = "embedded"\n'
#: No server listens there.
NOWHERE = """
[providers.model]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9/v1"
api_key = "k"
retries = 0
"""


class Command(NamedTuple):
    """How an agent is run once."""

    name: str
    arguments: tuple[str, ...]

    def build(self, prompt: str) -> list[str]:
        return [self.name, *(part.format(prompt=prompt) for part in self.arguments)]


AGENTS = [
    Command("claude", ("-p", "{prompt}", "--dangerously-skip-permissions")),
    Command(
        "codex", ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{prompt}")
    ),
]


def configure(folder: Path, provider: str) -> None:
    state = f'[server]\nstate = "{folder / "state"}"\n[records]\nrecord = "bodies"\n'
    (folder / "dragoman.toml").write_text(f'default = "model/embedded"\n{state}{provider}', "utf-8")


def run(folder: Path, *words: str) -> Outcome:
    return dragoman(folder, *words, PATH=PATH, **VARIABLES)


@pytest.mark.rule("R132")
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_agent_repeats_a_recorded_session_offline(agent: Command, tmp_path: Path) -> None:
    configure(tmp_path, EMBEDDED)
    (tmp_path / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
    recorded = run(tmp_path, "run", *agent.build(PROMPT))
    assert recorded.code == 0, recorded.err
    made = tmp_path / "made.txt"
    assert made.read_text("utf-8") == "made here\n"
    made.unlink()

    configure(tmp_path, NOWHERE)
    again = run(tmp_path, "replay", "--strict", "last", *agent.build(PROMPT))
    assert again.code == 0, again.err
    assert made.read_text("utf-8") == "made here\n"
    assert again.out.strip().splitlines()[-1] == recorded.out.strip().splitlines()[-1]
    turns = len(msgspec.json.decode(run(tmp_path, "records", "show", "last", "--json").out)["list"])
    assert turns == 4
    assert f"{turns} requests: {turns} as recorded, 0 different" in again.err

    other = run(tmp_path, "replay", "last", *agent.build(PROMPT.replace("made here", "made there")))
    assert other.code == 1
    assert "differs from turn 1" in other.err
    assert "made there" in other.err


def test_a_session_is_continued_by_a_live_model(tmp_path: Path) -> None:
    (claude, _) = AGENTS
    configure(tmp_path, EMBEDDED)
    (tmp_path / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
    assert run(tmp_path, "run", *claude.build(PROMPT)).code == 0
    (tmp_path / "made.txt").unlink()
    (session,) = msgspec.json.decode(run(tmp_path, "records", "list", "--json").out)
    words = ("fork", "--at", "2", "--model", "live", session["session"])
    forked = run(tmp_path, *words, *claude.build(PROMPT))
    assert forked.code == 0, forked.err
    assert "1 as recorded, 0 different, 3 answered by the live model" in forked.err
    assert (tmp_path / "made.txt").read_text("utf-8") == "made here\n"
    fork, original = msgspec.json.decode(run(tmp_path, "records", "list", "--json").out)
    assert (fork["turns"], fork["models"], original["turns"]) == (3, ["live"], 4)
    compared = run(tmp_path, "diff", original["session"], original["session"])
    assert "differs" not in compared.out
    assert run(tmp_path, "bisect", original["session"], original["session"]).code == 0
    assert run(tmp_path, "bisect", original["session"], fork["session"]).code == 1
