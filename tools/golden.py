"""Rewrites the expected sections of the golden cases with the present output of dragoman.

Read every changed line before you commit it: a golden file is reviewed truth, not a record of habits.

    python -m tools.golden [--check] [name ...]
"""

import sys
from collections.abc import Sequence

from dragoman.hub.errors import DragomanError
from tests.cases.case_file import case_files, filled, read_case, written
from tests.cases.run import run_reply, run_request


def main(arguments: Sequence[str]) -> int:
    """Rewrite the cases whose names contain one of the words; with `--check` only print their names."""
    check = "--check" in arguments
    words = [argument for argument in arguments if argument != "--check"]
    changed = 0
    for path in case_files():
        case = read_case(path)
        if words and not any(word in case.name for word in words):
            continue
        try:
            text = written(filled(case, run_reply, run_request))
        except (DragomanError, ValueError) as error:
            sys.stderr.write(f"{case.name}: {error}\n")
            changed += 1
            continue
        if text != path.read_text(encoding="utf-8"):
            changed += 1
            sys.stdout.write(f"{case.name}\n")
            if not check:
                path.write_text(text, encoding="utf-8")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
