"""Runs the real command in a process of its own, in a home that holds nothing of the developer's."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def environment(home: Path, **variables: str) -> dict[str, str]:
    """The least that a command needs to run the tested code, and nothing that could lead it elsewhere."""
    names = ("PATH", "PYTHONPATH", "SYSTEMROOT", "TMPDIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "HOME": str(home), "NO_COLOR": "1", **variables}


def dragoman(folder: Path, *arguments: str, stdin: str = "", **variables: str) -> Outcome:
    """`dragoman ARGUMENTS`, with `folder` as working directory and home."""
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments],
        cwd=folder,
        env=environment(folder, **variables),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
