"""The published agents run a recorded session again, offline: the same requests, the same files."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import msgspec
import pytest

from dragoman.records.differences import find_first_difference
from tests.cli.run_command import Outcome, dragoman
from tests.cli.small_model import write_stream
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
    words = ("fork", session["session"], "--at", "2", "--model", "live")
    forked = run(tmp_path, *words, *claude.build(PROMPT))
    assert forked.code == 0, forked.err
    assert "1 as recorded, 0 different, 3 answered by the live model" in forked.err
    assert (tmp_path / "made.txt").read_text("utf-8") == "made here\n"
    fork, original = msgspec.json.decode(run(tmp_path, "records", "list", "--json").out)
    assert (fork["turns"], fork["models"], original["turns"]) == (3, ["live"], 4)
    compared = run(tmp_path, "diff", original["session"], original["session"])
    assert "differs" not in compared.out
    assert run(tmp_path, "bisect", original["session"], original["session"]).code == 0
    parted = run(tmp_path, "bisect", original["session"], fork["session"])
    # The fork is compared from the turn on that the live model answered. Both names lead to one model.
    assert (parted.code, parted.out) == (0, "the sessions are equal\n")
    late = run(tmp_path, "fork", original["session"], "--at", "6", "--model", "live")
    assert (late.code, "--at is 1 to 5" in late.err) == (2, True)


#: What a model runs, one command per turn. The bad one makes a mistake in one of them.
COMMANDS = (
    "echo one > one.txt",
    "echo two > two.txt",
    "echo three > three.txt",
    "cat one.txt two.txt three.txt > all.txt",
)


@contextmanager
def serve_commands(mistake: int) -> Iterator[str]:
    """A server with two models and a prompt cache. `bad` makes a mistake in the given turn, `good` none."""
    prompts: list[str] = []

    def count_tokens(body: dict[str, Any]) -> tuple[int, int]:
        """The tokens of the prompt, and how many of them an earlier prompt began with."""
        prompt = json.dumps([body.get("tools"), body["messages"]])[:-2]
        shared = max((find_first_difference(prompt, each) for each in prompts), default=0)
        prompts.append(prompt)
        return len(prompt) // 4, shared // 4

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        names = [tool["function"]["name"] for tool in body.get("tools", ())]
        shell = next((name for name in names if name in ("Bash", "functions__exec")), "")
        step = sum(message["role"] == "tool" for message in body["messages"])
        if not shell or step >= len(COMMANDS):
            return {"role": "assistant", "content": "done"}
        command = COMMANDS[step]
        if body["model"] == "bad" and step + 1 == mistake:
            command = command.replace("echo ", "echo wrong ").replace("two.txt", "one.txt")
        # Codex runs a program that calls its shell.
        program = f"text((await tools.exec_command({{cmd: {json.dumps(command)}}})).output);"
        arguments = {"command": command} if shell == "Bash" else {"input": program}
        function = {"name": shell, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{step}", "type": "function", "function": function}
        return {"role": "assistant", "tool_calls": [call]}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            data = write_stream(answer(body), *count_tokens(body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.server_address[1]}"
        finally:
            listener.shutdown()


@pytest.mark.rule("R132")
@pytest.mark.parametrize(("agent", "mistake"), [(AGENTS[0], 3), (AGENTS[1], 2)], ids=["claude", "codex"])
def test_a_bad_turn_is_found_by_bisect_and_left_out_by_fork(
    agent: Command, mistake: int, tmp_path: Path
) -> None:
    command = agent.build("make the files")

    def start_over() -> None:
        for name in ("one", "two", "three", "all"):
            (tmp_path / f"{name}.txt").unlink(missing_ok=True)

    def list_sessions() -> list[str]:
        return [
            each["session"] for each in msgspec.json.decode(run(tmp_path, "records", "list", "--json").out)
        ]

    with serve_commands(mistake) as url:
        provider = f'[providers.model]\ndialect = "openai_chat"\nbase_url = "{url}/v1"\n'
        results = {}
        for model in ("good", "bad"):
            start_over()
            configure(tmp_path, provider)
            file = tmp_path / "dragoman.toml"
            file.write_text(file.read_text("utf-8").replace("model/embedded", f"model/{model}"), "utf-8")
            outcome = run(tmp_path, "run", *command)
            assert outcome.code == 0, outcome.err
            results[model] = (tmp_path / "all.txt").read_text("utf-8")
        assert results["good"] == "one\ntwo\nthree\n" != results["bad"]
        bad, good = list_sessions()

        found = run(tmp_path, "bisect", good, bad, "--json")
        assert found.code == 1
        divergence = msgspec.json.decode(found.out)
        assert (divergence["first"], divergence["second"], divergence["kind"]) == (mistake, mistake, "reply")
        assert "wrong" in run(tmp_path, "bisect", good, bad).out

        start_over()
        words = ("fork", "--at", str(mistake), "--model", "model/good", bad)
        forked = run(tmp_path, *words, *command)
        assert forked.code == 0, forked.err
        assert f"{mistake - 1} as recorded, 0 different" in forked.err
        assert (tmp_path / "all.txt").read_text("utf-8") == results["good"]


def test_a_session_of_claude_code_shows_where_its_cache_breaks(tmp_path: Path) -> None:
    """The user continues a session with fewer tools. Tools are the beginning of a prompt."""
    (claude, _) = AGENTS
    with serve_commands(mistake=0) as url:
        configure(tmp_path, f'[providers.model]\ndialect = "openai_chat"\nbase_url = "{url}/v1"\n')
        assert run(tmp_path, "run", *claude.build("make the files")).code == 0
        words = ("--continue", "--disallowedTools", "Bash")
        assert run(tmp_path, "run", *claude.build("go on"), *words).code == 0
        reports = msgspec.json.decode(run(tmp_path, "cache", "last", "--json").out)
        shown = run(tmp_path, "cache", "last").out
        first = msgspec.json.decode(
            run(tmp_path, "records", "show", "last", "1", "client_request", "--raw").out
        )
    turns = len(COMMANDS) + 1
    assert [report["cause"] for report in reports[:turns]] == ["first"] + ["hit"] * (turns - 1)
    (broken,) = reports[turns:]
    assert (broken["cause"], broken["previous"]) == ("agent", turns)
    place = broken["client_break"]
    missing = [tool["name"] for tool in first["tools"]].index("Bash")
    assert (place["path"], place["before"]) == (f"tools[{missing}].name", "Bash")
    assert broken["lost"] > 1000
    assert place["path"] in shown
