"""How well harvest does on generated texts: `python -m tests.governance.harvest.evaluate [COUNT] [SEED]`.

It writes calls with random arguments, in texts that call a tool and in texts that only quote a call. The
first table has a row per family, with calls as `templates.toml` shows them. The second has a row per
published chat template (`published.toml`), with whole turns as it renders them: reasoning, text,
one or two calls.
docs/harvest.md explains the columns.
"""

import json
import random
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dragoman.governance.harvest import AUTO
from dragoman.governance.settings import read_governance
from dragoman.governance.stages import build_stages
from dragoman.governance.tool_names import DeclaredTool
from dragoman.hub.blocks import Reasoning, Text, ToolCall
from dragoman.hub.events import ReplyEvent
from dragoman.hub.fold import Reply, fold
from dragoman.hub.ids import IdSource
from tests.governance.harvest.case_file import describe
from tests.governance.harvest.published import (
    SEARCH,
    PublishedTemplate,
    published_templates,
    write_call,
    write_turn,
)
from tests.governance.harvest.running import TOOLS, cut, harvested, reply_of
from tests.governance.harvest.test_quotations import CALLING, QUOTING

TEMPLATES = tomllib.loads((Path(__file__).resolve().parent / "templates.toml").read_text(encoding="utf-8"))
#: What random values consist of: words, code, quotation marks, escapes.
WORDS = (
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
)
PLAIN_WORDS = tuple(word for word in WORDS if not set(word) & set("\"'\\\n"))
#: Pieces of the formats themselves.
MARKERS = ("<tool_call>", "</tool_call>", "</parameter>", "<|im_end|>", '{"name": "search"}', "</think>")
Arguments = dict[str, object]


class Score(msgspec.Struct):
    """What became of the texts of one family or template."""

    title: str
    family: str
    calls: int = 0
    found: int = 0
    found_by_auto: int = 0
    unequal: int = 0
    quotations: int = 0
    false: int = 0
    false_by_auto: int = 0
    uneven: int = 0


class TemplateScore(Score):
    """Also: the turns whose reasoning or text differs, and the turns with broken arguments."""

    visible: int = 0
    broken: int = 0
    repaired: int = 0


def evaluate(count: int = 5, seed: int = 1) -> list[Score]:
    """The scores of all families, with so many random arguments for each text that calls."""
    dice = random.Random(seed)  # noqa: S311 (test data)
    scores: dict[str, Score] = {}
    for kind, templates in TEMPLATES.items():
        for family, template in templates.items():
            if family != AUTO:
                score = scores.setdefault(family, Score(family, family))
                _score_family(score, kind, template, count, dice)
    return list(scores.values())


def evaluate_published(count: int = 5, seed: int = 1) -> list[TemplateScore]:
    """The scores of all published templates, with so many random arguments for each turn."""
    return [score_template(template, count, seed) for template in published_templates()]


def _score_family(score: Score, kind: str, template: str, count: int, dice: random.Random) -> None:
    # Families without a marker call only with a whole reply.
    frames = CALLING[:1] if template.startswith(("{", "[s", "[{", "</think>")) else CALLING
    for frame in frames:
        for _ in range(count):
            arguments = _make_arguments(kind, dice)
            # Each text has one call.
            before, *behind = frame.split("%s")
            text = before + _write(kind, template, arguments) + "".join(behind)
            _score_text(score, text, [arguments], dice)
    call = _write(kind, template.removeprefix("</think>"), {"query": "ls -la"})
    _score_quotations(score, [frame.replace("%s", call) for frame in QUOTING], dice)


def score_template(template: PublishedTemplate, count: int, seed: int) -> TemplateScore:
    """The score of one published template."""
    dice = random.Random(seed)  # noqa: S311 (test data)
    score = TemplateScore(template.file, template.family)
    for thought in template.thoughts:
        for text in template.texts:
            for _ in range(count):
                number = 1 if template.is_single else dice.randint(1, 2)
                words = PLAIN_WORDS if template.is_unescaped else WORDS
                calls = [_make_published_arguments(words, dice) for _ in range(number)]
                turn = write_turn(template, calls, text=text, thought=thought)
                _score_text(score, turn, calls, dice, (SEARCH,))
                score.visible += _differs_visibly(template, turn, text, thought)
                _score_repair(score, template, turn, calls[0])
    call = write_call(template)
    texts = [frame.replace("%s", call) for frame in QUOTING]
    turns = [write_turn(template, [], text=text, thought=template.thoughts[0]) for text in texts]
    _score_quotations(score, turns, dice, (SEARCH,))
    return score


def _score_text(
    score: Score,
    text: str,
    calls: list[Arguments],
    dice: random.Random,
    tools: Sequence[DeclaredTool] = TOOLS,
) -> None:
    named, by_auto = (list(_calls_in(harvested(name, [text], tools=tools))) for name in (score.family, AUTO))
    score.calls += 1
    score.found += named == calls
    score.found_by_auto += by_auto == calls
    score.unequal += (named not in ([], calls)) + (by_auto not in ([], calls))
    score.uneven += _depends_on_cuts(score.family, text, dice, tools)


