"""Draws the diagrams of docs/ARCHITECTURE.md from the code, between markers in the text.

    python -m tools.diagrams            # write the diagrams into the page
    python -m tools.diagrams --check    # exit with 1 if the page differs

The layers come from the import contract in pyproject.toml, the grammar of replies from the tables in
`hub/reply_grammar.py`. Text outside of the markers stays as it is.
"""

import re
import sys
import tomllib
from pathlib import Path

from dragoman.hub.events import BlockClosed, BlockOpened
from dragoman.hub.reply_grammar import BLOCK_DELTAS, REPLY_MOVES, ReplyPhase

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ARCHITECTURE.md"


def draw_layers(project: dict[str, object]) -> str:
    """The layers of the import contract, the highest first. `project` is the decoded pyproject.toml."""
    match project:
        case {"tool": {"importlinter": {"contracts": [*contracts]}}}:
            (layers,) = (each["layers"] for each in contracts if each.get("id") == "layers")
        case _:
            raise ValueError("pyproject.toml has no import contracts")
    lines = [" " + " │ ".join(name.strip() for name in layer.split("|")) for layer in layers]
    return "```\n" + "\n  │\n".join(lines) + "\n```"


def draw_phases() -> str:
    """The phases of a reply as a Mermaid state diagram; events with the same effect share an arrow."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {ReplyPhase.NEW.name}"]
    for phase, moves in REPLY_MOVES.items():
        for after in dict.fromkeys(moves.values()):
            events = ", ".join(kind.__name__ for kind, target in moves.items() if target is after)
            lines.append(f"    {phase.name} --> {after.name}: {events}")
        if not moves:
            lines.append(f"    {phase.name} --> [*]")
    return "\n".join([*lines, "```"])


def draw_blocks() -> str:
    """The life of one block, and the deltas that an open block of each kind accepts."""
    lines = [
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> OPEN: {BlockOpened.__name__}",
        "    OPEN --> OPEN: deltas of its kind",
        f"    OPEN --> [*]: {BlockClosed.__name__}",
        "```",
        "",
        "| block | deltas while it is open |",
        "|---|---|",
    ]
    for kind, accepted in BLOCK_DELTAS.items():
        deltas = ", ".join(f"`{delta}`" for delta in sorted(delta.__name__ for delta in accepted))
        lines.append(f"| `{kind.__name__}` | {deltas or 'none: it opens complete'} |")
    return "\n".join(lines)


def insert(page: str, name: str, diagram: str) -> str:
    """Replace the text between the markers of this name."""
    begin, end = f"<!-- begin {name}: python -m tools.diagrams -->", f"<!-- end {name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"expected one pair of markers {begin!r} and {end!r}")
    return pattern.sub(lambda _: f"{begin}\n{diagram}\n{end}", page)


def draw(page: str) -> str:
    """The page with all diagrams up to date."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = insert(page, "layers", draw_layers(project))
    page = insert(page, "phases of a reply", draw_phases())
    return insert(page, "blocks of a reply", draw_blocks())


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    drawn = draw(page)
    if "--check" in arguments:
        return int(drawn != page)
    PAGE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
