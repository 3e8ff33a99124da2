"""`dragoman env` prints code that works in each shell."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.agents import AGENTS, GatewayAccess
from dragoman.cli.shells import SHELLS, build_shell_code

ACCESS = GatewayAccess(url="http://127.0.0.1:1", key="it's a \\ key", model='odd"name', names=('odd"name',))
#: Prints its arguments, one in each line.
PROGRAM = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


def run_code(shell: str, code: list[str], folder: Path) -> str:
    for name in ("codex", "gemini"):
        (folder / name).write_text(PROGRAM, "utf-8")
        (folder / name).chmod(0o700)
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{folder}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder), "GOOGLE_API_KEY": "k"}
    done = subprocess.run(
        [found, "-c", "\n".join(code)], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.rule("M23")
@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
def test_the_code_sets_variables_files_and_a_command(shell: str, tmp_path: Path) -> None:
    language = SHELLS["fish" if shell == "fish" else "sh"]
    gemini = build_shell_code(AGENTS["gemini"], AGENTS["gemini"].build_launch(ACCESS), language)
    shown = run_code(shell, [*gemini, "env", 'cat "$GEMINI_CLI_HOME"/.gemini/settings.json'], tmp_path)
    assert "GEMINI_API_KEY=it's a \\ key\n" in shown
    assert "GOOGLE_API_KEY" not in shown
    assert '{"security":{"auth":{"selectedType":"gemini-api-key"}}}' in shown
    codex = build_shell_code(AGENTS["codex"], AGENTS["codex"].build_launch(ACCESS), language)
    shown = run_code(shell, [*codex, "codex exec 'two words'"], tmp_path)
    assert 'model="odd\\"name"\n' in shown
    assert shown.endswith("exec\ntwo words\n")


@pytest.mark.rule("M38")
def test_powershell_has_a_form_of_its_own() -> None:
    launch = AGENTS["gemini"].build_launch(ACCESS)
    lines = build_shell_code(AGENTS["gemini"], launch, SHELLS["powershell"])
    assert "$Env:GEMINI_API_KEY = 'it''s a \\ key'" in lines
    assert "$Env:GEMINI_CLI_HOME = $DRAGOMAN_FOLDER" in lines
    assert "Remove-Item Env:GOOGLE_API_KEY -ErrorAction SilentlyContinue" in lines
    assert any(line.startswith("New-Item -Force") and ".gemini/settings.json" in line for line in lines)