def _score_quotations(
    score: Score, texts: list[str], dice: random.Random, tools: Sequence[DeclaredTool] = TOOLS
) -> None:
    for text in texts:
        score.quotations += 1
        score.false += any(_calls_in(harvested(score.family, [text], tools=tools)))
        score.false_by_auto += any(_calls_in(harvested(AUTO, [text], tools=tools)))
        score.uneven += _depends_on_cuts(score.family, text, dice, tools)


def _differs_visibly(template: PublishedTemplate, turn: str, text: str, thought: str) -> bool:
    """Whether framing is visible, or the text or the thought is not where it belongs."""
    blocks = harvested(template.family, [turn], tools=(SEARCH,)).blocks
    texts = [block.text.strip() for block in blocks if isinstance(block, Text)]
    thoughts = [block.text.strip() for block in blocks if isinstance(block, Reasoning)]
    # Some templates drop one or the other from a turn with calls.
    return texts != [text for text in (text,) if text and text in turn] or thoughts != [
        thought for thought in (thought,) if thought and thought in turn
    ]


def _score_repair(score: TemplateScore, template: PublishedTemplate, turn: str, arguments: Arguments) -> None:
    """Write the arguments with a trailing comma, where the template writes JSON, and govern the turn."""
    for separators in ((", ", ": "), (",", ":")):
        written = _write_json(arguments, separators)
        if written not in turn:
            continue
        governance = read_governance({"harvest": template.family, "tools": "hold"})
        stages = build_stages(governance, (SEARCH,), ids=IdSource("seed"), report=lambda _: None)
        events: list[ReplyEvent] = reply_of([turn.replace(written, written[:-1] + ",}", 1)])
        for stage in stages:
            events = [after for event in events for after in stage.feed(event)]
        score.broken += 1
        score.repaired += next(_calls_in(fold(events)), None) == arguments
        return


def _make_arguments(kind: str, dice: random.Random) -> Arguments:
    """Arguments of `search`; the formats of one raw or Python value have a query alone."""
    fragments = (*WORDS, *MARKERS)
    query = "".join(dice.choices(fragments, k=dice.randint(0, 12)))
    if kind != "json":
        return {"query": query}
    return {"query": query, "limit": dice.randint(-5, 5), "tags": dice.choices(fragments, k=2), "note": None}


def _make_published_arguments(words: Sequence[str], dice: random.Random) -> Arguments:
    """Arguments of `search` as published templates can write them: blanks around a raw value are layout."""
    query = "".join(dice.choices(words, k=dice.randint(0, 12))).strip()
    return {
        "query": query or "ls",
        "limit": dice.randint(-5, 5),
        "exact": dice.random() < 0.5,
        "tags": dice.choices(("a b", "naïve", "x = 1", "日本"), k=2),
        "filter": {"path": dice.choice(("src", "a/b.py")), "depth": dice.randint(0, 3)},
    }


def _write(kind: str, template: str, arguments: Arguments) -> str:
    written = {
        "json": msgspec.json.encode(arguments).decode(),
        "raw": str(arguments["query"]),
        "python": repr(arguments["query"]),
    }
    return template.replace("%s", written[kind])


def _write_json(arguments: Arguments, separators: tuple[str, str]) -> str:
    return json.dumps(arguments, ensure_ascii=False, separators=separators)


def _calls_in(reply: Reply) -> Iterator[object]:
    for block in reply.blocks:
        if isinstance(block, ToolCall):
            yield msgspec.json.decode(block.arguments)


def _depends_on_cuts(
    family: str, text: str, dice: random.Random, tools: Sequence[DeclaredTool] = TOOLS
) -> bool:
    places = [dice.randint(0, len(text)) for _ in range(dice.randint(1, 12))]
    whole, in_pieces, in_letters = (
        describe(harvested(family, pieces, tools=tools))
        for pieces in ([text], cut(text, *places), list(text))
    )
    return whole != in_pieces or whole != in_letters


#: The columns that both tables have.
COLUMNS = (
    "family",
    "turns",
    "found",
    "by `auto`",
    "other calls",
    "quotations",
    "false",
    "by `auto`",
    "uneven",
)
MORE_COLUMNS = ("visible", "broken", "repaired")


def write_table(columns: tuple[str, ...], scores: Sequence[Score]) -> str:
    """The scores as a table in Markdown."""
    rows = [
        columns,
        ("---",) * len(columns),
        *(tuple(map(str, msgspec.structs.astuple(each))) for each in scores),
    ]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main(arguments: list[str]) -> int:
    count, seed = (int(value) for value in (*arguments, *("5", "1")[len(arguments) :]))
    sys.stdout.write(write_table(("format", *COLUMNS), evaluate(count, seed)) + "\n")
    sys.stdout.write(write_table(("template", *COLUMNS, *MORE_COLUMNS), evaluate_published(count, seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
