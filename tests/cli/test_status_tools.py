"""`dragoman status --tools` shows which models make wrong calls."""

from dragoman.cli.status import TOOL_COLUMNS, format_tools
from dragoman.exchange.interventions import COUNTED_AS, REASONING


def test_the_model_that_needed_the_most_help_comes_first() -> None:
    lines = list(
        format_tools(
            [
                {"target": "local/good", "counts": {"replies": 90, "calls": 300, "held": 300, "repaired": 1}},
                {
                    "target": "local/bad",
                    "counts": {"replies": 10, "calls": 12, "repaired": 5, "harvested": 3, "denied": 1},
                },
            ]
        )
    )
    assert lines == [
        "TARGET      REPLIES  CALLS  REPAIRED  HARVESTED  DENIED",
        "local/bad   10       12     5         3          1",
        "local/good  90       300    1         0          0",
    ]


def test_where_nothing_was_governed_the_next_step_is_reported() -> None:
    (line,) = format_tools([])
    assert "[routes.governance]" in line


def test_everything_that_goes_wrong_has_a_column() -> None:
    counted = {name for names in COUNTED_AS.values() for name in names} | {REASONING}
    quiet = {"held", "valid", "allowed", "raised", "contracts", "prompts"}
    assert counted - quiet <= set(TOOL_COLUMNS.values())
