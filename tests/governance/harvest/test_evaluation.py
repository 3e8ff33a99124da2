"""Harvest finds every generated call with its arguments, and takes hardly any quotation for a call."""

from pathlib import Path

import pytest

from tests.governance.harvest.evaluate import (
    COLUMNS,
    MORE_COLUMNS,
    Score,
    evaluate,
    score_template,
    write_table,
)
from tests.governance.harvest.published import PublishedTemplate, published_templates

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "harvest.md"
SCORES = evaluate(count=1, seed=7)
#: Families that `auto` does not read, because their marker or its absence proves too little.
NOT_BY_AUTO = {"granite_20b", "phi4_mini", "xlam", "llama4"}
#: LFM2 writes its answer behind the call; a whole reply of bare JSON in a fence is a call.
MAX_FALSE = 1
#: Families whose published templates write no marker: only strict JSON counts.
STRICT = {"llama3"}


@pytest.mark.rule("G2", "G4", "R83", "R90")
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.family)
def test_generated_calls_and_quotations_become_what_they_are(score: Score) -> None:
    assert score.found == score.calls
    assert score.found_by_auto == (0 if score.family in NOT_BY_AUTO else score.calls)
    assert (score.unequal, score.uneven) == (0, 0)
    assert score.false <= MAX_FALSE
    assert score.false_by_auto <= MAX_FALSE


@pytest.mark.rule("G2", "G4", "G5", "R83", "R90")
@pytest.mark.parametrize("template", published_templates(), ids=str)
def test_turns_of_a_published_chat_template_become_what_they_are(template: PublishedTemplate) -> None:
    score = score_template(template, count=2, seed=7)
    assert score.found == score.calls
    assert (score.unequal, score.uneven, score.visible) == (0, 0, 0)
    assert score.false <= MAX_FALSE
    assert score.false_by_auto <= MAX_FALSE
    assert score.repaired == (0 if template.family in STRICT else score.broken)


def test_the_page_has_the_table_of_published_templates() -> None:
    """Run `python -m tests.governance.harvest.evaluate` and copy its second table."""
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert write_table(("template", *COLUMNS, *MORE_COLUMNS), []).splitlines()[0] in rows
    documented = {tuple(row.strip("| ").split(" | ")[:2]) for row in rows}
    assert {(each.file, each.family) for each in published_templates()} <= documented
