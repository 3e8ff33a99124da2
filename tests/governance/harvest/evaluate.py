"""How well harvest does on generated texts: `python -m tests.governance.harvest.evaluate [COUNT] [SEED]`.

For each family it writes calls as the family's chat template does (`templates.toml`), with random arguments,
in texts that call a tool and in texts that only quote a call. The table shows the calls found, under the
family's name and under `auto`, the calls whose arguments differ from what was written, the quotations taken
for calls, and the texts whose outcome depends on how they were cut.
"""

import random
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dragoman.governance.harvest import AUTO
from dragoman.hub.content import ToolCall
from tests.governance.harvest.case_file import describe
from tests.governance.harvest.running import cut, harvested
from tests.governance.harvest.test_quotations import CALLING, QUOTING

TEMPLATES = tomllib.loads((Path(__file__).resolve().parent / "templates.toml").read_text(encoding="utf-8"))
#: What random values consist of: words, code, quotation marks, escapes, and pieces of the formats themselves.
FRAGMENTS = (
    *("ls", "-la", "src/main.py", "naïve", "日本", "x = 1", "if a < b:", "\n", "\n\n", "\t", " ", "  "),
    *(
        '"',
        "'",
        "\\",
        "\\n",
        "{",
        "}",
        "[",
        "]",
        "<b>",
        "</b>",
        "```",
        "`",
        "&amp;",
        "%s",
        "$HOME",
        "1e5",
        "null",
    ),
    *("<tool_call>", "</tool_call>", "</parameter>", "<|im_end|>", '{"name": "search"}', "</think>"),
)


class FamilyScore(msgspec.Struct):
    """What became of the texts of one family. Families without a marker call only with a whole reply."""

    family: str
    calls: int = 0
    found: int = 0
    found_by_auto: int = 0
    unequal: int = 0
    quotations: int = 0
    false: int = 0
    false_by_auto: int = 0
    uneven: int = 0


def evaluate(count: int = 20, seed: int = 1) -> list[FamilyScore]:
    """The scores of all families, with so many random arguments for each text that calls."""
    dice = random.Random(seed)  # noqa: S311 (test data)
    scores: dict[str, FamilyScore] = {}
    for kind, templates in TEMPLATES.items():
        for family, template in templates.items():
            if family != AUTO:
                score = scores.setdefault(family, FamilyScore(family))
                _score_calls(score, kind, template, count, dice)
                _score_quotations(score, kind, template, dice)
    return list(scores.values())


def _score_calls(score: FamilyScore, kind: str, template: str, count: int, dice: random.Random) -> None:
    frames = CALLING[:1] if template.startswith(("{", "[s", "[{", "</think>")) else CALLING
    for frame in frames:
        for _ in range(count):
            arguments = _make_arguments(kind, dice)
            # Each text has one call.
            before, *behind = frame.split("%s")
            text = before + _write(kind, template, arguments) + "".join(behind)
            calls = list(_calls_in(score.family, [text]))
            score.calls += 1
            score.found += len(calls) == 1
            score.unequal += calls not in ([], [arguments])
            by_auto = list(_calls_in(AUTO, [text]))
            score.found_by_auto += len(by_auto) == 1
            score.unequal += by_auto not in ([], [arguments])
            score.uneven += _depends_on_cuts(score.family, text, dice)


def _score_quotations(score: FamilyScore, kind: str, template: str, dice: random.Random) -> None:
    call = _write(kind, template.removeprefix("</think>"), {"query": "ls -la"})
    for frame in QUOTING:
        text = frame.replace("%s", call)
        score.quotations += 1
        score.false += bool(list(_calls_in(score.family, [text])))
        score.false_by_auto += bool(list(_calls_in(AUTO, [text])))
        score.uneven += _depends_on_cuts(score.family, text, dice)


def _make_arguments(kind: str, dice: random.Random) -> dict[str, object]:
    """Arguments of `search`; the formats of one raw or Python value have a query alone."""
    query = "".join(dice.choices(FRAGMENTS, k=dice.randint(0, 12)))
    if kind != "json":
        return {"query": query}
    return {"query": query, "limit": dice.randint(-5, 5), "tags": dice.choices(FRAGMENTS, k=2), "note": None}


def _write(kind: str, template: str, arguments: dict[str, object]) -> str:
    written = {
        "json": msgspec.json.encode(arguments).decode(),
        "raw": str(arguments["query"]),
        "python": repr(arguments["query"]),
    }
    return template.replace("%s", written[kind])


def _calls_in(family: str, pieces: list[str]) -> Iterator[object]:
    for block in harvested(family, pieces).blocks:
        if isinstance(block, ToolCall):
            yield msgspec.json.decode(block.arguments)


def _depends_on_cuts(family: str, text: str, dice: random.Random) -> bool:
    places = [dice.randint(0, len(text)) for _ in range(dice.randint(1, 12))]
    whole = describe(harvested(family, [text]))
    return whole != describe(harvested(family, cut(text, *places))) or whole != describe(
        harvested(family, list(text))
    )


def main(arguments: list[str]) -> int:
    count, seed = (int(value) for value in (*arguments, *("20", "1")[len(arguments) :]))
    names = ("family", "calls", "found", "by auto", "unequal", "quoted", "false", "by auto", "uneven")
    rows = [names, *(tuple(map(str, msgspec.structs.astuple(score))) for score in evaluate(count, seed))]
    for row in rows:
        sys.stdout.write(f"{row[0]:16}" + "".join(f"{value:>9}" for value in row[1:]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
