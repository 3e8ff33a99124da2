"""A new configuration is right from the start, and nothing of the user's is overwritten."""

import stat
from pathlib import Path

import pytest

from dragoman.cli.init import build_config
from dragoman.config.load import load
from dragoman.providers.presets import load_presets
from tests.cli.run_command import dragoman


@pytest.mark.parametrize("provider", sorted(load_presets()))
def test_a_file_for_every_provider_works_as_it_is_build_config(provider: str) -> None:
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
    outcome = dragoman(tmp_path, "init", "--provider", "openai", "--model", "gpt-5")
    assert (outcome.code, outcome.out) == (0, "wrote dragoman.toml\n")
    assert "next: export OPENAI_API_KEY=…" in outcome.err
    assert stat.S_IMODE((tmp_path / "dragoman.toml").stat().st_mode) == 0o600
    assert dragoman(tmp_path, "config", "check", OPENAI_API_KEY="k").code == 0


def test_the_embedded_model_needs_no_answers(tmp_path: Path) -> None:
    assert dragoman(tmp_path, "init", "--provider", "embedded").code == 0
    assert dragoman(tmp_path, "config", "check").code == 0


def test_a_file_that_exists_is_kept_unless_force_is_used(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("# mine", "utf-8")
    arguments = ("init", "--provider", "embedded")
    refused = dragoman(tmp_path, *arguments)
    assert (refused.code, file.read_text("utf-8")) == (2, "# mine")
    assert "--force" in refused.err
    assert dragoman(tmp_path, *arguments, "--force").code == 0
    assert "[[routes]]" in file.read_text("utf-8")


@pytest.mark.rule("D12")
def test_the_next_step_of_claude_code_as_a_provider_is_to_serve(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "init", "--provider", "claude-code", "--model", "sonnet")
    assert outcome.err.splitlines()[-1].endswith("dragoman serve")
