"""The installed package works: the wheel with each installer, the container and the service unit."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import __version__
from dragoman.config.load import load_file
from tests.cli.test_real_agents import BINARIES, CLIENTS, VARIABLES
from tests.e2e.asking import BODIES, ask
from tests.e2e.gateway import Gateway

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(BIN / "python", "-m", "hatchling", "build", "-d", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    # `dragoman docs` shows the pages offline.
    places = {ROOT / "src" / "dragoman": "dragoman", ROOT / "docs": "dragoman/docs"}
    wanted = {
        f"{place}/{path.relative_to(folder)}"
        for folder, place in places.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_the_source_archive_can_be_built_again(built: Path, tmp_path: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    done = subprocess.run(
        [BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "again").glob("*.whl"))) == 1


def install_with_pip(wheel: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "-qq", wheel)
    return folder / "bin" / "dragoman"


def install_with_uv(wheel: Path, folder: Path) -> Path:
    homes = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    run(BIN / "uv", "tool", "install", "--quiet", "--python", sys.executable, wheel, **homes)
    return folder / "bin" / "dragoman"


def install_with_pipx(wheel: Path, folder: Path) -> Path:
    homes = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    run(BIN / "pipx", "install", "--quiet", "--python", sys.executable, wheel, **homes)
    return folder / "bin" / "dragoman"


@pytest.fixture(
    scope="module", params=[install_with_pip, install_with_uv, install_with_pipx], ids=["pip", "uv", "pipx"]
)
def command(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("installed")
    yield request.param(wheel, folder)
    shutil.rmtree(folder)


def test_the_installed_command_works_without_the_repository(command: Path, tmp_path: Path) -> None:
    assert run(command, "--version").split()[-1] == __version__
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "DRAGOMAN_CONFIG": ""}
    config = tmp_path / "dragoman.toml"
    config.write_text('[providers.local]\npreset = "ollama"\n\n[[routes]]\nmatch = "*"\ntarget = "local/m"\n')
    run(command, "config", "check", "--config", config, **home)
    served = run(command, "models", "--config", config, **home)
    assert "local/m" in served


async def ask_every_dialect(command: Path, folder: Path) -> dict[str, tuple[str, bool]]:
    """Serve the embedded model with an installed command: how each request ended, and whether text came."""
    gateway = Gateway("", folder, [str(command)])
    await gateway.start()
    try:
        replies = {
            f"{dialect} {'streamed' if stream else 'whole'}": await ask(
                dialect, gateway.url, "any", "hello", stream=stream
            )
            for dialect in BODIES
            for stream in (True, False)
        }
    finally:
        await gateway.stop()
    return {name: (reply.outcome(), bool(reply.text)) for name, reply in replies.items()}


def test_the_wheel_with_its_dependencies_alone_serves_every_dialect(command: Path, tmp_path: Path) -> None:
    outcomes = asyncio.run(ask_every_dialect(command, tmp_path))
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {("finished", True)}, outcomes


def run_agent(*command: str | Path, folder: Path) -> str:
    """Run a command that starts an agent with the embedded model, in a folder of its own."""
    (folder / "notes.txt").write_text("marigold and heliotrope\n", "utf-8")
    path = f"{CLIENTS / 'bin'}:{BINARIES}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DRAGOMAN_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**kept, **VARIABLES, "HOME": str(folder), "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_TO_THE_FIRST_ANSWER,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Everything is downloaded by then. It takes about 3 seconds.
SECONDS_TO_THE_FIRST_ANSWER = 30
TOOL_LOOP = ("-p", "read notes.txt", "--dangerously-skip-permissions")


@pytest.mark.rule("M1")
def test_an_agent_completes_a_tool_loop_with_one_command_of_the_wheel(command: Path, tmp_path: Path) -> None:
    assert "marigold and heliotrope" in run_agent(command, "run", "claude", *TOOL_LOOP, folder=tmp_path)


@pytest.mark.rule("M1")
def test_an_agent_completes_a_tool_loop_with_uvx(wheel: Path, tmp_path: Path) -> None:
    uvx = (BIN / "uv", "tool", "run", "--quiet", "--python", sys.executable, "--from", wheel, "dragoman")
    run(*uvx, "--version")
    cache = run(BIN / "uv", "cache", "dir").strip()
    answer = run_agent("env", f"UV_CACHE_DIR={cache}", *uvx, "run", "claude", *TOOL_LOOP, folder=tmp_path)
    assert "marigold and heliotrope" in answer


@pytest.mark.rule("M1", "M22")
def test_an_agent_completes_a_tool_loop_with_make_run_in_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    # What a clone has and this machine has not added: no .venv, no clients.
    for name in ("src", "docs", "requirements"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    # Only the packages that the gateway needs: those of the development are many times larger.
    run("make", "-C", folder, ".venv/.run")
    assert not (folder / ".venv" / "bin" / "mypy").exists()
    arguments = shlex.join(TOOL_LOOP)
    answer = run_agent("make", "-s", "run", "AGENT=claude", f"ARGS={arguments}", folder=folder)
    assert "marigold and heliotrope" in answer


def container_lines(word: str) -> list[str]:
    text = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{word} (.+)$", text, re.MULTILINE)


def test_the_container_copies_files_that_exist_and_does_not_run_as_root() -> None:
    for line in container_lines("COPY"):
        *sources, _ = line.split()
        assert [source for source in sources if not (ROOT / source).exists()] == []
    assert container_lines("USER") == ["dragoman"]


def test_the_containers_configuration_needs_a_key_and_keeps_its_state_in_the_volume() -> None:
    config = load_file(str(DEPLOY / "container.toml"), {"DRAGOMAN_KEY": "k"})
    assert config.server.keys
    assert container_lines("VOLUME") == [config.server.state]
    assert container_lines("EXPOSE") == [str(config.server.port)]


def test_the_service_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (DEPLOY / "dragoman.service").read_text("utf-8")
    command = re.search(r"^ExecStart=(\S+) serve ", unit, re.MULTILINE)
    assert command is not None
    analyzer = shutil.which("systemd-analyze")
    if analyzer is None:
        # Without systemd only the section names can be checked.
        assert re.findall(r"^\[(\w+)\]$", unit, re.MULTILINE) == ["Unit", "Service", "Install"]
        return
    # The command is not installed at the unit's path, so another executable replaces it.
    copy = tmp_path / "dragoman.service"
    copy.write_text(unit.replace(command[1], sys.executable))
    verified = subprocess.run([analyzer, "verify", copy], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
