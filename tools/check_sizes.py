"""Fails when a source file or a function has grown too long to read in one sitting.

Lines are counted as the file holds them, comments and docstrings included: they are read too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 60


def oversized(path: Path) -> Iterator[str]:
    """Yield one complaint per limit that the file breaks."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield f"{path}: {lines} lines, at most {FILE_LINES}"
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}"


def main(roots: list[str]) -> int:
    """Check every Python file below the folders: 1 when something is too long, 2 when there is nothing."""
    files = sorted(path for root in roots for path in Path(root).rglob("*.py"))
    if not files:
        sys.stderr.write("error: no Python files below " + ", ".join(map(repr, roots)) + "\n")
        return 2
    complaints = [complaint for path in files for complaint in oversized(path)]
    for complaint in complaints:
        sys.stderr.write(complaint + "\n")
    if complaints:
        sys.stderr.write("hint: split by kind of thing, not into parts\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
