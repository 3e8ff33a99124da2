"""Harvest finds every generated call with its arguments, and takes hardly any quotation for a call."""

import pytest

from tests.governance.harvest.evaluate import FamilyScore, evaluate

SCORES = evaluate(count=1, seed=7)
#: Families that `auto` does not read, because their marker or its absence proves too little.
NOT_BY_AUTO = {"granite_20b", "phi4_mini", "xlam", "llama4"}
#: LFM2 writes its answer behind the call; a whole reply of bare JSON in a fence is a call.
MAX_FALSE = 1


@pytest.mark.rule("G2", "G4", "R83", "R90")
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.family)
def test_generated_calls_and_quotations_become_what_they_are(score: FamilyScore) -> None:
    assert score.found == score.calls
    assert score.found_by_auto == (0 if score.family in NOT_BY_AUTO else score.calls)
    assert (score.unequal, score.uneven) == (0, 0)
    assert score.false <= MAX_FALSE
    assert score.false_by_auto <= MAX_FALSE
