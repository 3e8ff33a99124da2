"""The diagrams in the documentation are those that the code draws."""

import pytest

from tools.diagrams import PAGE, draw, draw_layers, insert, main


def test_the_committed_diagrams_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert draw(page) == page, "run: python -m tools.diagrams"
    assert main(["--check"]) == 0


def test_layers_are_drawn_from_the_contract_of_that_id() -> None:
    contracts = [{"id": "other", "layers": ["x"]}, {"id": "layers", "layers": ["top", "left | right"]}]
    drawn = draw_layers({"tool": {"importlinter": {"contracts": contracts}}})
    assert drawn == "```\n top\n  │\n left │ right\n```"
    with pytest.raises(ValueError, match="no import contracts"):
        draw_layers({})


def test_only_the_text_between_the_markers_changes() -> None:
    page = "a\n<!-- begin x: python -m tools.diagrams -->\nold\n<!-- end x -->\nb"
    assert insert(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="expected one pair of markers"):
        insert("a", "x", "new")
