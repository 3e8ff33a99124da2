"""The log file of a background gateway keeps every line, also when several processes write and rotate it."""

import subprocess
import sys
from pathlib import Path

LINES = 300
#: Forks three processes that write numbered lines. A file takes less than the lines of all.
WRITER = """\
import os, sys
from pathlib import Path
from dragoman.telemetry.log_file import LogFile
file = LogFile(Path(sys.argv[1]), limit=int(sys.argv[2]))
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        for line in range({lines}):
            file.rotate_if_full()
            os.write(2, b"%d:%d %s\\n" % (number, line, b"x" * 20))
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
file.rotate_if_full()
print("end of stdout", flush=True)
"""


def write(path: Path, limit: int) -> None:
    command = [sys.executable, "-c", WRITER.format(lines=LINES), str(path), str(limit)]
    subprocess.run(command, check=True, timeout=120)


def read_pairs(*paths: Path) -> list[str]:
    text = "".join(path.read_text("utf-8") for path in paths if path.exists())
    return [line.split()[0] for line in text.splitlines() if ":" in line]


def test_processes_that_share_a_file_lose_no_line_when_it_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    # Half of everything: the file is renamed once, so both files together have all.
    write(path, limit=3 * LINES * 28 * 5 // 8)
    pairs = read_pairs(tmp_path / "gateway.log.1", path)
    assert sorted(pairs) == sorted(f"{number}:{line}" for number in range(3) for line in range(LINES))
    assert (tmp_path / "gateway.log.1").stat().st_size >= 3 * LINES * 28 * 5 // 8


def test_there_are_never_more_than_two_files_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "gateway.log"
    write(path, limit=1000)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["gateway.log", "gateway.log.1"]
    # Each process may add one line before it notices.
    assert all(each.stat().st_size < 1000 + 3 * 40 for each in tmp_path.iterdir())
    assert "end of stdout" in path.read_text("utf-8")
    assert path.stat().st_mode & 0o077 == 0
