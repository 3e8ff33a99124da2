"""Runs the clients against the mock and writes what they sent, scrubbed, into tests/recordings."""

import argparse
import asyncio
import base64
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from tools.record.clients import FIRST_PROMPT, RUNS, SECOND_PROMPT, Keep, Run
from tools.record.notes_server import NOTE_TEXT
from tools.record.script import Step
from tools.record.scrub import TINY_PNG, Scrubber
from tools.record.sdk_tools import SYSTEM
from tools.record.server import Exchange, Stage, serve

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RECORDINGS = ROOT / "tests" / "recordings"
NOTES = "hello from the notes\n"
SECONDS_FOR_A_COMMAND = 120
MADE_UP_HOME = "/home/user"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__)
    parser.add_argument("--bin", default="node_modules/.bin", help="where the npm clients are installed")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has the SDKs")
    parser.add_argument(
        "--raw", help="a folder, outside the repository, to keep what was sent before scrubbing"
    )
    parser.add_argument("names", nargs="*", help="the runs to record (all, if none is named)")
    options = parser.parse_args()
    chosen = [run for run in RUNS if not options.names or run.name in options.names]
    missed = 0
    for run in chosen:
        missed += record(run, Path(options.bin).resolve(), options.python, options.raw)
    return 1 if missed or not chosen else 0


def record(run: Run, binaries: Path, python: str, raw: str | None) -> int:
    """Take one client through its script; the number of recordings that could not be made."""
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        home = Path(folder)
        project = home / "project"
        places = {"{home}": str(home), "{project}": str(project), "{bin}": str(binaries), "{python}": python}
        places["{tools}"] = str(HERE)
        stage = Stage(tuple(fill_step(step, places) for step in run.script))
        with serve(stage) as url:
            prepare(run, home, project, places | {"{url}": url})
            for command in run.commands:
                asyncio.run(execute(run, command, home, project, places | {"{url}": url}))
        if raw:
            keep_raw(Path(raw) / run.name, stage.exchanges)
        known = {str(project): f"{MADE_UP_HOME}/project", str(home): MADE_UP_HOME}
        return write_all(run, stage.exchanges, Scrubber(own_texts(run), known))


def fill(text: str, places: dict[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(name, value)
    return text


def fill_step(step: Step, places: dict[str, str]) -> Step:
    return msgspec.json.decode(fill(msgspec.json.encode(step).decode(), places), type=Step)


def prepare(run: Run, home: Path, project: Path, places: dict[str, str]) -> None:
    project.mkdir()
    (project / "notes.txt").write_text(NOTES)
    (project / "pixel.png").write_bytes(base64.b64decode(TINY_PNG))
    for name, text in run.files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill(text, places))


async def execute(
    run: Run, command: tuple[str, ...], home: Path, project: Path, places: dict[str, str]
) -> None:
    """Run the client in a home of its own, so that it finds no settings, keys or history of a user."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    environment |= {"RECORDING_URL": places["{url}"]}
    environment |= {name: fill(value, places) for name, value in run.environment.items()}
    process = await asyncio.create_subprocess_exec(
        *(fill(word, places) for word in command),
        cwd=project,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), SECONDS_FOR_A_COMMAND)
    except TimeoutError:
        process.kill()
        await process.wait()
        print(f"{run.name}: no end after {SECONDS_FOR_A_COMMAND} s", file=sys.stderr)
        return
    if process.returncode:
        print(f"{run.name}: exit {process.returncode}: {output.decode()[-500:]}", file=sys.stderr)


def own_texts(run: Run) -> list[str]:
    texts = [FIRST_PROMPT, SECOND_PROMPT, NOTES, NOTE_TEXT, SYSTEM, "hi the file is missing an image"]
    texts += [msgspec.json.encode(step).decode() for step in run.script]
    if run.is_ours:
        texts += [path.read_text() for path in HERE.glob("sdk_*.py")]
    return texts


def keep_raw(folder: Path, exchanges: list[Exchange]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, exchange in enumerate(exchanges):
        (folder / f"{exchange.dialect}-{number:02d}.json").write_bytes(msgspec.json.encode(exchange))


def write_all(run: Run, exchanges: list[Exchange], scrubber: Scrubber) -> int:
    scrubbed = [(exchange, scrubber.body(exchange.body)) for exchange in exchanges]
    missed = 0
    for keep in run.keeps:
        fitting = [pair for pair in scrubbed if pair[0].is_main == keep.is_main]
        try:
            exchange, body = fitting[keep.number]
        except IndexError:
            print(f"{run.name}: {keep.scenario}: only {len(fitting)} such requests came", file=sys.stderr)
            missed += 1
            continue
        write(run, keep, exchange, body, scrubber)
    return missed


def write(run: Run, keep: Keep, exchange: Exchange, body: dict[str, object], scrubber: Scrubber) -> None:
    recording = {
        "about": keep.about,
        "client": run.client,
        "path": scrubber.path(exchange.path),
        "headers": scrubber.headers(exchange.headers),
        "body": body,
    }
    path = RECORDINGS / exchange.dialect / f"request-{run.name}-{keep.scenario}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(recording), indent=2) + b"\n")
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size} bytes")


if __name__ == "__main__":
    sys.exit(main())
