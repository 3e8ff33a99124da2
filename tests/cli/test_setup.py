"""`dragoman setup` finds models, tests them, writes a correct file, and overwrites nothing of the user's."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.new_config import build_config
from dragoman.config.load import load, load_file
from dragoman.providers.presets import load_presets
from tests.cli.run_command import dragoman, environment
from tests.doctor.local_servers import LLAMA_CPP, LM_STUDIO, VLLM, LocalServer, ollama, serving


@pytest.mark.parametrize("provider", sorted(load_presets()))
def test_a_file_for_every_provider_works_as_it_is(provider: str) -> None:
    config = load(build_config(provider, "some-model"), "dragoman.toml", {load_presets()[provider].key: "k"})
    assert [str(target) for target in config.routes[0].targets] == [f"{provider}/some-model"]


def test_a_file_works_with_its_suggestions_taken_up() -> None:
    text = build_config("ollama", "qwen3").replace("# [providers", "[providers").replace("# images", "images")
    text = text.replace("# strict", "strict").replace('# keys = ["env:', 'keys = ["env:')
    config = load(text, "dragoman.toml", {"DRAGOMAN_KEY": "k"})
    assert config.routes[0].strict
    assert config.providers["ollama"].build_profile("qwen3").facts.images is False


def test_a_name_with_quotes_is_kept() -> None:
    config = load(build_config("ollama", 'a"b\\c'), "dragoman.toml", {})
    assert config.routes[0].targets[0].model == 'a"b\\c'


def test_the_file_is_written_for_the_user_alone_and_the_next_step_is_reported(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "setup", "--provider", "openai", "--model", "gpt-5")
    assert (outcome.code, outcome.out) == (0, "wrote dragoman.toml\n")
    assert "next: export OPENAI_API_KEY=…" in outcome.err
    assert stat.S_IMODE((tmp_path / "dragoman.toml").stat().st_mode) == 0o600
    assert dragoman(tmp_path, "config", "check", OPENAI_API_KEY="k").code == 0


def test_the_embedded_model_needs_no_answers(tmp_path: Path) -> None:
    assert dragoman(tmp_path, "setup", "--provider", "embedded").code == 0
    assert dragoman(tmp_path, "config", "check").code == 0


def test_a_file_that_exists_is_kept_unless_force_is_used(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("# mine", "utf-8")
    arguments = ("setup", "--provider", "embedded")
    refused = dragoman(tmp_path, *arguments)
    assert (refused.code, file.read_text("utf-8")) == (2, "# mine")
    assert "--force" in refused.err
    assert dragoman(tmp_path, *arguments, "--force").code == 0
    assert "[[routes]]" in file.read_text("utf-8")


@pytest.mark.rule("D12")
def test_the_next_step_of_claude_code_as_a_provider_is_to_serve(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "setup", "--provider", "claude-code", "--model", "sonnet")
    assert outcome.err.splitlines()[-1].endswith("dragoman serve")


def written(folder: Path) -> tuple[str, dict[str, object]]:
    """The target of the written file, and the facts about its model."""
    config = load_file(str(folder / "dragoman.toml"), {})
    (target,) = config.routes[0].targets
    return str(target), config.providers[target.provider].models.get(target.model, {})


def host(server: LocalServer) -> str:
    return server.url.removeprefix("http://")


@pytest.mark.rule("M20")
def test_everything_is_chosen_without_a_question(tmp_path: Path) -> None:
    with serving(ollama()) as server:
        outcome = dragoman(tmp_path, "setup", "--yes", OLLAMA_HOST=host(server))
    assert outcome.code == 0, outcome.err
    # The first model without tools is passed over.
    assert written(tmp_path) == ("ollama/qwen3:8b", {"images": False})
    assert "works    tools" in outcome.err
    assert f'base_url = "{server.url}/v1"' in (tmp_path / "dragoman.toml").read_text("utf-8")
    assert "next: dragoman run" in outcome.err


@pytest.mark.rule("M20")
@pytest.mark.parametrize(
    ("answers", "target", "window"),
    [
        pytest.param(LM_STUDIO, "lmstudio/qwen/qwen3-coder-30b", 49_152, id="LM Studio"),
        pytest.param(LLAMA_CPP, "llamacpp/gpt-oss-20b.gguf", 16_384, id="llama.cpp"),
        pytest.param(VLLM, "vllm/Qwen/Qwen3-8B", 40_960, id="vLLM"),
    ],
)
def test_a_server_at_an_address_gives_its_window(
    answers: dict[str, object], target: str, window: int, tmp_path: Path
) -> None:
    with serving(answers) as server:
        outcome = dragoman(tmp_path, "setup", "--url", server.url, "--yes")
    assert outcome.code == 0, outcome.err
    name, facts = written(tmp_path)
    assert (name, facts["context_tokens"]) == (target, window)
    assert ("llama-server with -c 32768" in outcome.err) == (window < 32_768)


@pytest.mark.rule("M20")
def test_a_window_is_set_where_the_server_takes_it(tmp_path: Path) -> None:
    with serving(ollama()) as server:
        arguments = ("setup", "--url", server.url, "--model", "coder", "--context", "32768")
        outcome = dragoman(tmp_path, *arguments)
    assert outcome.code == 0, outcome.err
    name, facts = written(tmp_path)
    assert (name, facts["context_tokens"]) == ("ollama/coder:latest-32k", 32_768)
    created = [body for path, body in server.requests if path == "/api/create"]
    assert created == [
        {
            "model": "coder:latest-32k",
            "from": "coder:latest",
            "parameters": {"num_ctx": 32_768},
            "stream": False,
        }
    ]


@pytest.mark.rule("M20")
def test_a_model_without_tools_gets_them_described_as_text(tmp_path: Path) -> None:
    with serving(ollama()) as server:
        arguments = ("setup", "--url", server.url, "--model", "gemma3:4b", "--no-test")
        assert dragoman(tmp_path, *arguments).code == 0
    assert written(tmp_path)[1] == {"images": True, "function_calling": False}


def test_a_model_that_the_server_does_not_have_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with serving(ollama()) as server:
        outcome = dragoman(tmp_path, "setup", "--url", server.url, "--model", "qwen3:8")
    assert (outcome.code, outcome.out) == (2, "")
    assert "qwen3:8b" in outcome.err


@pytest.mark.rule("M20")
def test_missing_answers_are_listed_without_a_terminal(tmp_path: Path) -> None:
    with serving(ollama()) as server:
        found = {"OLLAMA_HOST": host(server), "OPENAI_API_KEY": "k"}
        outcome = dragoman(tmp_path, "setup", **found)
        assert (outcome.code, "ollama" in outcome.err, "openai" in outcome.err) == (2, True, True)
        outcome = dragoman(tmp_path, "setup", "--url", server.url)
        assert "there are: gemma3:4b, qwen3:8b, coder:latest" in outcome.err
        listed = dragoman(tmp_path, "setup", "--list", **found).out
    assert "coder:latest  tools, 65,536 of 262,144 tokens of context" in listed
    assert "openai  OPENAI_API_KEY is set" in listed
    assert list(tmp_path.glob("dragoman.toml")) == []


def test_a_misspelt_provider_is_corrected(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "setup", "--provider", "olama")
    assert (outcome.code, "did you mean" in outcome.err) == (2, True)


def test_the_former_name_of_the_command_leads_to_it(tmp_path: Path) -> None:
    assert "Did you mean 'setup'?" in dragoman(tmp_path, "init").err


AGENT = """\
#!{python}
import os, sys
print("agent", *sys.argv[1:], os.environ["ANTHROPIC_MODEL"])
"""


@pytest.mark.rule("M20")
def test_a_dialogue_leads_from_the_servers_to_a_running_agent(tmp_path: Path) -> None:
    agent = tmp_path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(AGENT.format(python=sys.executable), "utf-8")
    agent.chmod(0o700)
    terminal, end = os.openpty()
    # The provider, the model, a larger window, the agent.
    os.write(terminal, b"1\n2\ny\n\n")
    try:
        with serving(ollama(loaded={"qwen3:8b": 4096})) as server:
            done = subprocess.run(
                [sys.executable, "-m", "dragoman", "setup"],
                cwd=tmp_path,
                env=environment(tmp_path, PATH=f"{agent.parent}:/usr/bin:/bin", OLLAMA_HOST=host(server)),
                stdin=end,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
    finally:
        os.close(terminal)
        os.close(end)
    assert done.returncode == 0, done.stderr
    assert "qwen3:8b has 4,096 tokens of context" in done.stderr
    assert written(tmp_path)[0] == "ollama/qwen3:8b-32k"
    assert "-> ollama/qwen3:8b-32k (32,768 tokens of context)" in done.stderr
    assert done.stdout.splitlines()[-1].startswith("agent --settings")
    assert done.stdout.endswith(" qwen3:8b-32k\n")
