"""The published agents work with a model of 32,768 tokens: they compact before they exceed its window."""

from pathlib import Path

import pytest

from tests.cli.run_command import dragoman
from tests.cli.small_model import FINAL, PROMPT, serving_small_model
from tests.cli.test_real_agents import BINARIES, CLIENTS, VARIABLES

WINDOW = 32_768
FILE = """\
[server]
port = 0
[providers.small]
dialect = "openai_chat"
base_url = "{url}/v1"
[providers.small.models.tiny-coder]
context_tokens = {window}
[[routes]]
match = "*"
target = "small/tiny-coder"
"""
AGENTS = {
    "claude": ("-p", PROMPT, "--dangerously-skip-permissions"),
    "codex": ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
    "opencode": ("run", PROMPT),
    "gemini": ("-p", PROMPT, "--yolo", "--skip-trust"),
}


@pytest.mark.rule("M4")
@pytest.mark.parametrize("name", list(AGENTS))
def test_an_agent_compacts_before_a_small_window_is_full(name: str, tmp_path: Path) -> None:
    with serving_small_model(WINDOW, rounds=12) as model:
        (tmp_path / "dragoman.toml").write_text(FILE.format(url=model.url, window=WINDOW), "utf-8")
        path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
        outcome = dragoman(tmp_path, "run", name, *AGENTS[name], PATH=path, **VARIABLES)
    assert outcome.code == 0, outcome.err
    assert FINAL in outcome.out
    assert model.calls == 12
    # Within the answer to one prompt, Gemini CLI shortens the oldest outputs at every call.
    assert model.compactions >= 1 or name == "gemini", model.sizes
    assert model.overflows == 0, model.sizes
    # A warning of Claude Code about the window, and of Codex about the metadata of the model.
    assert "context window of" not in outcome.err
    assert "metadata" not in outcome.err


@pytest.mark.rule("M4")
def test_gemini_cli_compresses_between_two_prompts(tmp_path: Path) -> None:
    # Half of the window: outputs of tools would be shortened, a prompt is not.
    long = f"{PROMPT} {'heliotrope ' * (WINDOW // 6)}"
    with serving_small_model(WINDOW, rounds=1) as model:
        (tmp_path / "dragoman.toml").write_text(FILE.format(url=model.url, window=WINDOW), "utf-8")
        path = f"{CLIENTS / 'bin'}:{BINARIES}:/usr/bin:/bin"
        for prompt, options in ((long, ()), (PROMPT, ("--resume", "latest"))):
            arguments = (*options, "-p", prompt, "--yolo", "--skip-trust")
            outcome = dragoman(tmp_path, "run", "gemini", *arguments, PATH=path, **VARIABLES)
            assert outcome.code == 0, outcome.err
            assert FINAL in outcome.out
            model.rounds = 2
    assert model.compactions >= 1, model.sizes
    assert model.overflows == 0, model.sizes
