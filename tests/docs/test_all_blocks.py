"""No command of the documentation escapes the tests: every block has a language that some test reads."""

import re
import shlex

import click
import msgspec
import pytest
import yaml

from dragoman.cli.main import root
from tests.docs.blocks import PAGES, Block, list_blocks, list_inline_commands

#: Languages, and what reads them. Blocks without a language are outputs and drawings.
READ = {
    "sh": "test_blocks.py",
    "console": "test_transcripts.py",
    "toml": "test_blocks.py",
    "python": "test_blocks.py",
    "json": "here",
    "yaml": "here",
    "mermaid": "tests/test_diagrams.py",
}
#: The name of a span, which looks like a command.
SPAN = "dragoman anthropic"
#: The beginning of a line that a reader would type.
TYPED = re.compile(
    r"^\s*(\$ |(dragoman (?!\d)|curl|pip|pipx|uv|uvx|npm|docker|podman|kubectl|helm|systemctl|sudo|make) )",
    re.MULTILINE,
)


@pytest.mark.rule("M52")
def test_every_language_is_read_by_a_test() -> None:
    text = "\n".join(path.read_text("utf-8") for path in PAGES)
    assert set(re.findall(r"^```(\S+)$", text, re.MULTILINE)) <= set(READ)


@pytest.mark.rule("M52")
def test_a_block_without_a_language_has_no_command() -> None:
    assert [(str(block), found[0]) for block in list_blocks() if (found := TYPED.search(block.text))] == []


@pytest.mark.rule("M52")
@pytest.mark.parametrize("block", list_blocks("json", "yaml"), ids=str)
def test_data_can_be_read(block: Block) -> None:
    assert msgspec.json.decode(block.text) if block.language == "json" else yaml.safe_load(block.text)


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the words after it."""
    command: click.Command = root
    context = click.Context(root)
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]+", words[0]):
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    return command, words


@pytest.mark.rule("M52")
@pytest.mark.parametrize(("page", "text"), [each for each in list_inline_commands() if each[1] != SPAN])
def test_a_command_within_a_text_exists_with_its_options(page: str, text: str) -> None:
    command, words = find_command(shlex.split(text.replace("…", ""))[1:])
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    takes_all = command.context_settings.get("ignore_unknown_options", False)
    for word in words:
        if takes_all and not word.startswith("-"):
            # The rest is for the agent.
            break
        if word.startswith("--"):
            assert word.partition("=")[0] in {*known, "--help"}, f"{page}: {text}"
