"""The output of the command: its help, its errors with the next step, and never a traceback."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.agents import AGENTS
from dragoman.cli.main import COMMANDS, root
from tests.cli.run_command import dragoman
from tests.records.recorded_gateway import CLAUDE, RecordedGateway, ask

EXAMPLE = """\
[server]
keys = ["env:DOOR_KEY"]
[providers.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8901/v1"
api_key = "env:LOCAL_KEY"
[[routes]]
match = "via-chat"
target = ["local/mock-large", "local"]
strict = true
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dragoman.toml").write_text(EXAMPLE, "utf-8")
    return tmp_path


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(root, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert len(result.output.splitlines()) >= 5


def test_every_command_and_agent_stands_in_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text("utf-8")
    assert [command for command in COMMANDS if f"| `dragoman {command}" not in page] == []
    assert [agent for agent in AGENTS if f"| `{agent}` |" not in page] == []


def test_a_right_configuration_is_reported_to_be_right(folder: Path) -> None:
    outcome = dragoman(folder, "config", "check", LOCAL_KEY="k", DOOR_KEY="d")
    assert (outcome.code, outcome.out, outcome.err) == (0, "dragoman.toml: fine (1 provider, 1 route)\n", "")


def test_a_wrong_configuration_is_reported_with_its_line_and_a_guess(folder: Path) -> None:
    (folder / "dragoman.toml").write_text(EXAMPLE.replace("base_url", "base_ulr"), "utf-8")
    outcome = dragoman(folder, "config", "check", LOCAL_KEY="k", DOOR_KEY="d")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: dragoman.toml, line 5: providers.local.base_ulr: unknown key\n"
        'hint: did you mean "base_url"?\n'
    )


def test_a_missing_variable_is_reported_before_anything_depends_on_it(folder: Path) -> None:
    outcome = dragoman(folder, "config", "check", LOCAL_KEY="k")
    assert outcome.code == 2
    assert "the environment variable DOOR_KEY is not set" in outcome.err


def test_without_a_configuration_the_check_states_where_it_looked(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "config", "check")
    assert outcome.code == 0
    assert "no configuration at dragoman.toml" in outcome.out
    assert "next: dragoman setup" in outcome.err


def test_a_gateway_that_strangers_can_reach_needs_a_key(tmp_path: Path) -> None:
    (tmp_path / "dragoman.toml").write_text('[server]\nhost = "192.0.2.1"\n', "utf-8")
    outcome = dragoman(tmp_path, "config", "check")
    assert outcome.code == 2
    assert "hint: set server.keys" in outcome.err


def test_the_keys_of_the_file_can_be_looked_up(tmp_path: Path) -> None:
    everything = dragoman(tmp_path, "config", "keys").out
    assert "[providers.NAME]" in everything
    assert "port = an integer from 0 to 65535 (default: 8484)" in everything
    some = dragoman(tmp_path, "config", "keys", "timeout").out
    assert "first_byte = a number from 0 on (default: 600.0)" in some
    assert "port =" not in some


def test_models_are_listed_with_their_targets_and_need_no_keys(folder: Path) -> None:
    outcome = dragoman(folder, "models")
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "via-chat       local/mock-large, else local/*, strict",
        "local/MODEL    any model of http://127.0.0.1:8901/v1 (openai_chat), unusable: the environment"
        " variable LOCAL_KEY is not set",
        "anything else  refused, with status 404",
    ]


def test_a_route_that_takes_everything_leaves_nothing_else(tmp_path: Path) -> None:
    text = '[providers.embedded]\n[[routes]]\nmatch = "*"\ntarget = "embedded"\n'
    (tmp_path / "dragoman.toml").write_text(text, "utf-8")
    assert "anything else" not in dragoman(tmp_path, "models").out


def test_without_a_configuration_everything_goes_to_the_embedded_model(tmp_path: Path) -> None:
    assert dragoman(tmp_path, "models").out.splitlines() == [
        "embedded/MODEL  any model of this process (embedded)",
        "anything else   embedded/embedded",
    ]


def test_an_unknown_command_is_an_error_of_usage(tmp_path: Path) -> None:
    outcome = dragoman(tmp_path, "swerve")
    assert outcome.code == 2
    assert "No such command 'swerve'. Did you mean 'serve'?" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("models", "--config", "missing.toml"),
        ("config", "check", "--config", "."),
        ("env", "claude", "--config", "missing.toml"),
        ("run", "--config", "missing.toml", "claude"),
        ("setup", "--provider", "ollama", "--model", "m", "--file", "missing/dragoman.toml"),
        ("setup", "--provider", "ollama", "--model", "m", "--file", "."),
        ("setup",),
        ("setup", "--provider", "ollama"),
    ],
    ids=" ".join,
)
def test_an_error_is_two_lines_and_never_a_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = dragoman(tmp_path, *arguments)
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert lines[0].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_shell_can_learn_to_complete_commands(tmp_path: Path, shell: str) -> None:
    outcome = dragoman(tmp_path, _DRAGOMAN_COMPLETE=f"{shell}_source")
    assert outcome.code == 0
    assert "_dragoman_completion" in outcome.out


def test_commands_and_agents_are_completed(tmp_path: Path) -> None:
    asked = {"_DRAGOMAN_COMPLETE": "zsh_complete", "COMP_CWORD": "2"}
    assert "claude" in dragoman(tmp_path, **asked, COMP_WORDS="dragoman run cl").out.split()


@pytest.mark.rule("M34")
@pytest.mark.parametrize(
    ("words", "number", "name"),
    [
        ("dragoman run --model em", "3", "embedded/it"),
        ("dragoman models show em", "3", "embedded/it"),
        ("dragoman doctor em", "2", "embedded/it"),
        ("dragoman keys show c", "3", "ci"),
    ],
)
def test_names_of_models_and_keys_are_completed(words: str, number: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('default = "embedded/it"\n[providers.embedded]\n', "utf-8")
    assert dragoman(tmp_path, "keys", "create", "ci").code == 0
    asked = {"_DRAGOMAN_COMPLETE": "zsh_complete", "COMP_CWORD": number, "COMP_WORDS": words}
    assert name in dragoman(tmp_path, **asked).out.split()
    # A mistake in the file prints nothing into the line of the shell.
    file.write_text("[nonsense", "utf-8")
    outcome = dragoman(tmp_path, **asked)
    assert (name in outcome.out.split(), outcome.err) == (False, "")


@pytest.fixture(scope="module")
def recorded_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one recorded session."""
    home = tmp_path_factory.mktemp("home")
    state = home / ".local" / "state" / "dragoman"
    state.mkdir(parents=True)

    async def record() -> None:
        recorded = RecordedGateway(state)
        headers = {**CLAUDE, "x-claude-code-session-id": "0a1b-session"}
        await recorded.send(ask([{"role": "user", "content": "hello"}]), headers=headers)
        await asyncio.to_thread(recorded.recorder.close)

    asyncio.run(record())
    return home


@pytest.mark.parametrize("words", ["records show", "replay", "fork", "diff x", "bisect", "cache", "explain"])
def test_the_ids_of_recorded_sessions_are_completed(words: str, recorded_home: Path, tmp_path: Path) -> None:
    line = f"dragoman {words} 0a"
    number = str(len(line.split()) - 1)
    asked = {"_DRAGOMAN_COMPLETE": "zsh_complete", "COMP_CWORD": number, "COMP_WORDS": line}
    assert "0a1b-session" in dragoman(recorded_home, **asked).out.split()
    if words == "cache":
        # Before the first record there is nothing to offer, and no error in the line of the shell.
        assert dragoman(tmp_path, **asked).err == ""
