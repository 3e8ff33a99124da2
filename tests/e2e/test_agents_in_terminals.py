"""The published agents as a person sees them in a terminal: their start, a small window, their end."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.cli.small_model import FINAL, PROMPT, serving_small_model
from tests.cli.test_agent_messages import FAULTS, OWN_TEXTS, failing
from tests.cli.test_agent_messages import FILE as FAULTY
from tests.cli.test_small_windows import FILE, WINDOW
from tests.e2e.gateway import Gateway
from tests.e2e.person import READY, Person

DRAGOMAN = (sys.executable, "-m", "dragoman")


@pytest.mark.rule("M3")
def test_claude_code_starts_with_the_line_of_the_banner_and_asks_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        gateway = Gateway("", tmp_path / "gateway")
        await gateway.start()
        try:
            while not any("Stop with" in line for line in gateway.log):
                await asyncio.sleep(0.1)
            (line,) = [line for line in gateway.log if line.split()[:2] == ["Claude", "Code"]]
            variables = dict(re.findall(r"(ANTHROPIC_\w+)=(\S+)", line))
            async with Person(tmp_path, {}).open_terminal(**variables) as terminal:
                await terminal.see(READY)
                await asyncio.sleep(1)
                await terminal.write("read notes.txt")
                await terminal.see("marigold and heliotrope")
                assert "Not logged in" not in terminal.text
        finally:
            await gateway.stop()

    asyncio.run(scenario())


@pytest.mark.rule("M4", "M6", "M21")
def test_claude_code_compacts_in_a_small_window_and_shows_its_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        person = Person(tmp_path, {})
        with serving_small_model(WINDOW, rounds=7) as model:
            (person.project / "dragoman.toml").write_text(FILE.format(url=model.url, window=WINDOW), "utf-8")
            command = (*DRAGOMAN, "run", "claude", "--allowedTools", "Bash")
            async with person.open_terminal(*command) as terminal:
                await terminal.see(READY)
                # Otherwise: "doesn't recognize the model …, so it assumes a context window of 1m tokens".
                assert "window of" not in terminal.text
                assert (
                    "Claude Code: tiny-coder -> small/tiny-coder (32,768 tokens of context)" in terminal.text
                )
                await asyncio.sleep(1)
                await terminal.write("/model")
                await terminal.see(r"currently tiny-coder\)")
                await terminal.see(r"tiny-coder .*A model of the gateway, 32,768 tokens of context")
                # The server has another model, which no route names.
                await terminal.see(r"small/other-coder .*A model of the gateway, 9,000 tokens of context")
                await terminal.press("Escape")
                await terminal.write(PROMPT)
                await terminal.see("Conversation compacted")
                await terminal.see(FINAL)
                await terminal.see(r"small/tiny-coder · [0-9.]+k/32\.8k ")
                await terminal.write("/exit")
                await terminal.see("to resume this session: dragoman run claude --continue")
                assert await terminal.wait() == 0
        assert model.calls == 7
        assert (model.compactions, model.overflows) == (1, 0), model.sizes

    asyncio.run(scenario())


@pytest.mark.rule("M4")
@pytest.mark.parametrize(
    ("name", "arguments", "ready"),
    [
        ("gemini", ("--yolo", "--skip-trust"), "Type your message"),
        ("codex", ("--dangerously-bypass-approvals-and-sandbox",), "tiny-coder default"),
    ],
)
def test_another_agent_works_in_a_small_window(
    name: str, arguments: tuple[str, ...], ready: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        person = Person(tmp_path, {})
        with serving_small_model(WINDOW, rounds=12) as model:
            (person.project / "dragoman.toml").write_text(FILE.format(url=model.url, window=WINDOW), "utf-8")
            async with person.open_terminal(*DRAGOMAN, "run", name, *arguments) as terminal:
                await terminal.see(ready)
                await asyncio.sleep(2)
                assert "metadata" not in terminal.text
                await terminal.write(PROMPT)
                await terminal.see(FINAL)
        assert model.calls == 12
        assert model.overflows == 0, model.sizes

    asyncio.run(scenario())


#: How each agent is started, and what its screen shows when it takes a prompt.
STARTS = {
    "claude": ((), READY),
    "codex": (("--dangerously-bypass-approvals-and-sandbox",), "Ask Codex"),
    "gemini": (("--skip-trust", "-m", "gemini-2.5-flash"), "Type your message"),
}


@pytest.mark.rule("M7", "M8", "M10", "M11")
@pytest.mark.parametrize("name", list(STARTS))
@pytest.mark.parametrize("fault", ["down", "wrong key", "unknown model", "quota"])
def test_the_screen_shows_a_fault_of_the_provider_and_the_next_step(
    name: str, fault: str, tmp_path: Path
) -> None:
    # Claude Code 2.1 shows "Please run /login" for status 401 only here, not with -p.
    status, error, words = FAULTS[fault]
    arguments, ready = STARTS[name]

    async def scenario() -> None:
        person = Person(tmp_path, {})
        with failing(status, error) as url:
            (person.project / "dragoman.toml").write_text(FAULTY.format(url=url), "utf-8")
            command = (*DRAGOMAN, "run", name, *arguments)
            async with person.open_terminal(*command, UP_KEY="k") as terminal:
                await terminal.see(ready)
                await asyncio.sleep(2)
                await terminal.write("hi")
                for word in words:
                    # Lines are broken anywhere.
                    await terminal.see(r"[\s│✕•]*".join(map(re.escape, word.replace(" ", ""))))
                assert [text for text in OWN_TEXTS if text in terminal.text] == []

    asyncio.run(scenario())
